"""One task attempt: sandboxes, tasks, tools, agents and grading. Never imports torch."""

"""What the `bash` agent is told."""

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.tasks.task import Task

SENTINEL = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

SYSTEM = f"""\
You are a programmer who repairs a code repository through a shell. Each reply holds your thoughts, if any, and exactly
one command in a fenced block:

```bash
command
```

You are then shown what it printed, and its exit code if that is not 0. A command may have several lines. Each runs in
a new shell: files stay, but directory, variables and functions do not, so write `cd DIRECTORY && ...` where needed. It
gets no input, so use no editor or pager, and it is stopped when it takes too long. To hand in your work, once the
problem is solved, run this command, alone:

```bash
echo {SENTINEL}
```
"""

USER = """\
The repository is in {directory}, where each command begins. This is the problem:

{problem}

Change the repository so that the problem is solved. Leave the tests alone; others will check your work. Begin by \
finding the place in the code, and confirm your change by running it before you hand it in.
"""

NOT_ONE_BLOCK = "[Nothing was run: your reply has {count} commands. Reply with exactly one block: ```bash ... ```.]"


def first_messages(task: Task) -> list[Message]:
    """System and user message."""
    user = USER.format(directory=task.working_directory, problem=task.problem_statement.strip())
    return [Message("system", SYSTEM), Message("user", user)]

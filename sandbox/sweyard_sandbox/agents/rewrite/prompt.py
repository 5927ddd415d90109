"""What the `rewrite` agent is told."""

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.agents.r2e.prompt import BASH, CALL_FORM, FINISH, SEARCH
from sweyard_sandbox.tasks.task import Task

VIEW = """\
view: look at a file, with line numbers, or at a directory.
  path: file or directory
  view_range: the lines to show, as [first, last]; optional
"""
REWRITE = """\
rewrite: put new code in the place of lines of a file, or of the whole file; shows the difference.
  path: the file
  start, end: first and last line that go away; end is start if left out, and the whole file goes if both are
  new_code: what comes there, with its indentation; empty to delete the lines
"""
USER = """\
The repository is in {directory}. This is the problem:

{problem}

Change the repository so that the problem is solved. Leave the tests alone; others will check your work. Begin by \
finding the place in the code, and look at your change before you finish.
"""


def first_messages(task: Task, *, shell: bool) -> list[Message]:
    """System and user message."""
    tools = [VIEW, SEARCH, REWRITE, *([BASH] if shell else []), FINISH]
    user = USER.format(directory=task.working_directory, problem=task.problem_statement.strip())
    return [Message("system", "\n".join([CALL_FORM, *tools])), Message("user", user)]

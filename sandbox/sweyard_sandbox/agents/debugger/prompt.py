"""What the `pdb` agent is told."""

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.agents.r2e.prompt import BASH, CALL_FORM, FILE_EDITOR, FINISH, SEARCH, USER
from sweyard_sandbox.tasks.task import Task

PDB = """\
pdb: speak to the Python debugger. It stays where it is between calls; after changes to files it starts anew.
  command: one command of pdb, such as `b pkg/module.py:12`, `c`, `n`, `p value`; breakpoints are kept and follow edits
  entrypoint: what to debug, such as `python -m pytest tests/test_module.py` or `python script.py`; needed in the first
    call, later only to debug something else
"""


def first_messages(task: Task, *, shell: bool) -> list[Message]:
    """System and user message."""
    tools = [FILE_EDITOR, SEARCH, PDB, *([BASH] if shell else []), FINISH]
    user = USER.format(directory=task.working_directory, problem=task.problem_statement.strip())
    return [Message("system", "\n".join([CALL_FORM, *tools])), Message("user", user)]

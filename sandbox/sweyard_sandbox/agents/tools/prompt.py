"""What agents that call tools are told."""

from collections.abc import Iterable

from sweyard_sandbox.agents.protocol import Message
from sweyard_sandbox.tasks.task import Task

CALL_FORM = """\
You are a programmer who repairs a code repository through tools. Call one tool in each reply, in this form:

<function=NAME>
<parameter=PARAMETER>value</parameter>
</function>

Write your thoughts before the call, if any, and nothing after it. Values are taken as they are, without quotes.
"""
FILE_EDITOR = """\
file_editor: look at files and change them.
  command: view, create, str_replace, insert or undo_edit
  path: file, or for view also a directory
  view_range: for view, the lines to show, as [first, last]; optional
  file_text: for create, the whole text
  old_str, new_str: for str_replace; old_str must occur exactly once in the file
  insert_line, new_str: for insert; new_str goes after that line
"""
BASH = """\
execute_bash: run a command in the shell. Nothing is kept between commands except files.
  cmd: the command; it gets no input and is stopped when it takes too long
"""
SEARCH = """\
search: find the lines that contain a text.
  search_term: the text, literally
  path: file or directory; optional, default the whole repository
"""
FINISH = """\
finish: hand in your work, once the problem is solved.
  result: one sentence about what you did; optional
"""
USER = """\
The repository is in {directory}. This is the problem:

{problem}

Change the repository so that the problem is solved. Leave the tests alone; others will check your work. Begin by \
finding the place in the code, and {check} before you finish.
"""

TASK_OF_NATIVE = """\
You are a programmer who repairs a code repository through tools. Call one tool in each reply; write your thoughts \
before the call, if any.
"""
MALFORMED_NATIVE = "[No tool was called. Call exactly one tool in each reply.]"
MALFORMED = "[No tool was called. Reply with exactly one call: <function=NAME> ... </function>.]"
FIRST_ONLY = "[Only the first call was carried out. Call one tool in each reply.]\n"


def brief(task: Task, tools: Iterable[str], *, check: str = "confirm your change by running it") -> list[Message]:
    """System and user message for an agent with these tools and `finish`."""
    return [Message("system", "\n".join((CALL_FORM, *tools, FINISH))), _asked(task, check)]


def native_brief(task: Task, *, check: str = "confirm your change by running it") -> list[Message]:
    """The same for an agent whose chat template tells of its tools."""
    return [Message("system", TASK_OF_NATIVE), _asked(task, check)]


def _asked(task: Task, check: str) -> Message:
    problem = task.problem_statement.strip()
    return Message("user", USER.format(directory=task.working_directory, problem=problem, check=check))

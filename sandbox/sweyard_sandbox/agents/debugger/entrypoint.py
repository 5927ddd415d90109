"""What may be debugged, and what may be said to the debugger. Pure."""

import re
import shlex

from sweyard_sandbox.agents.tools.arguments import ToolError

ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
PYTHON = re.compile(r"(?:\S*/)?python[\d.]*")
WITH_VALUE = {"-W", "-X"}
PLACE = re.compile(r"(b|break|tbreak|cl|clear)\s+([^\s:,/][^\s:,]*\.py):(\S.*)")
REFUSED = {"commands", "interact", "debug", "alias"}
"""They would ask for more input, with a prompt of their own, or rename the rest."""
QUITS = {"q", "quit", "exit", "EOF"}
MOVES = {"s", "step", "n", "next", "c", "cont", "continue", "r", "return", "unt", "until"}
MOVES |= {"j", "jump", "u", "up", "d", "down", "run", "restart"}
"""After these the code around the current line is shown."""
BREAKS = {"b", "break", "tbreak", "cl", "clear", "condition", "disable", "enable", "ignore"}
"""After these the list of breakpoints is read again."""


def debugged(entrypoint: str) -> str:
    """A shell command that runs `entrypoint` under pdb. Raises ToolError."""
    try:
        words = shlex.split(entrypoint)
    except ValueError as error:
        raise ToolError(f"parameter `entrypoint` cannot be read: {error}") from None
    settings = []
    while words and ASSIGNMENT.fullmatch(words[0]):
        settings.append(words.pop(0))
    prefix = ["env", *settings] if settings else []
    if words and words[0] in ("pytest", "py.test"):
        words = ["python", "-m", "pytest", *words[1:]]
    elif words and words[0].endswith(".py"):
        words = ["python", *words]
    if len(words) < 2 or not PYTHON.fullmatch(words[0]):
        raise ToolError("parameter `entrypoint` must be a command of python or pytest, such as `python script.py`")
    return shlex.join([*prefix, *_under_pdb(words)])


def _under_pdb(words: list[str]) -> list[str]:
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "-c"):
        at += 2 if words[at] in WITH_VALUE else 1
    options, rest = words[:at], words[at:]
    if not rest or rest[0] == "-c":
        raise ToolError("parameter `entrypoint` must name a script or a module; write the code to a file")
    if rest[:2] == ["-m", "pdb"]:
        return words
    if rest[:2] == ["-m", "pytest"] and "-s" not in rest:
        rest = [*rest[:2], "-s", *rest[2:]]  # else pytest takes the debugger's input and output away
    return [*options, "-m", "pdb", *rest]


def checked(command: str, working_directory: str, numbers: list[int]) -> str:
    """One command as it is sent: paths absolute, and no question that would wait for an answer. Raises ToolError."""
    command = command.strip()
    word = command.split(" ", 1)[0]
    if not command or "\n" in command or "\0" in command or ";;" in command:
        raise ToolError("parameter `command` must be one command of the debugger, in one line, without `;;`")
    if word in REFUSED:
        raise ToolError(f"the debugger's command `{word}` cannot be used here")
    if command in ("cl", "clear"):  # it would ask whether you are sure
        return f"cl {' '.join(map(str, numbers))}" if numbers else "b"
    if match := PLACE.fullmatch(command):
        return f"{match[1]} {working_directory}/{match[2]}:{match[3]}"
    return command

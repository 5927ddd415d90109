"""Search for a text in a file or below a folder."""

import shlex

from sweyard_sandbox.agents.tools.arguments import Arguments, ToolError, required
from sweyard_sandbox.agents.tools.observation import shorten
from sweyard_sandbox.runtime import Sandbox

MAX_LINES = 100
NO_MATCH = 1


async def search(arguments: Arguments, sandbox: Sandbox, *, timeout_seconds: float) -> str:
    """Lines with `search_term` (literal) in `path`, default the working directory, as `file:line:text`."""
    term = required(arguments, "search_term")
    if not term.strip() or "\n" in term.strip("\n"):
        raise ToolError("parameter `search_term` must be one line of text")
    path = arguments.get("path", ".").strip() or "."
    if "\0" in term + path:
        raise ToolError("parameters `search_term` and `path` must have no NUL character")
    options = "-rnIHF --exclude-dir=.git --exclude-dir=__pycache__"
    command = f"grep {options} -e {shlex.quote(term.strip(chr(10)))} -- {shlex.quote(path)}"
    result = await sandbox.run(command, timeout_seconds=timeout_seconds)
    if result.timed_out:
        raise ToolError(f"the search was stopped after {timeout_seconds:g} s; search in a smaller folder")
    if result.exit_code > NO_MATCH:
        raise ToolError(result.text.strip()[:500])
    lines = result.text.splitlines()
    if not lines:
        return f"No line in {path} has that text."
    more = f"\n[{len(lines) - MAX_LINES} more lines; search for something rarer]" if len(lines) > MAX_LINES else ""
    return shorten("\n".join(lines[:MAX_LINES])) + more

"""One shell command."""

from sweyard_sandbox.agents.tools.arguments import Arguments, ToolError
from sweyard_sandbox.agents.tools.observation import shorten
from sweyard_sandbox.runtime import Sandbox


async def execute_bash(arguments: Arguments, sandbox: Sandbox, *, timeout_seconds: float) -> str:
    """Run `cmd` (or `command`) in the working directory; output, and the exit code unless it is 0."""
    command = arguments.get("cmd", arguments.get("command", ""))
    if not command.strip():
        raise ToolError("parameter `cmd` is missing")
    if "\0" in command:
        raise ToolError("parameter `cmd` has a NUL character")
    result = await sandbox.run(command, timeout_seconds=timeout_seconds)
    notes = []
    if result.truncated:
        notes.append("the output was cut")
    if result.oom_killed:
        notes.append("the command was killed for its memory use")
    if result.timed_out:
        notes.append(f"the command was stopped after {timeout_seconds:g} s")
    elif result.exit_code != 0:
        notes.append(f"exit code {result.exit_code}")
    text = shorten(result.text.rstrip("\n"))
    return "\n".join(filter(None, [text, *(f"[{note}]" for note in notes)])) or "[no output]"

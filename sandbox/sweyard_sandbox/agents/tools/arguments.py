"""Arguments of a call, and what a tool says when they are wrong."""

from collections.abc import Mapping

Arguments = Mapping[str, str]


class ToolError(Exception):
    """The call cannot be carried out; the message goes to the model. Never leaves the agent."""


def required(arguments: Arguments, name: str) -> str:
    """A parameter that must be there."""
    if name not in arguments:
        raise ToolError(f"parameter `{name}` is missing")
    return arguments[name]


def integer(text: str, name: str) -> int:
    """A whole number."""
    try:
        return int(text.strip())
    except ValueError:
        raise ToolError(f"parameter `{name}` must be a whole number, not {text.strip()[:40]!r}") from None

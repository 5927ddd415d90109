"""Replies with a call, as models write them in R2E-Gym's form."""

from sweyard_sandbox.agents.tools.calls import Call


def render_call(call: Call) -> str:
    """What `parse_calls` reads again."""
    parameters = "".join(f"<parameter={key}>{value}</parameter>\n" for key, value in call.arguments.items())
    return f"<function={call.name}>\n{parameters}</function>"


def call(name: str, **arguments: str) -> str:
    """A sentence, and the call of a tool."""
    return "I will look.\n" + render_call(Call(name, arguments))

"""One XML-like call a turn, carried out by the tool that it names."""

from collections.abc import Awaitable, Callable, Mapping

from sweyard_sandbox.agents.loop import Act, Step
from sweyard_sandbox.agents.protocol import Role
from sweyard_sandbox.agents.tools.arguments import Arguments, ToolError
from sweyard_sandbox.agents.tools.calls import parse_calls
from sweyard_sandbox.agents.tools.prompt import FIRST_ONLY, MALFORMED

Tool = Callable[[Arguments], Awaitable[str]]
"""Raises ToolError with words for the model."""


def act_with(tools: Mapping[str, Tool], *, answers: Role = "user", malformed: str = MALFORMED) -> Act:
    """The first call of a reply is carried out; `finish` ends the attempt.

    `answers` is whose word the answer to a call is, `malformed` what a reply without one is told.
    """

    async def act(reply: str) -> Step:
        calls = parse_calls(reply)
        if not calls:
            return Step("", malformed)
        call = calls[0]
        if call.name == "finish":
            return Step("finish", finished=True)
        if call.name not in tools:
            told = f"[There is no tool `{call.name[:40]}`; use one of {', '.join((*tools, 'finish'))}.]"
            return Step("", told, role=answers)
        note = FIRST_ONLY if len(calls) > 1 else ""
        try:
            return Step(call.name, note + await tools[call.name](call.arguments), role=answers)
        except ToolError as error:
            return Step(call.name, f"{note}[{call.name}: {error}.]", role=answers)

    return act

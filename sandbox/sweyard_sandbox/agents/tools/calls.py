"""Function calls as XML-like text. Pure.

    <function=NAME>
    <parameter=P>value</parameter>
    </function>

Values are raw text: one newline after the opening and one before the closing tag are not part of them.
"""

import re
from dataclasses import dataclass, field

FUNCTION = re.compile(r"<function=([A-Za-z_][\w-]*)>(.*?)</function>", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([A-Za-z_][\w-]*)>(.*?)</parameter>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """One call."""

    name: str
    arguments: dict[str, str] = field(default_factory=dict)


def parse_calls(reply: str) -> list[Call]:
    """All complete calls of a reply, in order."""
    return [
        Call(name, {key: value.removeprefix("\n").removesuffix("\n") for key, value in PARAMETER.findall(body)})
        for name, body in FUNCTION.findall(reply)
    ]


def render_call(call: Call) -> str:
    """A call as a model writes it."""
    parameters = "".join(f"<parameter={key}>{value}</parameter>\n" for key, value in call.arguments.items())
    return f"<function={call.name}>\n{parameters}</function>"

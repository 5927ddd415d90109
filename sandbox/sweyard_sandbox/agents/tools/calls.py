"""Function calls in a reply: as agents are told to write them, and as models were trained to. Pure.

    <function=NAME>
    <parameter=P>value</parameter>
    </function>

Values are raw text: one newline after the opening and one before the closing tag are not part of them. Qwen3-Coder puts
<tool_call> around this. The form of Hermes and Qwen3 is read too:

    <tool_call>{"name": "NAME", "arguments": {"P": "value"}}</tool_call>
"""

import json
import re
from dataclasses import dataclass, field
from typing import Any

FUNCTION = re.compile(r"<function=([A-Za-z_][\w-]*)>(.*?)</function>", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([A-Za-z_][\w-]*)>(.*?)</parameter>", re.DOTALL)
HERMES = re.compile(r"<tool_call>\s*(\{.*?\})\s*</tool_call>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """One call."""

    name: str
    arguments: dict[str, str] = field(default_factory=dict)


def parse_calls(reply: str) -> list[Call]:
    """All complete calls of a reply, in order; of a reply with both forms, those in the form that agents are told."""
    return [
        Call(
            name,
            {
                key: value.removeprefix("\n").removesuffix("\n")
                for key, value in PARAMETER.findall(_until_last(body, "</parameter>"))
            },
        )
        for name, body in FUNCTION.findall(_until_last(reply, "</function>"))
    ] or [
        call for text in HERMES.findall(_until_last(reply, "</tool_call>")) if (call := _hermes_call(text)) is not None
    ]


def _until_last(text: str, end: str) -> str:
    """What may hold whole calls: each beginning without an end would be searched for it to the end of the text."""
    return text[: text.rfind(end) + len(end)] if end in text else ""


def _hermes_call(text: str) -> Call | None:
    """Values that are no text become JSON, as which tools read them."""
    if (told := read_json_call(text)) is None:
        return None
    name, arguments = told
    return Call(name, {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()})


def read_json_call(text: str) -> tuple[str, dict[str, Any]] | None:
    """Name and arguments, in the form of Hermes; None for what is no call."""
    value = read_json(text)
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return None
    arguments = value.get("arguments") or {}
    if isinstance(arguments, str):  # models double-encode now and then
        arguments = read_json(arguments)
    return (value["name"], arguments) if isinstance(arguments, dict) else None


def read_json(text: str) -> Any:
    """None for what is none, or has in it what no file, shell or other program takes: NaN, halves of characters."""
    try:
        value = json.loads(text)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        return None
    return value

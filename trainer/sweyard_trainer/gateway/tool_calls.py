"""Tool calls in a model's text, by the form that its chat template teaches: text to calls and back. Pure.

Hermes (Qwen3 and most others):      <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>
Qwen3-Coder: <tool_call><function=NAME><parameter=P>\nvalue\n</parameter>...</function></tool_call>

Both as vLLM's parsers of these names read them (tests/trainer/gateway/test_calls_as_vllm.py has both side by side), but
for what loses something: calls that can be read are handed over although another one cannot, a call without arguments
has an empty object, a value that was cut off is kept, Python's literals are taken for the JSON that they mean, and a
call that no JSON in UTF-8 can say (halves of characters, infinity) is none.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sweyard_sandbox.agents.tools.calls import read_json_call

BLOCK = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
FUNCTION = re.compile(r"<function=([^<>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
PARAMETER = re.compile(r"<parameter=([^<>\n]+)>(.*?)(?:</parameter>|(?=<parameter=)|(?=</function>)|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Parsed:
    """A reply as clients see it."""

    content: str
    """What stands before the calls."""
    calls: tuple[ToolCall, ...] = ()


Schemas = Mapping[str, Mapping[str, Any]]
"""Name of a tool -> JSON schema of its parameters."""


class CallForm(Protocol):
    """One way of writing calls."""

    @property
    def marks(self) -> tuple[str, ...]:
        """What calls begin with."""
        ...

    def parse(self, text: str, schemas: Schemas) -> Parsed:
        """Calls of a reply. A text without any that can be read is content as it is."""
        ...

    def render(self, content: str, calls: Sequence[ToolCall]) -> str:
        """A reply with these calls, for a history that no engine of ours produced."""
        ...


class HermesForm:
    """JSON between tags."""

    marks = ("<tool_call>",)

    def parse(self, text: str, schemas: Schemas) -> Parsed:
        """See CallForm."""
        calls = [ToolCall(*told) for block in BLOCK.findall(text) if (told := read_json_call(block)) is not None]
        return Parsed(text.split("<tool_call>", 1)[0], tuple(calls)) if calls else Parsed(text)

    def render(self, content: str, calls: Sequence[ToolCall]) -> str:
        """See CallForm."""
        shown = [json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False) for call in calls]
        return "\n".join(filter(None, [content, *(f"<tool_call>\n{call}\n</tool_call>" for call in shown)]))


class CoderForm:
    """Tags for the function and each parameter; values are text, read by the tool's schema."""

    marks = ("<tool_call>", "<function=")

    def parse(self, text: str, schemas: Schemas) -> Parsed:
        """See CallForm."""
        calls = [
            ToolCall(name.strip(), _typed(body, schemas.get(name.strip(), {}))) for name, body in FUNCTION.findall(text)
        ]
        content = re.split(r"<tool_call>|<function=", text, maxsplit=1)[0].rstrip()
        return Parsed(content, tuple(calls)) if calls else Parsed(text)

    def render(self, content: str, calls: Sequence[ToolCall]) -> str:
        """See CallForm."""
        return "\n".join(filter(None, [content, *map(_coder_call, calls)]))


def call_form(template: str) -> CallForm | None:
    """The form that a chat template teaches; None if it teaches none of these."""
    if "<function=" in template and "<parameter=" in template:
        return CoderForm()
    return HermesForm() if "<tool_call>" in template else None


def _typed(body: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {
        name.strip(): _value(text.removeprefix("\n").removesuffix("\n"), known.get(name.strip()))
        for name, text in PARAMETER.findall(body)
    }


def _value(text: str, schema: Any) -> Any:
    """Text as the first of the schema's types that it can be; as it is where there is none, so that the tool itself
    may complain."""
    kinds = _kinds(schema) or {"string"}
    readers = [read for kind, read in READERS.items() if kind in kinds]
    for read in (*readers, _json):
        try:
            return read(text)
        except (ValueError, KeyError, RecursionError):
            continue
    return text


def _kinds(schema: Any) -> set[str]:
    """Types that a JSON schema allows, by their names; empty where it says nothing of them."""
    if not isinstance(schema, dict):
        return set()
    told = schema.get("type")
    kinds = {kind for kind in (told if isinstance(told, list) else [told]) if isinstance(kind, str)}
    if isinstance(schema.get("enum"), list):
        kinds |= {KIND_OF[type(value)] for value in schema["enum"] if type(value) in KIND_OF}
    for field in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(field), list):
            kinds = kinds.union(*map(_kinds, schema[field]))
    return kinds


def _null(text: str) -> None:
    if text.lower() != "null":
        raise ValueError(text)


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        value = float(text)
        return int(value) if math.isfinite(value) and value.is_integer() else _finite(value)


def _boolean(text: str) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]


def _structure(text: str) -> Any:
    """JSON, or the Python literal that models write for it."""
    try:
        return _json(text)
    except ValueError:
        try:
            return _finite(ast.literal_eval(text))
        except (SyntaxError, MemoryError, TypeError) as error:
            raise ValueError(str(error)) from error


def _json(text: str) -> Any:
    return _finite(json.loads(text))


def _finite(value: Any) -> Any:
    """The value, if JSON can say it. Raises ValueError for infinity, what is no number and halves of characters,
    TypeError for a set."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


READERS: Mapping[str, Callable[[str], Any]] = {
    "null": _null,
    "integer": int,
    "number": _number,
    "boolean": _boolean,
    "object": _structure,
    "array": _structure,
    "string": str,
}
"""By a JSON schema's types, in the order in which they are tried."""
KIND_OF: Mapping[type, str] = {
    type(None): "null",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
    str: "string",
}


def _coder_call(call: ToolCall) -> str:
    texts = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in call.arguments.items()
    }
    parameters = "".join(f"<parameter={name}>\n{text}\n</parameter>\n" for name, text in texts.items())
    return f"<tool_call>\n<function={call.name}>\n{parameters}</function>\n</tool_call>"

"""Our reading of tool calls beside that of vLLM's own parsers, text by text."""

import json
import math
from typing import Any

import pytest
from tests.trainer.gateway.conftest import make_tokenizer
from tests.trainer.gateway.test_tool_calls import CODER_TEXTS, HERMES_TEXTS, SCHEMAS, THREE
from tests.trainer.gateway.tool_templates import CODER, HERMES

from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.tool_calls import CallForm, CoderForm, HermesForm, ToolCall

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(900), pytest.mark.filterwarnings("default")]

Read = tuple[str, list[tuple[str, Any]]]
"""Content, and calls by name and arguments."""
FORMS: dict[str, tuple[CallForm, str]] = {"hermes": (HermesForm(), HERMES), "qwen3_coder": (CoderForm(), CODER)}
OFFERED = {"edit": SCHEMAS["edit"], "list": {"properties": {}}}
UNICODE = (
    ToolCall("edit", {"path": "é🐍 \u4f60", "line": 1}),
    ToolCall("edit", {"path": "\U0001f469\u200d\U0001f680"}),
)
ONE, TWO = THREE[:1], THREE[1:2]
COMMON = {
    "three calls": lambda form: form.render("I look.", THREE),
    "characters of several tokens": lambda form: form.render("Ünï 🐍", UNICODE),
    "words after a call": lambda form: f"{form.render('a', ONE)}\nand then words",
    "words between calls": lambda form: f"{form.render('a', ONE)}\nbetween\n{form.render('', TWO)}",
    "a tool that was not offered": lambda form: form.render("", (ToolCall("other", {"a": "1"}),)),
    "empty lines before a call": lambda form: form.render("words\n\n", ONE),
    "no calls": lambda form: "words alone\n",
}
TEXTS = {
    **{("hermes", name): text for name, (text, _) in HERMES_TEXTS.items()},
    **{("qwen3_coder", name): f"Now.\n\n{text}" for name, (text, _) in CODER_TEXTS.items()},
    **{(kind, name): make(form) for kind, (form, _) in FORMS.items() for name, make in COMMON.items()},
    ("qwen3_coder", "a call that was cut off"): "<tool_call>\n<function=edit>\n<parameter=path>\na\n</parameter>",
    ("qwen3_coder", "no tag around the function"): "x\n<function=edit>\n<parameter=path>\na\n</parameter>\n</function>",
    ("qwen3_coder", "a value that was cut off"): "<tool_call>\n<function=edit>\n<parameter=path>\na",
}
THEIRS_LOSE: dict[tuple[str, str], Read | None] = {
    ("hermes", "no arguments"): None,
    ("hermes", "one of two is no JSON"): None,
    ("hermes", "arguments encoded twice"): ("", [("a", '{"b": 1}')]),
    ("hermes", "half of a character"): ("", [("a", {"b": "\ud83d"})]),
    ("hermes", "no number"): ("", [("a", {"b": math.inf})]),
    ("qwen3_coder", "half of a character"): ("Now.", [("edit", {"parts": ["\ud83d"]})]),
    ("qwen3_coder", "a value that was cut off"): ("", [("edit", {})]),
    ("qwen3_coder", "typed"): (
        "Now.",
        [("edit", {"line": 7, "share": 0.5, "all": True, "parts": "['a', 1]"})],
    ),
    ("qwen3_coder", "a number with many digits"): ("Now.", [("edit", {"share": int(float(12345678901234567891))})]),
}
"""What they make of it; None: no call, and the text as it is."""


def ours(kind: str, text: str) -> Read:
    parsed = FORMS[kind][0].parse(text, OFFERED)
    return parsed.content, [(call.name, call.arguments) for call in parsed.calls]


@pytest.fixture(scope="module")
def theirs() -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    tools = [{"type": "function", "function": {"name": name, "parameters": told}} for name, told in OFFERED.items()]
    request = ChatCompletionRequest(messages=[{"role": "user", "content": "x"}], model="m", tools=tools)

    def read(kind: str, text: str) -> Read:
        parser = ToolParserManager.get_tool_parser(kind)(make_tokenizer(FORMS[kind][1]), request.tools)
        found = parser.extract_tool_calls(text, request)
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in found.tool_calls]
        return found.content or "", calls

    return read


@pytest.mark.parametrize(("kind", "name"), TEXTS, ids=[f"{kind}: {name}" for kind, name in TEXTS])
def test_calls_are_read_as_by_vllm_but_for_what_that_loses(theirs: Any, kind: str, name: str) -> None:
    renderer = ChatRenderer(make_tokenizer(FORMS[kind][1]))
    text = renderer.text(renderer.reply_ids(TEXTS[kind, name]))
    assert text == TEXTS[kind, name], "the tokens of a reply are its text again"
    read, mine = theirs(kind, text), ours(kind, text)
    if (kind, name) in THEIRS_LOSE:
        assert read == (THEIRS_LOSE[kind, name] or (text, []))
        assert mine != read
    else:
        assert json.dumps(mine) == json.dumps(read)

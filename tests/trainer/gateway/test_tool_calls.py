"""Tool calls: text to calls and back, and a client of tools whose history stays the sequence that was sampled."""

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trainer.gateway.conftest import make_tokenizer
from tests.trainer.gateway.tool_templates import CODER, HERMES

from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.public_app import public_app
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits
from sweyard_trainer.gateway.tool_calls import CoderForm, HermesForm, Parsed, ToolCall, call_form

SCHEMAS = {
    "edit": {
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer"},
            "share": {"type": "number"},
            "all": {"type": "boolean"},
            "parts": {"type": "array"},
            "last": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "level": {"enum": [1, "all"]},
        }
    }
}
THREE = (
    ToolCall("edit", {"path": "a\nb ", "line": 3}),
    ToolCall("list", {}),
    ToolCall("edit", {"parts": [1, {"a": "é"}]}),
)


@pytest.mark.parametrize(
    ("form", "content"), [(HermesForm(), "I look.\n"), (CoderForm(), "I look.")], ids=["hermes", "coder"]
)
def test_three_calls_and_the_text_before_them_are_read(form: Any, content: str) -> None:
    assert form.parse(form.render("I look.", THREE), SCHEMAS) == Parsed(content, THREE)


HERMES_TEXTS = {
    "no calls": ("just text\n", Parsed("just text\n")),
    "not closed": ('<tool_call>{"name": "a", "arguments": {}}', Parsed("", (ToolCall("a", {}),))),
    "no arguments": ('x\n<tool_call>{"name": "a"}</tool_call>', Parsed("x\n", (ToolCall("a", {}),))),
    "arguments encoded twice": (
        '<tool_call>{"name": "a", "arguments": "{\\"b\\": 1}"}</tool_call>',
        Parsed("", (ToolCall("a", {"b": 1}),)),
    ),
    "one of two is no JSON": (
        '<tool_call>{"name": }</tool_call>\n<tool_call>{"name": "b", "arguments": {}}</tool_call>',
        Parsed("", (ToolCall("b", {}),)),
    ),
    "none is JSON": ("<tool_call>oops</tool_call>", Parsed("<tool_call>oops</tool_call>")),
    "half of a character": (
        '<tool_call>{"name": "a", "arguments": {"b": "\\ud83d"}}</tool_call>',
        Parsed('<tool_call>{"name": "a", "arguments": {"b": "\\ud83d"}}</tool_call>'),
    ),
    "no number": (
        '<tool_call>{"name": "a", "arguments": {"b": 1e999}}</tool_call>',
        Parsed('<tool_call>{"name": "a", "arguments": {"b": 1e999}}</tool_call>'),
    ),
    "a list": ("<tool_call>[1]</tool_call>", Parsed("<tool_call>[1]</tool_call>")),
}


@pytest.mark.parametrize(("text", "parsed"), HERMES_TEXTS.values(), ids=HERMES_TEXTS)
def test_hermes_calls_as_models_write_them(text: str, parsed: Parsed) -> None:
    assert HermesForm().parse(text, {}) == parsed


def test_beginnings_without_an_end_are_no_calls() -> None:
    assert CoderForm().parse(coder("<parameter=" * 20_000), {}).calls == (ToolCall("edit", {}),)
    assert CoderForm().parse("<function=" * 20_000, {}).calls == ()


def coder(body: str) -> str:
    return f"<tool_call>\n<function=edit>\n{body}</function>\n</tool_call>"


CODER_TEXTS = {
    "typed": (
        coder(
            "<parameter=line>\n7\n</parameter>\n<parameter=share>0.5</parameter><parameter=all>True</parameter>"
            "<parameter=parts>\n['a', 1]\n</parameter>"
        ),
        {"line": 7, "share": 0.5, "all": True, "parts": ["a", 1]},
    ),
    "text that looks like a number": (coder("<parameter=path>7</parameter>"), {"path": "7"}),
    "no such type": (
        coder("<parameter=line>seven</parameter><parameter=all>maybe</parameter>"),
        {"line": "seven", "all": "maybe"},
    ),
    "unknown parameter": (coder("<parameter=other>1</parameter>"), {"other": "1"}),
    "parameter not closed": (coder("<parameter=path>a<parameter=line>1</parameter>"), {"path": "a", "line": 1}),
    "code with tags": (coder("<parameter=path>\n<b>x</b>\n  y\n</parameter>"), {"path": "<b>x</b>\n  y"}),
    "the word null": (
        coder("<parameter=path>null</parameter><parameter=line>null</parameter><parameter=last>null</parameter>"),
        {"path": "null", "line": None, "last": None},
    ),
    "one of two types": (
        coder("<parameter=last>7</parameter><parameter=level>all</parameter>"),
        {"last": 7, "level": "all"},
    ),
    "a whole number with a point": (
        coder("<parameter=line>3.0</parameter><parameter=share>3.0</parameter>"),
        {"line": 3.0, "share": 3},
    ),
    "a number with many digits": (
        coder("<parameter=share>12345678901234567891</parameter>"),
        {"share": 12345678901234567891},
    ),
    "no number that JSON knows": (
        coder("<parameter=share>nan</parameter><parameter=parts>[1e999]</parameter><parameter=all>1</parameter>"),
        {"share": "nan", "parts": "[1e999]", "all": True},
    ),
    "half of a character": (coder('<parameter=parts>["\\ud83d"]</parameter>'), {"parts": '["\\ud83d"]'}),
    "none at all": (coder(""), {}),
}


@pytest.mark.parametrize(("text", "arguments"), CODER_TEXTS.values(), ids=CODER_TEXTS)
def test_coder_calls_are_read_by_the_tools_schema(text: str, arguments: dict[str, Any]) -> None:
    assert CoderForm().parse(f"Now.\n\n{text}", SCHEMAS) == Parsed("Now.", (ToolCall("edit", arguments),))


@given(text=st.text(st.sampled_from(list('<>/=tool_callfunction parameter{}"\n[]:,1e')), max_size=120))
def test_any_text_is_read_or_left_as_it_is(text: str) -> None:
    for form in (HermesForm(), CoderForm()):
        parsed = form.parse(text, SCHEMAS)
        assert parsed.calls or parsed.content == text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@given(arguments=st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_hermes_loses_no_argument(arguments: dict[str, Any]) -> None:
    calls = (ToolCall("a", arguments),)
    written = HermesForm().render("", calls)
    if "<tool_call>" not in written.removeprefix("<tool_call>") and "</tool_call>" not in json.dumps(arguments):
        assert HermesForm().parse(written, {}) == Parsed("", calls)


@pytest.mark.parametrize(
    ("template", "form"), [(HERMES, HermesForm), (CODER, CoderForm), ("{{ messages }}", type(None))]
)
def test_form_is_the_templates(template: str, form: type) -> None:
    assert isinstance(call_form(template), form)


QUESTION = {"role": "user", "content": "hello"}
TOOLS = [
    {"type": "function", "function": {"name": "edit", "parameters": SCHEMAS["edit"]}},
    {"type": "function", "function": {"name": "list"}},
]
FORMS = {"hermes": (HERMES, HermesForm()), "coder": (CODER, CoderForm())}


class Client:
    """A client of tools over HTTP, as command-line agents are."""

    def __init__(self, template: str, replies: list[str], **limits: Any) -> None:
        self.renderer = ChatRenderer(make_tokenizer(template))
        self.gateway = Gateway(self.renderer, Limits(2_000, 8_000, 2_000, **limits))
        self.replies = iter(replies)
        self.engine = FakeEngine(lambda prompt, seed: self.renderer.reply_ids(next(self.replies)))

    async def __aenter__(self) -> "Client":
        await self.gateway.use_engines([self.engine], 0)
        self.gateway.create_session("a", "key", temperature=1.0, seed=0)
        headers = {"Authorization": "Bearer key"}
        transport = httpx.ASGITransport(public_app(self.gateway))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def ask(self, messages: list[dict[str, Any]], *, stream: bool = False, **more: Any) -> dict[str, Any]:
        body = {"messages": messages, "tools": TOOLS, "stream": stream} | more
        response = await self.http.post("/v1/chat/completions", json=body)
        assert response.status_code == 200, response.text
        if not stream:
            choice: dict[str, Any] = response.json()["choices"][0]
            return choice["message"] | {"finish": choice["finish_reason"]}
        return joined(response.text)


def joined(stream: str) -> dict[str, Any]:
    """As a client puts a stream together."""
    message: dict[str, Any] = {"role": "assistant", "content": ""}
    for event in stream.split("\n\n"):
        if event.startswith("data: {"):
            choice = json.loads(event.removeprefix("data: "))["choices"][0]
            message["content"] += choice["delta"].get("content", "")
            calls = choice["delta"].get("tool_calls", [])
            message |= (
                {"tool_calls": [{k: v for k, v in call.items() if k != "index"} for call in calls]} if calls else {}
            )
            message["finish"] = choice["finish_reason"]
    return message


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", FORMS)
async def test_all_calls_reach_the_client_and_its_history_extends_what_was_sampled(kind: str, stream: bool) -> None:
    template, form = FORMS[kind]
    texts = [f"<think>so</think>\n\n{form.render('I look. ', THREE)}  ", "done"]
    async with Client(template, texts) as client:
        message = await client.ask([QUESTION], stream=stream)
        assert message["finish"] == "tool_calls"
        assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [
            call.arguments for call in THREE
        ]
        returned = {"role": "assistant", "content": None, "tool_calls": message["tool_calls"]}  # it dropped the text
        results = [{"role": "tool", "tool_call_id": call["id"], "content": "ok"} for call in message["tool_calls"]]
        last = await client.ask([QUESTION, returned, *results], stream=stream)
        record = client.gateway.finish_session("a")

    assert (last["content"], last["finish"]) == ("done", "stop")
    (segment,) = record.segments
    sampled = [*client.renderer.reply_ids(texts[0]), *client.renderer.reply_ids(texts[1])]
    assert segment.token_ids[segment.loss_mask].tolist() == sampled
    assert segment.token_ids.tolist()[: len(client.engine.prompts[1])] == list(client.engine.prompts[1])
    assert [message.role for message in record.messages] == ["user", "assistant", "tool", "tool", "tool", "assistant"]


REWRITES = {
    "another argument": lambda calls: [calls[0] | {"function": {"name": "edit", "arguments": '{"path": "z"}'}}],
    "an id that was never given": lambda calls: [calls[0] | {"id": "mine"}],
    "a call less": lambda calls: calls[:1],
}


@pytest.mark.parametrize("rewrite", REWRITES.values(), ids=REWRITES)
async def test_a_client_that_changes_a_call_has_rewritten_its_history(rewrite: Any) -> None:
    async with Client(HERMES, [HermesForm().render("", THREE), "done"]) as client:
        message = await client.ask([QUESTION])
        returned = {"role": "assistant", "content": "", "tool_calls": rewrite(message["tool_calls"])}
        await client.ask([QUESTION, returned, {"role": "tool", "content": "ok"}])
        record = client.gateway.finish_session("a")

    assert record.num_forks == 1
    assert [segment.loss_mask.sum() > 0 for segment in record.segments] == [True, True]


async def test_other_tools_are_another_beginning() -> None:
    async with Client(HERMES, ["one", "two"]) as client:
        await client.ask([QUESTION])
        await client.ask([QUESTION, {"role": "assistant", "content": "one"}, QUESTION], tools=TOOLS[:1])
        assert client.gateway.finish_session("a").num_forks == 1
        assert "list" in client.renderer.text(client.engine.prompts[0])
        assert "list" not in client.renderer.text(client.engine.prompts[1])


@pytest.mark.parametrize(
    ("limits", "spent"), [({"max_calls": 1}, "calls"), ({"max_seconds": -1.0}, "seconds")], ids=["calls", "seconds"]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_spent_session_is_told_by_a_status_that_no_client_tries_again(
    limits: dict[str, Any], spent: str, stream: bool
) -> None:
    async with Client(HERMES, ["one", "two"], **limits) as client:
        for _ in range(2):
            body = {"messages": [QUESTION], "stream": stream}
            response = await client.http.post("/v1/chat/completions", json=body)
        assert (response.status_code, response.json()["error"]["code"]) == (403, "session_spent")
        assert client.gateway.finish_session("a").spent == spent


async def test_tools_without_a_form_for_calls_are_refused() -> None:
    async with Client("{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}", []) as client:
        response = await client.http.post("/v1/chat/completions", json={"messages": [QUESTION], "tools": TOOLS})
    assert response.status_code == 400
    assert "chat template has no form" in response.json()["error"]["message"]

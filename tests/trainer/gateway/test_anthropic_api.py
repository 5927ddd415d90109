"""The Messages API: the same conversation as over OpenAI's, in another dialect."""

import json
from typing import Any

import httpx
import pytest
from tests.trainer.gateway.conftest import make_tokenizer
from tests.trainer.gateway.tool_templates import HERMES

from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.public_app import public_app
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits
from sweyard_trainer.gateway.tool_calls import HermesForm, ToolCall

CALLS = (ToolCall("edit", {"path": "a"}), ToolCall("list", {}))
TEXTS = [HermesForm().render("I look.", CALLS), "done"]
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
ASKED: dict[str, Any] = {
    "model": "mine",
    "max_tokens": 500,
    "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
    "tools": [
        {"name": "edit", "description": "d", "input_schema": SCHEMA},
        {"name": "list", "input_schema": {"type": "object"}},
    ],
    "messages": [{"role": "user", "content": "hello"}],
}


@pytest.fixture
async def http() -> Any:
    renderer = ChatRenderer(make_tokenizer(HERMES))
    gateway = Gateway(renderer, Limits(2_000, 4_000, 1_000))
    replies = iter(TEXTS)
    engine = FakeEngine(lambda prompt, seed: renderer.reply_ids(next(replies)))
    await gateway.use_engines([engine], 0)
    gateway.create_session("a", "key", temperature=1.0, seed=0)
    transport = httpx.ASGITransport(public_app(gateway))
    async with httpx.AsyncClient(transport=transport, base_url="http://g", headers={"x-api-key": "key"}) as client:
        client.gateway, client.engine, client.renderer = gateway, engine, renderer  # type: ignore[attr-defined]
        yield client


async def ask(http: Any, *, stream: bool, **changes: Any) -> dict[str, Any]:
    response = await http.post("/v1/messages", json=ASKED | {"stream": stream} | changes)
    assert response.status_code == 200, response.text
    if not stream:
        message: dict[str, Any] = response.json()
        return message
    return joined(response.text)


def joined(stream: str) -> dict[str, Any]:
    """As a client puts a stream together."""
    message: dict[str, Any] = {}
    for lines in filter(None, stream.split("\n\n")):
        name, data = lines.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append(event["content_block"])
            case "content_block_delta" if event["delta"]["type"] == "text_delta":
                message["content"][event["index"]]["text"] += event["delta"]["text"]
            case "content_block_delta":
                message["content"][event["index"]]["input"] = json.loads(event["delta"]["partial_json"])
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
    return message


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_calls_and_results_extend_what_was_sampled(http: Any, stream: bool) -> None:
    first = await ask(http, stream=stream)
    ids = [block["id"] for block in first["content"][1:]]
    results: list[dict[str, Any]] = [
        {"type": "tool_result", "tool_use_id": ids[0], "content": "ok"},
        {"type": "tool_result", "tool_use_id": ids[1], "content": [{"type": "text", "text": "x"}], "is_error": True},
        {"type": "text", "text": "go on"},
    ]
    returned = [{"type": "thinking", "thinking": "so", "signature": "s"}, *first["content"]]
    history = [*ASKED["messages"], {"role": "assistant", "content": returned}, {"role": "user", "content": results}]
    last = await ask(http, stream=stream, messages=history)
    record = http.gateway.finish_session("a")

    assert (first["stop_reason"], first["model"], first["role"]) == ("tool_use", "mine", "assistant")
    assert first["content"][0] == {"type": "text", "text": "I look.\n"}
    assert [(block["name"], block["input"]) for block in first["content"][1:]] == [
        ("edit", {"path": "a"}),
        ("list", {}),
    ]
    assert first["usage"]["output_tokens"] == len(http.renderer.reply_ids(TEXTS[0]))
    assert (last["stop_reason"], last["content"]) == ("end_turn", [{"type": "text", "text": "done"}])
    assert [message.role for message in record.messages] == [
        *("system", "user", "assistant", "tool", "tool", "user", "assistant")
    ]
    (segment,) = record.segments
    sampled = [token for text in TEXTS for token in http.renderer.reply_ids(text)]
    assert segment.token_ids[segment.loss_mask].tolist() == sampled


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_tokens": None}, "max_tokens: "),
        ({"top_k": 5}, "top_k cannot be set"),
        ({"stop_sequences": ["x"]}, "stop_sequences cannot be set"),
        ({"tool_choice": {"type": "any"}}, "tool_choice cannot be set"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages.0.content"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_what_cannot_be_answered_is_refused(http: Any, changes: dict[str, Any], words: str, stream: bool) -> None:
    response = await http.post("/v1/messages", json=ASKED | {"stream": stream} | changes)

    assert (response.status_code, response.json()["type"]) == (400, "error")
    assert response.json()["error"]["type"] == "invalid_request_error"
    assert words in response.json()["error"]["message"]


async def test_a_wrong_key_and_a_dead_engine_are_told_apart(http: Any) -> None:
    unknown = await http.post("/v1/messages", json=ASKED, headers={"x-api-key": "other"})
    http.engine.failures_left = 1
    dead = await http.post("/v1/messages", json=ASKED)

    assert (unknown.status_code, unknown.json()["error"]["type"]) == (401, "authentication_error")
    assert (dead.status_code, dead.json()["error"]["type"]) == (503, "api_error")


async def test_a_prompt_that_leaves_no_room_is_counted_in_a_stream_too(http: Any) -> None:
    asked = {"messages": [{"role": "user", "content": "x y z " * 1_000}]}
    whole, streamed = [await ask(http, stream=stream, **asked) for stream in (False, True)]
    assert whole["usage"] == streamed["usage"]
    assert (streamed["stop_reason"], streamed["usage"]["output_tokens"]) == ("max_tokens", 0)

import asyncio
import json
from typing import Any

import httpx
import pytest

from sweyard_trainer.engine.engine import EngineError
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.public_app import public_app
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits

TEXT = 'I look first. <function=search></function> then <function=finish>{"a": "\u00e9"}</function>'
HALF = '{"a": "\\ud83d"}'
QUESTION = {"role": "user", "content": "hello"}


@pytest.fixture
async def http(renderer: ChatRenderer) -> Any:
    gateway = Gateway(renderer, Limits(200, 400, 300))
    engine = FakeEngine(lambda prompt, seed: renderer.reply_ids(TEXT))
    await gateway.use_engines([engine], 0)
    gateway.create_session("a", "key", temperature=1.0, seed=0)
    transport = httpx.ASGITransport(public_app(gateway))
    headers = {"Authorization": "Bearer key"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as client:
        client.gateway = gateway  # type: ignore[attr-defined]
        client.engine = engine  # type: ignore[attr-defined]
        yield client


def streamed(body: str) -> tuple[str, list[dict[str, Any]]]:
    events = [line.removeprefix("data: ") for line in body.split("\n\n") if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    return "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks), chunks


async def test_streaming_and_not_give_the_same_text_and_lose_none_of_it(http: Any, renderer: ChatRenderer) -> None:
    plain = (await http.post("/v1/chat/completions", json={"messages": [QUESTION]})).json()
    reply = plain["choices"][0]["message"]
    assert reply == {"role": "assistant", "content": TEXT}
    assert plain["choices"][0]["finish_reason"] == "stop"
    assert plain["choices"][0]["sampled"] == {"text": TEXT, "finish_reason": "stop"}
    assert plain["usage"]["completion_tokens"] == len(renderer.reply_ids(TEXT))
    assert plain["usage"]["prompt_tokens"] == len(http.engine.prompts[0])
    history = [QUESTION, reply, {"role": "tool", "content": "ok", "tool_call_id": "1"}]
    body = {"messages": history, "stream": True}
    text, chunks = streamed((await http.post("/v1/chat/completions", json=body)).text)
    assert text == TEXT
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    record = http.gateway.finish_session("a")
    assert record.num_forks == 0
    assert record.segments[0].token_ids[record.segments[0].loss_mask].tolist() == renderer.reply_ids(TEXT) * 2


async def test_a_stream_tells_of_a_reply_as_it_is_sampled(http: Any, renderer: ChatRenderer) -> None:
    body = {"messages": [QUESTION], "stream": True}
    text, chunks = streamed((await http.post("/v1/chat/completions", json=body)).text)
    assert text == TEXT
    assert sum("content" in chunk["choices"][0]["delta"] for chunk in chunks) > 5
    (segment,) = http.gateway.finish_session("a").segments
    assert segment.token_ids[segment.loss_mask].tolist() == renderer.reply_ids(TEXT)


async def test_a_reply_that_fails_in_its_midst_ends_the_stream_and_is_not_recorded(http: Any) -> None:
    async def dies(*_: Any, on_tokens: Any, **__: Any) -> None:
        on_tokens(http.engine._script((), 0)[:9])
        await asyncio.sleep(0.01)
        raise EngineError("it died")

    http.engine.complete = dies
    told = (await http.post("/v1/chat/completions", json={"messages": [QUESTION], "stream": True})).text
    assert "I look" in told
    assert "[DONE]" not in told
    assert "engine_unavailable" in told.split("\n\n")[-2]
    record = http.gateway.finish_session("a")
    assert (record.segments, record.failure) == ((), "it died")


async def test_text_parts_are_joined(http: Any, renderer: ChatRenderer) -> None:
    parts = [{"type": "text", "text": "hel"}, {"type": "text", "text": "lo"}]
    await http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": parts}]})
    await http.post("/v1/chat/completions", json={"messages": [QUESTION]})
    assert http.engine.prompts[0] == http.engine.prompts[1]


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        pytest.param({"messages": []}, "messages", "at least 1", id="no messages"),
        pytest.param({}, "messages", "required", id="messages missing"),
        pytest.param({"messages": [{"role": "robot", "content": ""}]}, "messages.0.role", "system", id="unknown role"),
        pytest.param({"messages": [QUESTION], "top_p": 0.9}, "top_p", "cannot be set", id="top-p"),
        pytest.param({"messages": [QUESTION], "top_k": 20}, "top_k", "cannot be set", id="top-k"),
        pytest.param({"messages": [QUESTION], "n": 2}, "n", "cannot be set", id="two replies"),
        pytest.param({"messages": [QUESTION], "stop": ["x"]}, "stop", "cannot be set", id="stop words"),
        pytest.param({"messages": [QUESTION], "max_tokens": 0}, "max_tokens", "greater", id="no tokens"),
        pytest.param(
            {"messages": [{"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}]},
            "messages.0.tool_calls.0.function",
            "required",
            id="a call of nothing",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": "["}}]}]},
            "messages",
            "no JSON object",
            id="arguments that are no object",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "a", "arguments": HALF}}]}]},
            "messages",
            "no JSON object",
            id="arguments with half of a character",
        ),
        pytest.param(
            {"messages": [QUESTION], "tool_choice": "required"}, "tool_choice", "cannot be set", id="a choice"
        ),
        pytest.param(
            {"messages": [QUESTION], "tools": [{"type": "web_search"}]}, "tools.0.type", "function", id="foreign tools"
        ),
    ],
)
async def test_bad_requests_are_refused_with_the_field_and_a_reason(
    http: Any, body: dict[str, Any], param: str, words: str
) -> None:
    response = await http.post("/v1/chat/completions", json=body)
    error = response.json()["error"]
    assert (response.status_code, error["type"], error["param"]) == (400, "invalid_request_error", param)
    assert words in error["message"]
    assert http.engine.prompts == []


async def test_sampling_parameters_of_the_client_are_ignored(http: Any) -> None:
    body = {"messages": [QUESTION], "temperature": 0.1, "seed": 3, "top_p": 1.0, "user": "x"}
    assert (await http.post("/v1/chat/completions", json=body)).status_code == 200


async def test_a_body_that_is_not_json_is_a_bad_request(http: Any) -> None:
    response = await http.post("/v1/chat/completions", content=b"{not json")
    assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_an_unavailable_engine_is_503_also_in_a_stream(http: Any) -> None:
    http.engine.failures_left = 2
    response = await http.post("/v1/chat/completions", json={"messages": [QUESTION]})
    assert (response.status_code, response.json()["error"]["code"]) == (503, "engine_unavailable")
    streamed_error = await http.post("/v1/chat/completions", json={"messages": [QUESTION], "stream": True})
    assert "engine_unavailable" in streamed_error.text


async def test_models_are_listed(http: Any) -> None:
    assert (await http.get("/v1/models")).json()["data"][0]["id"] == "policy"

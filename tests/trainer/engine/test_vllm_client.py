"""The vLLM client against scripted servers; the real one is in test_vllm_server.py."""

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from tests.serving import serving

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.engine import Completion, EngineError, EngineUnfitError
from sweyard_trainer.engine.routing import encode_routing
from sweyard_trainer.engine.vllm import VllmEngine

PROMPT = [1, 2, 3]
GOOD: dict[str, Any] = {
    "text": "x",
    "token_ids": [7, 8],
    "prompt_token_ids": PROMPT,
    "logprobs": {"token_logprobs": [-0.5, -1.5]},
    "finish_reason": "stop",
}


def sampled(*logprobs: float | None) -> dict[str, Any]:
    return {"logprobs": {"token_logprobs": list(logprobs)}}


class ScriptedServer:
    """Answers /v1/completions by `choices`, one after the other, the last one for ever."""

    def __init__(self, *answers: Any, version: str = "default") -> None:
        self.answers = list(answers)
        self.version = version
        self.version_after_reply = ""
        self.models = ["policy"]
        self.requests: list[dict[str, Any]] = []

    def app(self) -> Starlette:
        async def completions(request: Request) -> Response:
            self.requests.append(await request.json())
            self.version = self.version_after_reply or self.version
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, int):
                return JSONResponse({"error": "status"}, answer)
            if isinstance(answer, list):
                return StreamingResponse(events(answer), media_type="text/event-stream")
            if isinstance(answer, bytes):
                return Response(answer, media_type="application/json")
            return Response(json.dumps({"choices": [answer]}), media_type="application/json")  # NaN too

        async def models(request: Request) -> Response:
            return JSONResponse({"data": [{"id": name} for name in self.models]})

        async def weights(request: Request) -> Response:
            return JSONResponse({"weight_version": self.version})

        return Starlette(
            routes=[
                Route("/v1/completions", completions, methods=["POST"]),
                Route("/v1/models", models),
                Route("/weight_info", weights),
            ]
        )


async def events(chunks: list[dict[str, Any] | None]) -> AsyncIterator[str]:
    """As vLLM streams a completion; None cuts the line."""
    for chunk in chunks:
        if chunk is None:
            return
        yield f"data: {json.dumps(chunk if 'error' in chunk else {'choices': [chunk]})}\n\n"
    yield "data: [DONE]\n\n"


def chunk(token_id: int, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "token_ids": [token_id],
        "logprobs": {"token_logprobs": [-token_id / 10]},
        "finish_reason": finish,
        **more,
    }


@asynccontextmanager
async def client_of(server: ScriptedServer, deadline_seconds: float = 20, **options: Any) -> AsyncIterator[VllmEngine]:
    async with serving(server.app()) as url:
        engine = VllmEngine(f"{url}/", deadline_seconds=deadline_seconds, **options)
        try:
            yield engine
        finally:
            await engine.close()


async def complete(engine: VllmEngine) -> Completion:
    return await engine.complete(
        PROMPT, max_tokens=5, temperature=0.7, stop_token_ids=[8], seed=9, cache_salt="weights-3"
    )


async def test_ids_and_logprobs_come_back_as_the_server_sent_them() -> None:
    server = ScriptedServer(GOOD, version="3")
    async with client_of(server) as engine:
        assert await engine.weight_version() == 3
        completion = await complete(engine)
    assert completion == Completion((7, 8), (-0.5, -1.5), 3, FinishReason.STOP)
    (request,) = server.requests
    asked = {name: request[name] for name in ("model", "prompt", "temperature", "top_p", "top_k", "seed", "cache_salt")}
    assert asked == {
        "model": "policy",
        "prompt": PROMPT,
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": -1,
        "seed": 9,
        "cache_salt": "weights-3",
    }
    assert request["return_token_ids"] is True


async def test_a_reply_is_of_the_weights_that_the_server_had_though_nobody_told_of_an_update() -> None:
    server = ScriptedServer(GOOD, version="3")
    async with client_of(server) as engine:
        assert (await complete(engine)).weight_version == 3
        server.version = "4"
        assert (await complete(engine)).weight_version == 4


async def test_a_reply_during_which_the_weights_changed_is_asked_for_again() -> None:
    server = ScriptedServer(GOOD, version="3")
    server.version_after_reply = "4"
    async with client_of(server) as engine:
        assert (await complete(engine)).weight_version == 4
    assert len(server.requests) == 2


async def test_the_experts_that_a_server_took_come_back_from_where_they_were_unknown() -> None:
    routing = np.arange(16, dtype=np.uint8).reshape(2, 2, 4)
    server = ScriptedServer({**GOOD, "routed_experts": encode_routing(routing)})
    async with client_of(server) as engine:
        options = {"max_tokens": 5, "temperature": 0.7, "stop_token_ids": [8], "seed": 9, "cache_salt": ""}
        completion = await engine.complete(PROMPT, routing_from=2, **options)
        with pytest.raises(EngineUnfitError, match="2 tokens instead of 4"):
            await engine.complete(PROMPT, routing_from=0, **options)
    assert completion.routed_experts is not None
    assert completion.routed_experts.dtype == np.uint8
    assert np.array_equal(completion.routed_experts, routing)
    assert server.requests[0]["routed_experts_prompt_start"] == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"token_ids": None}, "token_ids", id="no ids"),
        pytest.param({"logprobs": None}, "token_logprobs", id="no logprobs"),
        pytest.param({"token_ids": None, "logprobs": None}, "token_ids and no choices", id="neither"),
        pytest.param({"token_ids": [7]}, "1 ids and 2 logprobs", id="lengths differ"),
        pytest.param({"prompt_token_ids": [1, 2]}, "another prompt", id="prompt changed on the way"),
        pytest.param({"token_ids": [7, 9]}, "token 9, which is none of the model's 9: .* model.name", id="other model"),
        pytest.param({"token_ids": [7, -1]}, "token -1, which is none", id="negative id"),
        pytest.param({"token_ids": [7, "8"]}, "token '8', which is none", id="id of text"),
        pytest.param(sampled(-0.5, math.nan), "token 8 nan for its logprob", id="logprob not a number"),
        pytest.param(sampled(-0.5, None), "token 8 None for its logprob", id="logprob missing"),
        pytest.param(sampled(-math.inf, -0.5), "token 7 -inf for its logprob", id="logprob of the impossible"),
        pytest.param(sampled(4.5, -0.5), "token 7 4.5 .* --logprobs-mode processed_logprobs", id="logits"),
        pytest.param(
            {"token_ids": [7] * 6, **sampled(*[-0.5] * 6)}, "6 tokens where at most 5 were asked for", id="too many"
        ),
        pytest.param({"routed_experts": "bm8gbnB5"}, "routed_experts that cannot be read", id="experts unreadable"),
    ],
)
async def test_a_server_that_cannot_be_trained_from_is_refused(change: dict[str, Any], words: str) -> None:
    async with client_of(ScriptedServer({**GOOD, **change}), vocabulary_size=9) as engine:
        with pytest.raises(EngineUnfitError, match=words):
            await complete(engine)
    async with client_of(ScriptedServer(WITHOUT_IDS)) as engine:
        with pytest.raises(EngineUnfitError, match=r"token_ids.*inference\.retokenizeReplies allows"):
            await engine.check()


async def test_a_server_of_something_else_is_refused_at_once() -> None:
    async with client_of(ScriptedServer(b'{"hello": "world"}')) as engine:
        with pytest.raises(EngineUnfitError, match=r"without choices .*hello.* must be a vLLM server"):
            await engine.check()
    server = ScriptedServer(GOOD)
    server.models = []
    async with client_of(server) as engine:
        with pytest.raises(EngineUnfitError, match="names no model"):
            await engine.check()


async def test_a_stream_is_held_against_what_was_asked_for_as_a_whole() -> None:
    server = ScriptedServer([chunk(number, prompt_token_ids=PROMPT) for number in range(6)])
    async with client_of(server) as engine:
        with pytest.raises(EngineUnfitError, match="1 tokens where at most 0 were asked for"):
            await heard(engine)


WITHOUT_IDS = {name: value for name, value in GOOD.items() if name not in {"token_ids", "prompt_token_ids"}}


@pytest.mark.parametrize(("finish", "ids"), [("stop", (23, 8)), ("length", (23,))])
async def test_where_it_is_allowed_text_without_ids_is_tokenised_and_its_logprobs_are_unknown(
    finish: str, ids: tuple[int, ...]
) -> None:
    def encode(text: str) -> list[int]:
        return [ord(letter) - ord("a") for letter in text]

    async with client_of(ScriptedServer({**WITHOUT_IDS, "finish_reason": finish}), encode=encode) as engine:
        completion = await complete(engine)
    assert (completion.token_ids, completion.finish_reason.value) == (ids, finish)
    assert np.isnan(completion.logprobs).tolist() == [True] * len(ids)
    async with client_of(ScriptedServer({"finish_reason": finish}), encode=encode) as engine:
        with pytest.raises(EngineUnfitError, match=r"neither choices\[0\].token_ids nor choices\[0\].text"):
            await complete(engine)


async def test_ids_that_are_there_are_taken_also_where_text_is_allowed() -> None:
    async with client_of(ScriptedServer(GOOD), encode=lambda text: [99]) as engine:
        assert (await complete(engine)).token_ids == (7, 8)


async def test_a_server_with_fixed_weights_is_not_asked_for_their_version() -> None:
    server = ScriptedServer(GOOD, version="3")
    async with client_of(server, fixed_weights=True) as engine:
        assert await engine.weight_version() == 0
        assert (await complete(engine)).weight_version == 0


async def test_a_paused_server_is_waited_for() -> None:
    server = ScriptedServer(503, 503, GOOD)
    async with client_of(server) as engine:
        assert (await complete(engine)).token_ids == (7, 8)
        assert engine.trouble == ""
    assert len(server.requests) == 3


async def test_while_a_server_is_waited_for_its_client_says_why(unused_tcp_port_factory: Callable[[], int]) -> None:
    engine = VllmEngine(f"http://127.0.0.1:{unused_tcp_port_factory()}")
    call = asyncio.create_task(complete(engine))
    async with asyncio.timeout(20):
        while not engine.trouble:
            await asyncio.sleep(0.01)
    assert "gave no answer: ClientConnectorError" in engine.trouble
    call.cancel()
    await engine.close()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(503, "gave no answer", id="paused"),
        pytest.param(400, "answered 400", id="bad"),
        pytest.param(b'{"choices"', "is no JSON object", id="cut JSON"),
        pytest.param(b"[]", "is no JSON object", id="other JSON"),
    ],
)
async def test_no_answer_is_infrastructure_within_the_deadline(answer: int | bytes, words: str) -> None:
    async with client_of(ScriptedServer(answer), deadline_seconds=0.8) as engine:
        with pytest.raises(EngineError, match=words):
            await complete(engine)


async def test_a_server_that_is_gone_is_infrastructure(unused_tcp_port_factory: Callable[[], int]) -> None:
    engine = VllmEngine(f"http://127.0.0.1:{unused_tcp_port_factory()}", deadline_seconds=0.6)
    with pytest.raises(EngineError, match="gave no answer"):
        await complete(engine)
    await engine.close()


async def heard(engine: VllmEngine) -> tuple[list[int], Completion]:
    told: list[int] = []
    options = {"max_tokens": 5, "temperature": 0.7, "stop_token_ids": [8], "seed": 9, "cache_salt": "s"}
    completion = await engine.complete(PROMPT, **options, on_tokens=told.extend)
    assert tuple(told) == completion.token_ids
    return told, completion


WHOLE = Completion((5, 6, 8), (-0.5, -0.6, -0.8), 3, FinishReason.STOP)
FIRST = chunk(5, prompt_token_ids=PROMPT)


async def test_a_reply_is_told_of_as_it_comes_and_recorded_whole() -> None:
    server = ScriptedServer([FIRST, chunk(6), chunk(8, "stop")], version="3")
    async with client_of(server) as engine:
        assert (await heard(engine))[1] == WHOLE
    assert (server.requests[0]["stream"], server.requests[0]["return_token_ids"]) == (True, True)


@pytest.mark.parametrize("trouble", [[FIRST, chunk(6), None], [FIRST, chunk(6), {"error": "x"}]], ids=["cut", "error"])
async def test_a_reply_that_breaks_off_goes_on_behind_what_was_told(trouble: list[Any]) -> None:
    server = ScriptedServer(trouble, 503, [chunk(8, "stop")], version="3")
    async with client_of(server) as engine:
        assert (await heard(engine))[1] == WHOLE
    assert [(request["prompt"], request["max_tokens"]) for request in server.requests] == [
        (PROMPT, 5),
        *[([*PROMPT, 5, 6], 3)] * 2,
    ]


async def test_nothing_is_told_of_a_reply_before_which_the_weights_changed() -> None:
    server = ScriptedServer([FIRST, chunk(8, "stop")], version="3")
    server.version_after_reply = "4"
    async with client_of(server) as engine:
        assert (await heard(engine))[1].weight_version == 4
    assert len(server.requests) == 2


async def test_a_reply_that_broke_off_before_the_weights_changed_cannot_go_on() -> None:
    server = ScriptedServer([FIRST, None], version="3")
    async with client_of(server) as engine:

        def change(token_ids: Any) -> None:
            server.version = "4"

        options = {"max_tokens": 5, "temperature": 0.7, "stop_token_ids": [8], "seed": 9, "cache_salt": "s"}
        with pytest.raises(EngineError, match="in the midst of a reply"):
            await engine.complete(PROMPT, **options, on_tokens=change)


async def test_a_reply_whose_last_token_was_told_has_ended() -> None:
    server = ScriptedServer([chunk(number, prompt_token_ids=PROMPT) for number in range(5)] + [None], version="3")
    async with client_of(server) as engine:
        told, completion = await heard(engine)
    assert (told, completion.finish_reason) == ([0, 1, 2, 3, 4], FinishReason.LENGTH)


async def test_where_experts_are_to_be_told_nothing_is_streamed() -> None:
    server = ScriptedServer(GOOD, version="3")
    async with client_of(server, streams=False) as engine:
        options = {"max_tokens": 5, "temperature": 0.7, "stop_token_ids": [8], "seed": 9, "cache_salt": "s"}
        assert (await engine.complete(PROMPT, **options, on_tokens=lambda ids: 1 / 0)).token_ids == (7, 8)
    assert "stream" not in server.requests[0]

"""One contract for both ways to a gateway: in this process and over HTTP."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.serving import serving
from tests.trainer.gateway.conftest import CHATML, make_tokenizer
from tests.trainer.gateway.tool_templates import HERMES

from sweyard_sandbox.agents.protocol import FinishReason, Message, ToolSession
from sweyard_sandbox.agents.tools.offered import function, offer
from sweyard_trainer.engine.engine import Completion, EngineError, EngineUnfitError
from sweyard_trainer.engine.fake import FakeEngine, fake_logprob
from sweyard_trainer.gateway.admin_app import admin_app
from sweyard_trainer.gateway.client import GatewayClient, HttpGateway, HttpSession, InProcessGateway
from sweyard_trainer.gateway.gateway import Gateway, call_seed
from sweyard_trainer.gateway.public_app import public_app
from sweyard_trainer.gateway.rendering import ChatRenderer, TemplateUnfitError
from sweyard_trainer.gateway.session import Limits, SessionUnknownError

LIMITS = Limits(max_prompt_tokens=300, max_response_tokens=400, max_tokens_per_turn=60)
USER = Message("user", "hello world")


@pytest.fixture
def engine(renderer: ChatRenderer) -> FakeEngine:
    return FakeEngine(lambda prompt, seed: renderer.reply_ids(f"reply to {len(prompt)}"), version=7)


@pytest.fixture
def gateway(renderer: ChatRenderer) -> Gateway:
    return Gateway(renderer, LIMITS)


class SlowEngine(FakeEngine):
    """Ends no reply before it may."""

    begun = 0

    def __init__(self, *script: Any, **options: Any) -> None:
        super().__init__(*script, **options)
        self.may_end = asyncio.Event()

    async def complete(self, prompt_ids: Sequence[int], **options: Any) -> Completion:
        self.begun += 1
        await self.may_end.wait()
        return await super().complete(prompt_ids, **options)


def tokens() -> Callable[[], str]:
    numbers: Iterator[int] = itertools.count()
    return lambda: f"secret-{next(numbers)}"


@asynccontextmanager
async def connected(kind: str, gateway: Gateway, engine: FakeEngine) -> AsyncIterator[GatewayClient]:
    if kind == "in-process":
        yield InProcessGateway(gateway, [engine], new_token=tokens(), lineage="2")
        return
    apps = (public_app(gateway), admin_app(gateway, lambda url: engine))
    async with serving(apps[0]) as public, serving(apps[1]) as admin:
        over_http = HttpGateway(public, admin, ["http://engine"], new_token=tokens(), lineage="2")
        yield over_http
        await over_http.close()


@pytest.fixture(params=["in-process", "http"])
async def client(request: pytest.FixtureRequest, gateway: Gateway, engine: FakeEngine) -> AsyncIterator[GatewayClient]:
    async with connected(request.param, gateway, engine) as found:
        yield found


async def test_a_session_records_what_the_engine_produced(
    client: GatewayClient, engine: FakeEngine, renderer: ChatRenderer
) -> None:
    await client.use_weights(7)
    session = await client.open_session("3/task/0", temperature=1.0, seed=5)
    first = await session.chat([USER])
    second = await session.chat([USER, Message("assistant", first.content), Message("tool", "ok")])
    record = await client.finish_session("3/task/0")
    (segment,) = record.segments
    replies = [renderer.reply_ids(first.content), renderer.reply_ids(second.content)]
    assert segment.token_ids[segment.loss_mask].tolist() == replies[0] + replies[1]
    assert segment.token_ids.tolist() == [*engine.prompts[1], *replies[1]]
    expected = [fake_logprob(call_seed(5, call), position) for call in (0, 1) for position in range(len(replies[call]))]
    assert segment.logprobs[segment.loss_mask] == pytest.approx(expected)
    assert set(segment.weight_versions[segment.loss_mask].tolist()) == {7}
    assert (record.num_forks, record.truncated) == (0, False)
    assert first.num_tokens == len(replies[0])
    assert first.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("kind", ["in-process", "http"])
async def test_an_agent_of_native_calls_reads_them_as_they_were_sampled(kind: str) -> None:
    renderer = ChatRenderer(make_tokenizer(HERMES))
    said = 'I look.\n<tool_call>\n{"name": "look", "arguments": {"at": "a"}}\n</tool_call>'
    engine = FakeEngine(lambda prompt, seed: renderer.reply_ids(said))
    async with connected(kind, Gateway(renderer, Limits(2_000, 2_000, 500)), engine) as client:
        await client.use_weights(0)
        session = await client.open_session("a", temperature=1.0, seed=0)
        assert isinstance(session, ToolSession)
        native = session.offering(offer(function("look", "See.", {"at": ("string", "Where.")}, ["at"])))
        first = await native.chat([USER])
        await native.chat([USER, Message("assistant", first.content), Message("tool", "a.py")])
        record = await client.finish_session("a")
    assert (first.content, first.finish_reason) == (said, FinishReason.STOP)
    assert '"name": "look", "description": "See.", "parameters"' in renderer.text(engine.prompts[0])
    assert (len(record.segments), record.num_forks) == (1, 0)


def unfit(prompt: Sequence[int], seed: int) -> list[int]:
    raise EngineUnfitError("no logprobs")


@pytest.mark.parametrize("kind", ["in-process", "http"])
async def test_what_every_call_would_meet_is_told_as_what_it_is(kind: str) -> None:
    refusing = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
    gateway = Gateway(ChatRenderer(make_tokenizer(refusing + CHATML)), LIMITS)
    async with connected(kind, gateway, FakeEngine(unfit)) as client:
        await client.use_weights(0)
        session = await client.open_session("a", temperature=1.0, seed=0)
        with pytest.raises(TemplateUnfitError, match="no system"):
            await session.chat([Message("system", "be kind"), USER])
        with pytest.raises(EngineUnfitError, match="no logprobs"):
            await session.chat([USER])
        assert (await client.finish_session("a")).failure == "no logprobs"


async def test_the_prefix_cache_is_salted_with_version_and_lineage(client: GatewayClient, engine: FakeEngine) -> None:
    await client.use_weights(7)
    await (await client.open_session("a", temperature=1.0, seed=0)).chat([USER])
    assert engine.salts == ["weights-2-7"]


async def test_engines_that_do_not_confirm_the_version_are_refused(client: GatewayClient) -> None:
    with pytest.raises(EngineError, match="serves weight version 8"):
        await client.use_weights(8)


async def test_a_reply_cut_by_the_turn_limit_is_truncated(client: GatewayClient) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    reply = await session.chat([USER], max_tokens=2)
    assert (reply.finish_reason, reply.num_tokens) == (FinishReason.LENGTH, 2)
    assert (await client.finish_session("a")).truncated


async def test_an_observation_that_fills_the_context_ends_as_truncated(client: GatewayClient) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    first = await session.chat([USER])
    reply = await session.chat([USER, Message("assistant", first.content), Message("tool", "x y z " * 300)])
    assert (reply.finish_reason, reply.num_tokens, reply.content) == (FinishReason.LENGTH, 0, "")
    record = await client.finish_session("a")
    assert record.truncated
    assert record.segments[0].loss_mask.sum() == first.num_tokens


async def test_a_first_prompt_beyond_its_limit_is_never_sampled(client: GatewayClient, engine: FakeEngine) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    assert (await session.chat([Message("user", "x y z " * 300)])).num_tokens == 0
    assert engine.prompts == []


async def test_a_session_that_ends_while_its_engine_is_away_says_so(client: GatewayClient, engine: FakeEngine) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    first = await session.chat([USER])
    engine.hangs = True
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await session.chat([USER, Message("assistant", first.content), USER])
    assert (await client.finish_session("a")).failure == "fake gave no answer"


async def test_a_dead_engine_is_infrastructure(client: GatewayClient, engine: FakeEngine) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    engine.failures_left = 1
    with pytest.raises(EngineError, match="is down"):
        await session.chat([USER])
    assert (await session.chat([USER])).content


async def test_calls_under_way_at_an_engine_that_leaves_are_infrastructure_and_new_attempts_wait_for_another(
    client: GatewayClient, engine: FakeEngine
) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    engine.hangs = True
    waiting = asyncio.create_task(session.chat([USER]))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    with pytest.raises(EngineError, match="none of the engines"):
        await client.use_weights(7)
    with pytest.raises(EngineError, match="has left"):
        await waiting
    with pytest.raises(EngineError):
        await client.open_session("b", temperature=1.0, seed=0)
    engine.hangs = False
    await client.use_weights(7)
    session = await client.open_session("b", temperature=1.0, seed=0)
    assert (await session.chat([USER])).content


async def test_a_reply_of_older_weights_is_infrastructure(client: GatewayClient, engine: FakeEngine) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    await engine.load_weights(Path("/"), 0)  # it was started again
    with pytest.raises(EngineError, match="answered with weights 0, not 7"):
        await session.chat([USER])


async def test_an_engine_that_is_gone_leaves_the_others_serving(renderer: ChatRenderer) -> None:
    gateway = Gateway(renderer, LIMITS)
    engines = [FakeEngine(lambda prompt, seed: renderer.reply_ids("hi"), name=name, version=7) for name in "ab"]
    await gateway.use_engines(engines, 7)
    engines[0].hangs = True
    assert await gateway.use_engines(engines, 7) == ["b"]


async def test_an_engine_that_is_not_needed_ends_its_reply_and_is_given_no_other(renderer: ChatRenderer) -> None:
    gateway = Gateway(renderer, LIMITS)
    engines = [SlowEngine(lambda prompt, seed: renderer.reply_ids("hi"), name=name, version=7) for name in "ab"]
    client = InProcessGateway(gateway, engines, new_token=tokens())
    await client.use_weights(7)
    sessions = [await client.open_session(name, temperature=1.0, seed=0) for name in ("first", "second")]
    under_way = [asyncio.create_task(session.chat([USER])) for session in sessions]
    while not all(engine.begun for engine in engines):
        await asyncio.sleep(0)
    await client.use_weights(7, 1)
    for engine in engines:
        engine.may_end.set()
    assert [reply.content for reply in await asyncio.gather(*under_way)] == ["hi", "hi"]
    await sessions[1].chat([USER])
    assert [engine.begun for engine in engines] == [2, 1]


async def test_a_finished_session_can_be_used_no_more(client: GatewayClient) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    await client.finish_session("a")
    with pytest.raises(SessionUnknownError):
        await session.chat([USER])
    with pytest.raises(SessionUnknownError):
        await client.finish_session("a")


async def test_a_session_id_is_never_taken_twice(client: GatewayClient) -> None:
    await client.use_weights(7)
    await client.open_session("a", temperature=1.0, seed=0)
    with pytest.raises(ValueError, match="exists already"):
        await client.open_session("a", temperature=1.0, seed=0)


async def test_a_restarted_gateway_is_told_again_which_weights_to_use(
    renderer: ChatRenderer, engine: FakeEngine
) -> None:
    old, new = Gateway(renderer, LIMITS), Gateway(renderer, LIMITS)
    async with (
        serving(public_app(old)) as public,
        serving(admin_app(old, lambda url: engine)) as admin,
        serving(public_app(new)) as new_public,
        serving(admin_app(new, lambda url: engine)) as new_admin,
    ):
        client = HttpGateway(public, admin, ["http://engine"], new_token=tokens())
        await client.use_weights(7)
        client._url, client._admin_url = new_public, new_admin
        session = await client.open_session("a", temperature=1.0, seed=0)
        assert (await session.chat([USER])).content
        await client.close()


async def test_a_worker_that_has_yet_to_hear_of_new_weights_opens_sessions_on_them(
    gateway: Gateway, engine: FakeEngine
) -> None:
    async with serving(public_app(gateway)) as public, serving(admin_app(gateway, lambda url: engine)) as admin:
        first, second = (HttpGateway(public, admin, ["http://engine"], new_token=tokens()) for _ in range(2))
        await first.use_weights(7)
        await second.use_weights(7)
        engine._version = 8
        await first.use_weights(8)
        session = await second.open_session("a", temperature=1.0, seed=0)
        assert (await session.chat([USER])).content
        (segment,) = (await second.finish_session("a")).segments
        assert set(segment.weight_versions[segment.loss_mask].tolist()) == {8}
        await first.close()
        await second.close()


async def test_a_conversation_that_goes_on_under_new_weights_says_which_sampled_each_reply(
    client: GatewayClient, engine: FakeEngine
) -> None:
    await client.use_weights(7)
    session = await client.open_session("a", temperature=1.0, seed=0)
    first = await session.chat([USER])
    engine._version = 8
    await client.use_weights(8)
    second = await session.chat([USER, Message("assistant", first.content), Message("tool", "ok")])
    (segment,) = (await client.finish_session("a")).segments
    assert segment.weight_versions[segment.loss_mask].tolist() == [7] * first.num_tokens + [8] * second.num_tokens
    assert engine.salts == ["weights-2-7", "weights-2-8"]


async def test_abandoned_sessions_are_forgotten(renderer: ChatRenderer) -> None:
    now = [0.0]
    gateway = Gateway(renderer, LIMITS, session_ttl_seconds=10, clock=lambda: now[0])
    gateway.create_session("old", "t1", temperature=1.0, seed=0)
    now[0] = 11.0
    gateway.create_session("new", "t2", temperature=1.0, seed=0)
    assert gateway.num_sessions == 1
    with pytest.raises(SessionUnknownError):
        gateway.session_of_token("t1")


async def test_a_token_opens_only_its_own_session_and_guesses_are_counted(
    gateway: Gateway, engine: FakeEngine, renderer: ChatRenderer
) -> None:
    async with serving(public_app(gateway)) as public, aiohttp.ClientSession() as http:
        await gateway.use_engines([engine], 7)
        gateway.create_session("a", "token-a", temperature=1.0, seed=0)
        gateway.create_session("b", "token-b", temperature=1.0, seed=0)
        await HttpSession(http, public, "token-a").chat([USER])
        with pytest.raises(SessionUnknownError):
            await HttpSession(http, public, "guess").chat([USER])
        gateway.finish_session("a")
        with pytest.raises(SessionUnknownError):
            await HttpSession(http, public, "token-a").chat([USER])
        assert gateway.finish_session("b").segments == ()
        assert gateway.num_refused == 2

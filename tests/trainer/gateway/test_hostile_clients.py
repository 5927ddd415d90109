"""What a program in a sandbox can do to the gateway: to its own session at most."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from tests.serving import serving
from tests.trainer.gateway.conftest import CHATML, make_tokenizer

from sweyard_sandbox.agents.protocol import Message
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.gateway import LONG_CONVERSATION_CHARACTERS, Answer, Gateway, Limits
from sweyard_trainer.gateway.public_app import BODY_CAP_BYTES, public_app
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import SessionSpentError

CHAT = "/v1/chat/completions"
HELLO = {"messages": [{"role": "user", "content": "hello"}]}


class SlowEngine(FakeEngine):
    """Says one token and then nothing, until it is let go; notes what nobody waits for any more."""

    def __init__(self, renderer: ChatRenderer) -> None:
        super().__init__(lambda prompt, seed: renderer.reply_ids("hello world"))
        self.asked = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.slow = False

    async def complete(self, prompt_ids: Sequence[int], **options: Any) -> Completion:
        if not self.slow:
            return await super().complete(prompt_ids, **options)
        if options["on_tokens"]:
            options["on_tokens"]([5])
        self.asked.set()
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


class World:
    """A gateway behind a real server, with sessions `a` and `b`."""

    def __init__(self, url: str, gateway: Gateway, engine: SlowEngine, http: aiohttp.ClientSession) -> None:
        self.url, self.gateway, self.engine, self.http = url, gateway, engine, http

    async def post(self, session: str, **options: Any) -> tuple[int, dict[str, Any]]:
        headers = {"Authorization": f"Bearer secret-{session}"}
        async with self.http.post(self.url + CHAT, headers=headers, **options) as response:
            return response.status, await response.json()


@pytest_asyncio.fixture
async def world(renderer: ChatRenderer) -> AsyncIterator[World]:
    engine = SlowEngine(renderer)
    gateway = Gateway(renderer, Limits(200, 400, 300))
    await gateway.use_engines([engine], 0)
    for name in ("a", "b"):
        gateway.create_session(name, f"secret-{name}", temperature=1.0, seed=0)
    async with serving(public_app(gateway)) as url, aiohttp.ClientSession() as http:
        yield World(url, gateway, engine, http)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_client_that_leaves_ends_the_sampling_and_nothing_is_recorded(world: World, stream: bool) -> None:
    world.engine.slow = True
    call = asyncio.create_task(world.post("a", json={**HELLO, "stream": stream}))
    await world.engine.asked.wait()
    call.cancel()
    await asyncio.wait_for(world.engine.cancelled.wait(), 20)
    world.engine.slow = False

    status, _ = await world.post("a", json=HELLO)

    record = world.gateway.finish_session("a")
    assert (status, record.num_forks, len(record.segments)) == (200, 0, 1)


async def endless() -> AsyncIterator[bytes]:
    yield b'{"messages": [{"role": "user", "content": "'
    while True:
        yield b"x" * 1_000_000


@pytest.mark.parametrize("kind", ["declared", "in pieces without an end"])
async def test_a_body_beyond_the_cap_is_refused_before_it_is_whole(world: World, kind: str) -> None:
    body: Any = io.BytesIO(b"x" * (BODY_CAP_BYTES + 1)) if kind == "declared" else endless()
    try:
        status, told = await world.post("a", data=body)
    except aiohttp.ClientOSError:  # the server closed while the rest was being sent
        status, told = 413, {"error": {"code": "body_too_large"}}

    assert (status, told["error"]["code"]) == (413, "body_too_large")
    assert (await world.post("b", json=HELLO))[0] == 200


async def test_a_body_of_a_stranger_is_not_even_read(world: World) -> None:
    status, _ = await world.post("nobody", data=b"x" * 10_000)

    assert (status, world.gateway.num_refused) == (401, 1)


async def test_clients_that_send_slowly_keep_nobody_waiting(world: World) -> None:
    host, port = world.url.removeprefix("http://").split(":")
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret-a\r\nContent-Length: 100\r\n\r\n{{"
    slow = [await asyncio.open_connection(host, int(port)) for _ in range(50)]
    for _, writer in slow:
        writer.write(head.encode())
        await writer.drain()

    status, _ = await world.post("b", json=HELLO)

    assert status == 200
    for _, writer in slow:
        writer.close()


async def test_calls_sent_at_once_are_counted_before_each_reply(renderer: ChatRenderer) -> None:
    """Long conversations are tokenised beside the event loop, so that all of them begin before the first reply does."""
    gateway = Gateway(renderer, Limits(10**6, 10**6, 300, max_calls=3))
    await gateway.use_engines([FakeEngine(lambda prompt, seed: renderer.reply_ids("hello"))], 0)
    gateway.create_session("a", "secret-a", temperature=1.0, seed=0)
    long = [Message("user", "hello " * LONG_CONVERSATION_CHARACTERS)]

    answers = await asyncio.gather(*(gateway.chat("a", long) for _ in range(8)), return_exceptions=True)

    assert sum(isinstance(answer, Answer) for answer in answers) == 3
    assert sum(isinstance(answer, SessionSpentError) for answer in answers) == 5


async def test_what_a_chat_template_refuses_is_a_bad_request(renderer: ChatRenderer) -> None:
    strict = "{% if messages[0].role == 'tool' %}{{ raise_exception('begin with the user') }}{% endif %}"
    gateway = Gateway(ChatRenderer(make_tokenizer(strict + CHATML)), Limits(200, 400, 300))
    await gateway.use_engines([FakeEngine(lambda prompt, seed: [])], 0)
    gateway.create_session("a", "secret-a", temperature=1.0, seed=0)
    async with serving(public_app(gateway)) as url, aiohttp.ClientSession() as http:
        body = {"messages": [{"role": "tool", "content": "x", "tool_call_id": "1"}]}
        async with http.post(url + CHAT, json=body, headers={"Authorization": "Bearer secret-a"}) as response:
            told = json.loads(await response.text())

    assert response.status == 400
    assert "begin with the user" in told["error"]["message"]

"""What a registry says before a pull, asked of one that lies: by HTTP, in plain, with tokens, limits and nonsense."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.test_utils import TestServer

from sweyard_cluster.pki import issue, make_authority
from sweyard_operator.cache_agent.protocol import PullFailure
from sweyard_operator.cache_agent.registry import Registry, RegistryError
from sweyard_operator.cache_agent.registry_auth import RegistryAuth

DATE = {"Date": "Wed, 21 Oct 2026 07:27:00 GMT"}
LAYERS = [{"digest": "sha256:1", "size": 3_000}, {"digest": "sha256:2", "size": 50}]
INDEX = {
    "manifests": [{"digest": f"sha256:{a}", "platform": {"os": "linux", "architecture": a}} for a in ("arm64", "amd64")]
}


@dataclass
class LyingRegistry:
    """Pages by path, or an answer to everything; with `token`, only for who has it."""

    address: str = ""
    pages: dict[str, Any] = field(default_factory=dict)
    answer: tuple[int, dict[str, str]] | None = None
    token: str = ""
    passwords: list[str | None] = field(default_factory=list)
    num_tokens: int = 0
    token_page: str = ""
    forms: list[dict[str, Any]] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.passwords.append(request.headers.get("Authorization"))
        if request.path == "/token":
            self.num_tokens += 1
            self.forms.append(dict(await request.post()))
            return web.Response(text=self.token_page or json.dumps({"token": self.token}))
        if self.answer is not None:
            return web.Response(status=self.answer[0], headers=self.answer[1])
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            challenge = f'Bearer realm="http://{self.address}/token",service="r",scope="repository:a:pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        page = self.pages.get(request.path)
        if page is None:
            return web.Response(status=404)
        text = page if isinstance(page, str) else json.dumps(page)
        return web.Response(text=text, headers={"Docker-Content-Digest": "sha256:top"})


class ThisMachine(AbstractResolver):
    """Every name is here."""

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=2, proto=0, flags=0)]

    async def close(self) -> None:
        pass


@pytest.fixture
async def lying() -> AsyncIterator[LyingRegistry]:
    lying = LyingRegistry()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", lying.handle)
    async with TestServer(app) as server:
        lying.address = f"127.0.0.1:{server.port}"
        yield lying


async def resolve(
    lying: LyingRegistry,
    image: str = "a:1",
    host: str = "",
    password: str = "",
    identity_token: str = "",
    timeout_seconds: float = 20.0,
) -> Any:
    where = host or lying.address
    found = {f"{where}/a": RegistryAuth("me", password, identity_token)} if password or identity_token else {}
    connector = aiohttp.TCPConnector(resolver=ThisMachine())
    async with aiohttp.ClientSession(connector=connector) as session:
        return await Registry(session, found.get, timeout_seconds=timeout_seconds).resolve(f"{where}/{image}")


async def test_digest_and_layers_of_our_platform_come_through_an_index(lying: LyingRegistry) -> None:
    lying.pages = {
        "/v2/a/manifests/1": INDEX,
        "/v2/a/manifests/sha256:top": INDEX,
        "/v2/a/manifests/sha256:amd64": {"layers": LAYERS},
    }
    found = await resolve(lying)
    assert (found.digest, found.layers, found.num_bytes) == ("sha256:top", {"sha256:1": 3_000, "sha256:2": 50}, 3_050)


async def test_a_registry_of_a_closed_network_that_speaks_http_never_gets_a_password(lying: LyingRegistry) -> None:
    lying.pages = {f"/v2/a/manifests/{name}": {"layers": LAYERS} for name in ("1", "sha256:top")}
    host = "registry.test:" + lying.address.rpartition(":")[2]
    assert (await resolve(lying, host=host, password="secret")).num_bytes == 3_050
    lying.token = "t"
    with pytest.raises(RegistryError):
        await resolve(lying, host=host, password="secret")
    assert set(lying.passwords) == {None}


async def test_a_token_is_fetched_with_the_pull_secret(lying: LyingRegistry) -> None:
    lying.token = "t"
    lying.pages = {f"/v2/a/manifests/{name}": {"layers": LAYERS} for name in ("1", "sha256:top")}
    assert (await resolve(lying, password="secret")).num_bytes == 3_050
    assert lying.num_tokens == 1
    assert aiohttp.encode_basic_auth("me", "secret") in lying.passwords


@pytest.mark.parametrize(
    ("status", "headers", "reason", "pause"),
    [
        (429, {"Retry-After": "7"}, PullFailure.RATE_LIMITED, 7.0),
        (429, {}, PullFailure.RATE_LIMITED, 10.0),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"} | DATE, PullFailure.RATE_LIMITED, 60.0),
        (429, {"Retry-After": "Wed, 21 Oct 2026 07:00:00 GMT"} | DATE, PullFailure.RATE_LIMITED, 10.0),
        (429, {"Retry-After": "soon"}, PullFailure.RATE_LIMITED, 10.0),
        (429, {"Retry-After": "999999"}, PullFailure.RATE_LIMITED, 3_600.0),
        (503, {"Retry-After": "20"}, PullFailure.REGISTRY_UNREACHABLE, 20.0),
        (500, {}, PullFailure.REGISTRY_UNREACHABLE, None),
        (404, {}, PullFailure.NOT_FOUND, None),
        (403, {}, PullFailure.UNAUTHORIZED, None),
        (418, {}, PullFailure.PULL_FAILED, None),
    ],
    ids=[
        "seconds",
        "no-word",
        "date",
        "past",
        "nonsense",
        "too-long",
        "maintenance",
        "broken",
        "missing",
        "forbidden",
        "other",
    ],
)
async def test_what_a_registry_refuses_is_typed_and_its_own_pause_is_kept(
    lying: LyingRegistry, status: int, headers: dict[str, str], reason: PullFailure, pause: float | None
) -> None:
    lying.answer = (status, headers)
    with pytest.raises(RegistryError) as raised:
        await resolve(lying)
    assert (raised.value.reason, raised.value.pause_seconds) == (reason, pause)


@pytest.mark.parametrize(
    "page",
    [
        "<html>",
        "[]",
        '{"layers": [{}]}',
        '{"layers": [{"digest": "sha256:1", "size": -5}]}',
        '{"layers": 7}',
        '{"manifests": [7]}',
        '{"layers": [], "annotations": {"a": "' + "x" * (4 << 20) + '"}}',
    ],
    ids=["text", "list", "empty-layer", "negative", "number", "index-of-numbers", "huge"],
)
async def test_a_manifest_that_is_no_manifest_is_corrupt(lying: LyingRegistry, page: str) -> None:
    lying.pages = {"/v2/a/manifests/1": page, "/v2/a/manifests/sha256:top": page}
    with pytest.raises(RegistryError) as raised:
        await resolve(lying)
    assert raised.value.reason is PullFailure.CORRUPT


async def test_an_identity_token_is_changed_for_another(lying: LyingRegistry) -> None:
    lying.token = "t"
    lying.pages = {f"/v2/a/manifests/{name}": {"layers": LAYERS} for name in ("1", "sha256:top")}
    assert (await resolve(lying, identity_token="mine")).num_bytes == 3_050
    told = {"grant_type": "refresh_token", "refresh_token": "mine", "service": "r", "scope": "repository:a:pull"}
    assert [told.items() <= form.items() for form in lying.forms] == [True]


@pytest.mark.parametrize("page", ["[]", "<html>", '{"token": 7}', "{}"])
async def test_a_realm_that_answers_nonsense_is_told(lying: LyingRegistry, page: str) -> None:
    lying.token, lying.token_page = "t", page
    with pytest.raises(RegistryError, match="token"):
        await resolve(lying)


async def test_a_registry_that_redirects_for_ever_is_told(lying: LyingRegistry) -> None:
    lying.answer = (307, {"Location": "/v2/a/manifests/1"})
    with pytest.raises(RegistryError, match="TooManyRedirects") as raised:
        await resolve(lying)
    assert raised.value.reason is PullFailure.REGISTRY_UNREACHABLE


async def test_a_registry_that_takes_a_question_and_never_answers_is_told_from_one_that_is_not_there() -> None:
    gone = asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        await writer.wait_closed()
        gone.set()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(RegistryError) as raised:
            await resolve(LyingRegistry(), host=host, timeout_seconds=0.05)
        await gone.wait()
    assert raised.value.reason is PullFailure.TIMEOUT


async def test_a_registry_whose_certificate_is_unknown_is_told_as_that(lying: LyingRegistry, tmp_path: Path) -> None:
    make_authority(tmp_path)
    issue(tmp_path, "registry", "/CN=registry.test", ["DNS:registry.test"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "registry.crt", tmp_path / "registry.key")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", lying.handle)
    server = TestServer(app, scheme="https")
    await server.start_server(ssl=context)
    async with server:
        with pytest.raises(RegistryError, match="certificate verify failed") as raised:
            await resolve(lying, host=f"registry.test:{server.port}", password="secret")
    assert raised.value.reason is PullFailure.CERTIFICATE_UNKNOWN
    assert lying.passwords == []


async def test_a_registry_that_is_not_there_is_unreachable(lying: LyingRegistry) -> None:
    with pytest.raises(RegistryError) as raised:
        await resolve(lying, host="127.0.0.1:1")
    assert raised.value.reason is PullFailure.REGISTRY_UNREACHABLE

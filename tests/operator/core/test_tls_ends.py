"""Clients of the API server leave no connection open behind them, whatever its peer says to their end."""

import asyncio
import contextlib
import gc
import ssl
import warnings
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.rude_server import rude_server

from sweyard_operator.credentials import Credentials, StaticToken
from sweyard_operator.transport import HttpTransport
from sweyard_sandbox.pool import credentials as pool_credentials
from sweyard_sandbox.pool.api import ApiClient


async def operator_watches(url: str, trusted: ssl.SSLContext) -> None:
    transport = HttpTransport(Credentials(url, StaticToken("secret"), trusted, "ns"))
    async with contextlib.aclosing(transport.stream("/watch", params={}, idle_timeout_seconds=5.0)) as lines:
        assert await anext(lines) == b"{}"
    await transport.close()


async def pool_client_watches(url: str, trusted: ssl.SSLContext) -> None:
    client = ApiClient(pool_credentials.Credentials(url, trusted, pool_credentials.TokenSource(fixed="token")))
    async with contextlib.aclosing(client.stream("/watch", {}, silence_seconds=5.0)) as events:
        assert await anext(events) == {}
    await client.close()


@pytest.mark.parametrize("watch", [operator_watches, pool_client_watches])
def test_a_watch_that_is_left_leaves_no_connection_though_the_server_is_silent(
    watch: Callable[[str, ssl.SSLContext], Coroutine[Any, Any, None]], tmp_path: Path
) -> None:
    with rude_server(tmp_path) as (url, trusted), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        asyncio.run(watch(url, trusted))
        gc.collect()
    assert [str(one.message) for one in told] == []

"""A pod's stream over a real websocket: how it ends, and what a command is told of it."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from tests.sandbox.runtimes.exec_server import ERROR, STDERR, STDIN, STDOUT, UID, ExecServer, status

from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.driver.client import DriverClient
from sweyard_sandbox.errors import CommandMayHaveRunError, FailureReason, InfrastructureError
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import Credentials, TokenSource
from sweyard_sandbox.runtime import Result
from sweyard_sandbox.runtimes.kubernetes.connector import PodConnector
from sweyard_sandbox.runtimes.kubernetes.exec_channel import open_exec, raise_for_status

HEARTBEAT_SECONDS = 0.4


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ExecServer]:
    made = ExecServer(tmp_path / "spool")
    yield made
    await made.close()


@pytest.fixture
async def api(server: ExecServer) -> AsyncIterator[ApiClient]:
    async with TestServer(server.build()) as listening:
        client = ApiClient(Credentials(str(listening.make_url("")).rstrip("/"), None, TokenSource()))
        yield client
        await client.close()


@pytest.fixture
async def unopened(api: ApiClient) -> AsyncIterator[DriverClient]:
    connector = PodConnector(api, "ns", "pod", UID, heartbeat_seconds=HEARTBEAT_SECONDS)
    made = DriverClient(connector, os.urandom(8).hex())
    made.link.reconnect_seconds = 10
    yield made
    await made.close()


@pytest.fixture
async def client(unopened: DriverClient) -> DriverClient:
    await unopened.open()
    return unopened


async def run(client: DriverClient, command: str, timeout_seconds: float = 20) -> Result:
    return await client.run(command, timeout_seconds=timeout_seconds, output_cap_bytes=1_000)


async def run_and(client: DriverClient, lines: Path, disturb: Any) -> Result:
    """A command that is begun when `disturb` is called, and ends after it."""
    task = asyncio.create_task(run(client, f"echo line >>{lines}; echo before; sleep 0.5; echo after; exit 3"))
    while not lines.exists():
        await asyncio.sleep(0.01)
    disturb()
    return await task


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1012, None])
async def test_a_stream_closed_in_mid_command_loses_nothing(
    server: ExecServer, client: DriverClient, tmp_path: Path, code: int | None
) -> None:
    result = await run_and(client, tmp_path / "lines", lambda: server.cut(code))
    assert (result.exit_code, result.output) == (3, b"before\nafter\n")
    assert (tmp_path / "lines").read_text() == "line\n"
    assert client.counters.reconnects == 1


async def test_a_half_open_connection_is_found_by_its_silence(
    server: ExecServer, client: DriverClient, tmp_path: Path
) -> None:
    def fall_silent() -> None:
        server.is_silent = True
        asyncio.get_running_loop().call_later(2.5 * HEARTBEAT_SECONDS, lambda: setattr(server, "is_silent", False))

    result = await run_and(client, tmp_path / "lines", fall_silent)
    assert (result.exit_code, result.output) == (3, b"before\nafter\n")
    assert (tmp_path / "lines").read_text() == "line\n"
    assert client.counters.reconnects >= 1


async def test_a_node_that_comes_back_late_is_waited_for(
    server: ExecServer, client: DriverClient, tmp_path: Path
) -> None:
    def restart() -> None:
        server.refusals = [502, 500, 503, 429]
        server.cut(None)

    result = await run_and(client, tmp_path / "lines", restart)
    assert result.output == b"before\nafter\n"
    assert server.refusals == []


async def test_what_is_not_standard_output_is_passed_over(server: ExecServer, client: DriverClient) -> None:
    server.noise = [bytes([STDERR]) + b"warning", bytes([STDOUT]), bytes([STDIN]) + b"echo", b"", bytes([9]) + b"new"]
    server.cut(1000)
    assert (await run(client, "echo fine")).output == b"fine\n"


async def test_a_failure_on_the_error_stream_is_a_break_with_its_words(
    server: ExecServer, unopened: DriverClient
) -> None:
    server.end_with = status("Failure", "the pod's cgroup is full", "InternalError")
    with pytest.raises(ChannelError, match="cgroup is full"):
        await unopened.open()


async def test_an_image_without_a_shell_is_hopeless(server: ExecServer, unopened: DriverClient) -> None:
    server.end_with = status(
        "Failure",
        "failed to exec in container: OCI runtime exec failed: unable to start container process: "
        'exec: "/bin/sh": stat /bin/sh: no such file or directory',
        "InternalError",
    )
    with pytest.raises(InfrastructureError, match="no /bin/sh"):
        await unopened.open()


@pytest.mark.parametrize("code", [401, 403])
async def test_an_account_that_may_not_exec_is_told_so_at_once(
    server: ExecServer, unopened: DriverClient, code: int
) -> None:
    server.refusals = [code]
    with pytest.raises(InfrastructureError, match="pods/exec") as caught:
        await unopened.open()
    assert caught.value.reason is FailureReason.FORBIDDEN


@pytest.mark.parametrize(
    ("pod_status", "reason"),
    [
        (None, FailureReason.DELETED),
        ({"phase": "Failed", "reason": "Evicted", "message": "low on memory"}, FailureReason.EVICTED),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "sandbox", "state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}
                ],
            },
            FailureReason.OOM_KILLED,
        ),
    ],
    ids=["gone", "evicted", "killed-for-memory"],
)
async def test_a_container_that_ended_is_reported_with_its_reason(
    server: ExecServer, client: DriverClient, tmp_path: Path, pod_status: Any, reason: FailureReason
) -> None:
    def end() -> None:
        server.pod_status = pod_status
        server.refusals = [500] * 100  # as the kubelet says: container not found
        server.cut(1000)

    with pytest.raises(InfrastructureError) as caught:
        await run_and(client, tmp_path / "lines", end)
    assert caught.value.reason is reason
    assert not isinstance(caught.value, CommandMayHaveRunError)


async def test_a_stream_that_stays_lost_names_the_first_cause_and_the_last(
    server: ExecServer, client: DriverClient, tmp_path: Path
) -> None:
    client.link.reconnect_seconds = 0.3

    def lose() -> None:
        server.refusals = [503] * 100
        server.cut(1012)

    with pytest.raises(CommandMayHaveRunError, match=r"1012.*503"):
        await run_and(client, tmp_path / "lines", lose)


async def test_closing_ends_the_process(server: ExecServer, api: ApiClient) -> None:
    channel = await open_exec(api, "ns", "pod", "sandbox", ["cat"], heartbeat_seconds=5)
    await channel.send(b"text")
    assert await channel.receive() == b"text"
    await channel.close()
    await channel.close()
    assert await channel.receive() == b""
    assert await server.processes[0].wait() == 0


async def test_closing_a_broken_stream_leaves_no_connection(server: ExecServer, api: ApiClient) -> None:
    server.noise = [bytes([ERROR]) + status("Success")]
    channel = await open_exec(api, "ns", "pod", "sandbox", ["cat"], heartbeat_seconds=5)
    assert await channel.receive() == b""
    server.cut(None)
    await asyncio.sleep(0.05)  # the socket knows, the websocket has not been asked
    await channel.close()
    assert channel._websocket.closed


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (status("Failure", "command terminated with non-zero exit code", "NonZeroExitCode"), "non-zero"),
        (b"not json", "not json"),
        (b"[]", "ended"),
        (b"", "ended"),
    ],
)
def test_every_end_but_success_is_a_break(data: bytes, words: str) -> None:
    raise_for_status(status("Success"))
    with pytest.raises(ChannelError, match=words):
        raise_for_status(data)

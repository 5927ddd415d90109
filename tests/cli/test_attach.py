"""sweyard attach on a real terminal, against a server that speaks exec as the API server does."""

import asyncio
import contextlib
import json
import os
import pty
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import WSMsgType, web
from tests.cli.test_cluster_refusals import write_kubeconfig
from tests.terminal import terminal

from sweyard_api.constants import ANNOTATION_HOLDER, LABEL_COMPONENT
from sweyard_cli.cluster.terminal import exit_code_of
from sweyard_cli.errors import UserError

POD = "p-0"
STDIN, STDOUT, ERROR, RESIZE = 0, 1, 3, 4
"""Channels of v4.channel.k8s.io."""
LOST = 99
"""A shell that ends with it takes the connection along."""


async def list_pods(request: web.Request) -> web.Response:
    metadata = {"name": POD, "labels": {LABEL_COMPONENT: "sandbox"}, "annotations": {ANNOTATION_HOLDER: "trainer-0"}}
    return web.json_response({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [{"metadata": metadata}]})


async def exec_here(request: web.Request) -> web.WebSocketResponse:
    """The command that is asked for, on a terminal of this machine."""
    socket = web.WebSocketResponse(protocols=["v4.channel.k8s.io"])
    await socket.prepare(request)
    assert request.query["tty"] == "true"
    assert request.query["container"] == "sandbox"
    master, slave = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        "setsid", "--ctty", *request.query.getall("command"), stdin=slave, stdout=slave, stderr=slave,
        env={"PATH": os.environ["PATH"], "PS1": "$ ", "HOME": "/nonexistent"},
    )  # fmt: skip
    os.close(slave)
    passing = asyncio.create_task(pass_output(master, socket))
    taking = asyncio.create_task(take_input(socket, master))
    try:
        code = await process.wait()
        await passing
    finally:
        if process.returncode is None:
            process.kill()
        taking.cancel()
    if code == LOST:
        assert request.transport is not None
        request.transport.abort()
    causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    status = {"status": "Failure", "reason": "NonZeroExitCode", "details": causes} if code else {"status": "Success"}
    with contextlib.suppress(ConnectionError):
        await socket.send_bytes(bytes([ERROR]) + json.dumps(status).encode())
        await socket.close()
    os.close(master)
    return socket


async def pass_output(master: int, socket: web.WebSocketResponse) -> None:
    """Until nobody has the terminal open any more."""
    with contextlib.suppress(OSError):
        while said := await asyncio.to_thread(os.read, master, 4096):
            await socket.send_bytes(bytes([STDOUT]) + said)


async def take_input(socket: web.WebSocketResponse, master: int) -> None:
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[0] == STDIN:
            os.write(master, message.data[1:])
        elif message.data[0] in (RESIZE, chr(RESIZE)):
            size = json.loads(message.data[1:])
            termios.tcsetwinsize(master, (size["Height"], size["Width"]))


@pytest.fixture
def server() -> Iterator[str]:
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/default/pods", list_pods)
    app.router.add_get(f"/api/v1/namespaces/default/pods/{POD}/exec", exec_here)
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(app, shutdown_timeout=1)
    loop.run_until_complete(runner.setup())
    site = web.TCPSite(runner, "127.0.0.1", 0)
    loop.run_until_complete(site.start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_keys_sizes_and_signals_go_to_the_sandbox_and_its_exit_code_comes_back(server: str, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", server)
    command = [sys.executable, "-m", "sweyard_cli", "attach", POD]
    with terminal(command, {**os.environ, "KUBECONFIG": str(kubeconfig)}, 33, 101) as shown:
        shown.wait_for("p-0 is held by trainer-0")
        shown.type("stty size\n")
        shown.wait_for("33 101")
        shown.resize(24, 80)
        shown.type("sleep 0.3; stty size; echo sleeping; sleep 1000\n")
        shown.wait_for("24 80")
        shown.wait_for("sleeping")
        shown.type("\x03")
        shown.type("echo $((6 * 7))-interrupted\n")
        shown.wait_for("42-interrupted")
        assert not shown.is_as_before
        shown.type("exit 7\n")
        assert shown.process.wait(timeout=60) == 7
        assert shown.is_as_before


def test_a_connection_that_breaks_off_is_told_and_leaves_the_terminal_as_it_was(server: str, tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "config", server)
    command = [sys.executable, "-m", "sweyard_cli", "attach", POD]
    with terminal(command, {**os.environ, "KUBECONFIG": str(kubeconfig)}, 33, 101) as shown:
        shown.wait_for("p-0 is held by trainer-0")
        shown.type(f"exit {LOST}\n")
        shown.wait_for("error: the connection to the shell in default/p-0 broke off")
        assert shown.process.wait(timeout=60) == 1
        assert shown.is_as_before


@pytest.mark.parametrize(
    ("told", "code"),
    [
        ({"status": "Success"}, 0),
        ({"status": "Failure", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}}, 7),
    ],
)
def test_the_exit_code_is_in_the_status_that_ends_an_exec(told: dict[str, object], code: int) -> None:
    assert exit_code_of(json.dumps(told).encode(), "broken") == code


@pytest.mark.parametrize("told", [None, b'{"status": "Failure", "message": "no such container"}'])
def test_an_end_without_a_code_is_told(told: bytes | None) -> None:
    with pytest.raises(UserError, match=r"broken|no such container"):
        exit_code_of(told, "broken")

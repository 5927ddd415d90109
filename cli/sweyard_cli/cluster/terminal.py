"""A shell in a container, with this terminal as its own: keys, sizes and signals go there, bytes come back."""

import json
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kubernetes import client, stream
from kubernetes.stream.ws_client import ERROR_CHANNEL, RESIZE_CHANNEL
from websocket import WebSocketException

from sweyard_api.constants import CONTAINER_SANDBOX
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.errors import UserError

SHELL = ["/bin/sh", "-c", "if command -v bash >/dev/null; then exec bash; else exec sh; fi"]
_READ_BYTES = 4096
_POLL_SECONDS = 0.05


def run_shell(connection: Connection, pod: str) -> int:
    """Until it ends; its exit code. Needs a terminal on both sides. Raises UserError."""
    core = client.CoreV1Api(connection.api_client)
    with told_plainly(f"a shell in {connection.namespace}/{pod}"):
        shell = stream.stream(
            core.connect_get_namespaced_pod_exec,
            pod,
            connection.namespace,
            container=CONTAINER_SANDBOX,
            command=SHELL,
            stdin=True,
            stdout=True,
            stderr=False,
            tty=True,
            binary=True,
            _preload_content=False,
        )
    broken = f"the connection to the shell in {connection.namespace}/{pod} broke off; what ran in it may have ended"
    try:
        with raw_terminal(), sizes_sent_to(shell):
            while shell.is_open():
                pass_on(shell)
    except (OSError, WebSocketException) as error:
        raise UserError(f"{broken} ({error})", exit_code=1) from error
    return exit_code_of(shell.read_channel(ERROR_CHANNEL) or None, broken)


def exit_code_of(told: bytes | None, broken: str) -> int:
    """Of the Status that ends an exec. Raises UserError, with `broken`, where it never came."""
    if told is None:
        raise UserError(broken, exit_code=1)
    status = json.loads(told)
    causes = (status.get("details") or {}).get("causes") or ()
    codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
    if status.get("status") == "Success" or codes:
        return codes[0] if codes else 0
    raise UserError(str(status.get("message") or broken), exit_code=1)


def pass_on(shell: Any) -> None:
    """What there is in either direction."""
    shell.update(timeout=_POLL_SECONDS)
    if shell.peek_stdout():
        os.write(sys.stdout.fileno(), shell.read_stdout())
    if select.select([sys.stdin.fileno()], [], [], 0)[0] and (typed := os.read(sys.stdin.fileno(), _READ_BYTES)):
        shell.write_stdin(typed)


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Each key goes on as it is, Ctrl-C too; afterwards the terminal is what it was."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor, termios.TCSADRAIN)  # what was typed meanwhile goes there, too
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


@contextmanager
def sizes_sent_to(shell: Any) -> Iterator[None]:
    """Now, and whenever the window changes."""

    def send(number: int, frame: FrameType | None) -> None:
        size = os.get_terminal_size(sys.stdin.fileno())  # not what variables say, which may be another terminal's
        shell.write_channel(RESIZE_CHANNEL, json.dumps({"Width": size.columns, "Height": size.lines}))

    before = signal.signal(signal.SIGWINCH, send)
    send(signal.SIGWINCH, None)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)

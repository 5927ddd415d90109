"""LentVolume: a run's volume, as long as a pod of ours lends it; commands that read it run there, over exec."""

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from kubernetes import client, stream
from kubernetes.stream.ws_client import ERROR_CHANNEL, STDERR_CHANNEL, STDOUT_CHANNEL
from websocket import ABNF, WebSocket, WebSocketException

from sweyard_api.constants import STORAGE_MOUNT_PATH
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.cluster.terminal import exit_code_of
from sweyard_cli.errors import UserError
from sweyard_cli.fetch.lender import LENDER, Place, ended, is_ready, lender_pod, waits_for
from sweyard_cli.fetch.receiving import BROKEN
from sweyard_cli.report.text import shown

POLL_SECONDS = 0.5
SILENT_SECONDS = 120.0
"""Of a stream that says nothing for so long the other end is gone."""
_TOLD_CHARACTERS = 300


class LentVolume:
    """Of one pod."""

    def __init__(self, connection: Connection, pod: str) -> None:
        self._core = client.CoreV1Api(connection.api_client)
        self._namespace = connection.namespace
        self._pod = pod

    def run(self, script: str, arguments: Sequence[str], given: bytes = b"") -> Iterator[bytes]:
        """What a script for sh says, of the volume's directory as its $0. `given` is its input, and must be short.

        Raises UserError where it fails, or the connection breaks off.
        """
        with told_plainly(f"a command in {self._namespace}/{self._pod}"):
            opened = stream.stream(
                self._core.connect_get_namespaced_pod_exec,
                self._pod,
                self._namespace,
                container=LENDER,
                command=["sh", "-c", script, STORAGE_MOUNT_PATH, *arguments],
                stdin=bool(given),
                stdout=True,
                stderr=True,
                binary=True,
                _preload_content=False,
            )
        complaint = b""
        try:
            opened.sock.settimeout(SILENT_SECONDS)
            if given:
                opened.write_stdin(given)
            while (channel_and_data := _next_frame(opened.sock)) is not None:
                channel, data = channel_and_data[0], channel_and_data[1:]
                if channel == STDOUT_CHANNEL:
                    yield data
                elif channel == STDERR_CHANNEL:
                    complaint = (complaint + data)[-_TOLD_CHARACTERS:]
                elif channel == ERROR_CHANNEL:
                    code = exit_code_of(data, BROKEN)
                    if code:
                        raise UserError(f"the run's files cannot be read: {_sentence(complaint, code)}", exit_code=1)
                    return
            raise UserError(BROKEN, exit_code=1)
        except (OSError, WebSocketException) as error:
            raise UserError(f"{BROKEN} ({error})", exit_code=1) from error
        finally:
            opened.close()


def _next_frame(socket: WebSocket) -> bytes | None:
    """Channel and bytes; None at the end."""
    while True:
        code, frame = socket.recv_data_frame(True)
        if code == ABNF.OPCODE_CLOSE:
            return None
        if code in (ABNF.OPCODE_BINARY, ABNF.OPCODE_TEXT) and frame.data:
            return bytes(frame.data)


def _sentence(complaint: bytes, code: int) -> str:
    return shown(complaint.decode(errors="replace").strip(), _TOLD_CHARACTERS) or f"exit code {code}"


@contextmanager
def lent(
    connection: Connection,
    place: Place,
    pod: str,
    *,
    deadline_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[LentVolume]:
    """The volume, from a pod of that name which goes when the block is left, also by a signal.

    Raises UserError where there can be no such pod, or none in time.
    """
    core = client.CoreV1Api(connection.api_client)
    with _unwound_by_signals():
        try:
            with told_plainly(f"the pod {place.namespace}/{pod}, which would lend the run's files"):
                core.create_namespaced_pod(place.namespace, lender_pod(place, pod))
            _await(connection, place, pod, monotonic() + deadline_seconds, sleep, monotonic)
            yield LentVolume(connection, pod)
        finally:
            _delete(core, place.namespace, pod)


def _await(
    connection: Connection,
    place: Place,
    name: str,
    give_up_at: float,
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
) -> None:
    core, plain = client.CoreV1Api(connection.api_client), connection.api_client.sanitize_for_serialization
    where = f"the pod {place.namespace}/{name}, which would lend the run's files,"
    while True:
        with told_plainly(where):
            pod = plain(core.read_namespaced_pod(name, place.namespace))
        if is_ready(pod):
            return
        if (reason := ended(pod)) is not None:
            raise UserError(f"{where} failed: {shown(reason, _TOLD_CHARACTERS)}", exit_code=1)
        if monotonic() > give_up_at:
            with told_plainly(where):
                events = core.list_namespaced_event(
                    place.namespace, field_selector=f"involvedObject.name={name},involvedObject.kind=Pod"
                )
            waited_for = shown(waits_for(pod, plain(events)["items"]), _TOLD_CHARACTERS)
            raise UserError(f"{where} did not start (--timeout waits longer): {waited_for}", exit_code=1)
        sleep(POLL_SECONDS)


def _delete(core: client.CoreV1Api, namespace: str, pod: str) -> None:
    """It may never have been made."""
    with told_plainly(f"the pod {namespace}/{pod} is left, and ends by itself"):
        try:
            core.delete_namespaced_pod(pod, namespace, grace_period_seconds=0)
        except client.ApiException as error:
            if error.status not in (403, 404):  # who may not make pods may not delete them either
                raise


@contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP leave blocks as Ctrl-C does."""

    def unwind(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, unwind) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

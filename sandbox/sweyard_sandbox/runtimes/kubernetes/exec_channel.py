"""ExecChannel: a pod's exec endpoint as a byte stream, over one websocket.

The first byte of each message is its stream: 0 stdin, 1 stdout, 2 stderr, 3 how it ended. Of the two protocols that
API servers speak, v4's bytes pass through API server and kubelet to the container runtime as they are; v5, whose gain
is that stdin can end alone, is taken apart on the way and put together again, message by message.

Pings keep what stands between from cutting a silent stream. aiohttp stops reading from the socket while received bytes
wait here, and `send` waits while the socket takes no more, so memory stays bounded in both directions.
"""

import asyncio
import contextlib
import json
import re

import aiohttp

from sweyard_sandbox.driver.channel import ChannelError
from sweyard_sandbox.errors import FailureReason, InfrastructureError, ToolsMissingError
from sweyard_sandbox.pool.api import ApiClient, ApiError, UnreachableError

_PROTOCOL = "v4.channel.k8s.io"
_STDIN, _STDOUT, _ERROR = 0, 1, 3
_MESSAGE_BYTES = 64 * 1024
_CLOSE_SECONDS = 2.0
_NO_PROGRAM = re.compile(r'exec: "([^"]+)": .*(?:no such file or directory|not found|permission denied)')


async def open_exec(
    api: ApiClient, namespace: str, pod: str, container: str, command: list[str], *, heartbeat_seconds: float
) -> "ExecChannel":
    """Start `command` in a container. A stream whose pings stay unanswered ends.

    Raises ChannelError; InfrastructureError if the account may not do this.
    """
    params = [("command", word) for word in command]
    params += [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "false"), ("tty", "false")]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
    try:
        websocket = await api.websocket(path, params, protocols=(_PROTOCOL,), heartbeat_seconds=heartbeat_seconds)
    except (ApiError, UnreachableError) as error:
        if isinstance(error, ApiError) and error.status in (401, 403):
            said = (
                f"exec into pod {namespace}/{pod} was refused ({error.status}); the account needs create on pods/exec"
            )
            raise InfrastructureError(FailureReason.FORBIDDEN, said) from error
        raise ChannelError(str(error)) from error
    return ExecChannel(websocket)


class ExecChannel:
    """stdin and stdout of a process in a container."""

    def __init__(self, websocket: aiohttp.ClientWebSocketResponse) -> None:
        self._websocket = websocket
        self._sending = asyncio.Lock()

    async def send(self, data: bytes) -> None:
        """Send to stdin, in messages of bounded size."""
        view = memoryview(data)
        try:
            async with self._sending:
                for start in range(0, len(data), _MESSAGE_BYTES):
                    await self._websocket.send_bytes(bytes([_STDIN]) + view[start : start + _MESSAGE_BYTES])
        except (aiohttp.ClientError, ConnectionError) as error:
            raise ChannelError(f"the exec stream broke: {error!r}") from error

    async def receive(self) -> bytes:
        """Some of stdout; empty once the process has ended well, or this side has closed.

        Raises ChannelError; InfrastructureError if the image has no such program.
        """
        while True:
            message = await self._websocket.receive()
            match message.type:
                case aiohttp.WSMsgType.BINARY if message.data[:1] == bytes([_STDOUT]):
                    if len(message.data) > 1:
                        return bytes(message.data[1:])
                case aiohttp.WSMsgType.BINARY if message.data[:1] == bytes([_ERROR]):
                    raise_for_status(message.data[1:])
                    return b""
                case aiohttp.WSMsgType.BINARY | aiohttp.WSMsgType.TEXT:
                    continue
                case aiohttp.WSMsgType.ERROR:
                    raise ChannelError(f"the exec stream broke: {message.data!r}")
                case aiohttp.WSMsgType.CLOSE if message.data != aiohttp.WSCloseCode.OK:
                    raise ChannelError(f"the exec stream was closed with code {message.data} {message.extra or ''}")
                case _:
                    return b""

    async def close(self) -> None:
        """Close; the process finds its input ended. What does not answer is dropped."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._websocket.close()


def raise_for_status(data: bytes) -> None:
    """Raise what a Status object on the error stream says, if it is no success."""
    try:
        status = json.loads(data)
        kind, message = status.get("status"), str(status.get("message", ""))
    except (ValueError, AttributeError):
        kind, message = None, data[:300].decode("utf-8", "replace")
    if kind == "Success":
        return
    if found := _NO_PROGRAM.search(message):
        raise ToolsMissingError(f"the image has no {found[1]} that can be executed")
    raise ChannelError(f"the exec stream ended: {message}")

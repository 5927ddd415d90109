"""LocalSandbox: the Sandbox protocol over the first process of an isolated sandbox."""

import asyncio
import errno
import os
import shlex
import socket
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Self

from sweyard_sandbox.driver.sandbox import build_prelude
from sweyard_sandbox.driver.wire import MAX_INLINE_COMMAND_BYTES, encode_shell_text
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.runtime import DEFAULT_OUTPUT_CAP_BYTES, Result
from sweyard_sandbox.runtimes.local.messages import from_descriptor, receive_message, send_message, to_descriptor

_FILE_TIMEOUT_SECONDS = 120.0
_SILENCE_SECONDS = 60.0
"""Beyond a request's own timeout: then the sandbox is lost."""
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_PERMISSION = {errno.EROFS, errno.EPERM}
_NO_SHELL = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENOEXEC}
"""Commands removed or spoilt it: their own doing, not this machine's."""

Answer = tuple[dict[str, Any], list[int]]


class LocalSandbox:
    """One request at a time; `destroy` ends the sandbox itself."""

    def __init__(
        self, name: str, secret: str, pid: int, stream: socket.socket, destroy: Callable[[], Awaitable[None]]
    ) -> None:
        self._name = name
        self._secret = secret
        self._pid = pid
        self._stream = stream
        self._destroy = destroy
        self._turn = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._num_requests = 0
        self._dead: InfrastructureError | None = None
        self._closed = False
        asyncio.get_running_loop().add_reader(stream.fileno(), self._receive)

    @property
    def id(self) -> str:
        """Unique name, for logs."""
        return self._name

    async def run(
        self,
        command: str,
        *,
        timeout_seconds: float,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        output_cap_bytes: int = DEFAULT_OUTPUT_CAP_BYTES,
    ) -> Result:
        """Run `command` by `sh -c`."""
        prelude, text = build_prelude(cwd, env, user), encode_shell_text(command)
        request = {"op": "run", "argv": ["/bin/sh", "-c", command]}
        if len(text) > MAX_INLINE_COMMAND_BYTES:
            # By descriptor: the kernel limits the length of one argument.
            request["argv"] = ["/bin/sh", "-c", f"launch='sh -c'\n{prelude}\nexec ${{launch% -c}} /dev/fd/5"]
            return await self._command(request, timeout_seconds, output_cap_bytes, to_descriptor(text))
        if prelude != ":":
            script = f"launch='sh -c'\n{prelude}\nexec $launch \"$1\""
            request["argv"] = ["/bin/sh", "-c", script, "sh", command]
        return await self._command(request, timeout_seconds, output_cap_bytes)

    async def run_python(
        self, archive: str, arguments: Sequence[str], *, timeout_seconds: float, output_cap_bytes: int
    ) -> Result:
        """See ForksPython."""
        request = {"op": "python", "archive": archive, "arguments": list(arguments)}
        return await self._command(request, timeout_seconds, output_cap_bytes)

    async def read(self, path: str, *, cap_bytes: int = 64_000_000) -> bytes:
        """Bytes of a file; OSError(EFBIG) if there are more than `cap_bytes`."""
        answer, descriptors = await self._ask({"op": "read", "path": path}, _FILE_TIMEOUT_SECONDS)
        _raise_for_file(answer, path)
        try:
            data = from_descriptor(descriptors[0], cap_bytes + 1)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or errno.EIO), path) from None
        if len(data) > cap_bytes:
            raise OSError(errno.EFBIG, f"longer than cap_bytes={cap_bytes}; raise the cap or read a part", path)
        return data

    async def write(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Write a file, making parent directories."""
        request = {"op": "write", "path": path, "mode": mode}
        answer, _ = await self._ask(request, _FILE_TIMEOUT_SECONDS, to_descriptor(data))
        _raise_for_file(answer, path)

    async def listen(self) -> socket.socket:
        """See ListensInside: a socket belongs to the network in which it was made, whoever accepts from it."""
        answer, descriptors = await self._ask({"op": "listen"}, _FILE_TIMEOUT_SECONDS)
        if "errno" in answer:
            raise InfrastructureError(FailureReason.ERROR, f"no socket: {os.strerror(answer['errno'])}")
        return socket.socket(fileno=descriptors[0])

    async def close(self) -> None:
        """Destroy the sandbox."""
        if self._closed:
            return
        self._closed = True
        self._die(InfrastructureError(FailureReason.DELETED, "the sandbox is closed"))
        await self._destroy()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _command(
        self, request: dict[str, Any], timeout_seconds: float, cap_bytes: int, *descriptors: int
    ) -> Result:
        request |= {"timeout_seconds": timeout_seconds, "cap_bytes": cap_bytes}
        answer, outputs = await self._ask(request, timeout_seconds, *descriptors)
        if answer.get("errno") in _NO_SHELL:
            return Result(127, f"sh: {os.strerror(answer['errno'])}\n".encode(), False, False, 0.0)
        if "errno" in answer:
            raise InfrastructureError(FailureReason.ERROR, f"no command can start: {os.strerror(answer['errno'])}")
        output = from_descriptor(outputs[0])
        return Result(answer["code"], output, answer["truncated"], answer["timed_out"], answer["seconds"])

    async def _ask(self, request: dict[str, Any], timeout_seconds: float, *descriptors: int) -> Answer:
        """Send a request in its turn, give away the descriptors, await the answer."""
        try:
            async with self._turn:
                number, answer = self._send(request, descriptors)
                try:
                    async with asyncio.timeout(timeout_seconds + _SILENCE_SECONDS):
                        return await answer
                except TimeoutError:
                    error = InfrastructureError(FailureReason.CHANNEL_LOST, f"sandbox {self._name} does not answer")
                    self._die(error)
                    raise error from None
                except asyncio.CancelledError:
                    self._cancel(number)
                    raise
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _send(self, request: dict[str, Any], descriptors: tuple[int, ...]) -> tuple[int, asyncio.Future[Answer]]:
        if self._dead is not None:
            raise self._dead
        self._num_requests += 1
        number = self._num_requests
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            send_message(
                self._stream, request | {"number": number, "id": f"{self._secret[:6]}{number:07d}"}, descriptors
            )
        except OSError:
            self._die(self._ended())
        return number, answer

    def _cancel(self, number: int) -> None:
        self._waiting.pop(number, None)
        if self._dead is None:
            try:
                send_message(self._stream, {"op": "kill", "number": number})
            except OSError:
                self._die(self._ended())

    def _receive(self) -> None:
        try:
            received = receive_message(self._stream)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self._die(self._ended())
            return
        answer, descriptors = received
        future = self._waiting.pop(answer["number"], None)
        if future is not None and not future.done():
            future.set_result((answer, descriptors))
            return
        for descriptor in descriptors:
            os.close(descriptor)

    def _ended(self) -> InfrastructureError:
        return InfrastructureError(FailureReason.ERROR, f"the sandbox's first process (pid {self._pid}) has ended")

    def _die(self, error: InfrastructureError) -> None:
        """Whoever waits, now or later, gets `error`."""
        if self._dead is not None:
            return
        self._dead = error
        asyncio.get_running_loop().remove_reader(self._stream.fileno())
        self._stream.close()
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()


def _raise_for_file(answer: dict[str, Any], path: str) -> None:
    """The exception that a local open would raise."""
    number = answer.get("errno")
    if number is None:
        return
    if number in _DISK_FULL:
        raise InfrastructureError(FailureReason.DISK_FULL, f"{shlex.quote(path)}: {os.strerror(number)}")
    raise OSError(errno.EACCES if number in _PERMISSION else number, os.strerror(number), path)

"""DriverClient: keeps one stream to a sandbox's driver and runs commands over it, each at most once.

Invariants:
- a request is sent again, under the same id, only if a later driver says that it never began it; the driver's own
  spool makes a doubled id run once;
- a result that got lost with a stream is fetched from the spool over the next one;
- every wait has an end: the caller's timeout, then the kill deadline, then InfrastructureError.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sweyard_sandbox.driver import wire
from sweyard_sandbox.driver.channel import Channel, ChannelError, Connector
from sweyard_sandbox.errors import CommandMayHaveRunError, FailureReason, InfrastructureError
from sweyard_sandbox.runtime import Result

_TERM_GRACE_SECONDS = 1.0
_KILL_GRACE_SECONDS = 10.0
_PEEK_AFTER_SECONDS = 0.5
_PEEK_EVERY_SECONDS = 8.0
_RECONNECT_SECONDS = 60.0
_HELLO_SECONDS = 30.0
_MAX_OUTPUT_BYTES = 80_000_000
_FORGET_AFTER = 32
_FORGET_BYTES = 4_000_000


@dataclass(slots=True)
class _Pending:
    """The command whose result is awaited."""

    id: str
    request: bytes
    ended: asyncio.Future[wire.Ended]
    is_expired: bool = False
    """Its timeout is over: it must not begin any more."""

    def fail(self, error: InfrastructureError) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


@dataclass(slots=True)
class ChannelCounters:
    """What a sandbox's stream went through, for metrics."""

    reconnects: int = 0
    resent: int = 0
    recovered: int = 0
    """Results fetched after a reconnect."""


@dataclass(slots=True)
class DriverClient:
    """One sandbox's driver. `secret` must be unguessable; `environment` is exported to every command."""

    connector: Connector
    secret: str
    environment: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    reconnect_seconds: float = _RECONNECT_SECONDS
    counters: ChannelCounters = field(default_factory=ChannelCounters)
    _channel: Channel | None = field(init=False, default=None)
    _hello: wire.Hello | None = field(init=False, default=None)
    _connected: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    _dead: InfrastructureError | None = field(init=False, default=None)
    _reader: asyncio.Task[None] | None = field(init=False, default=None)
    _pending: _Pending | None = field(init=False, default=None)
    _asides: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _finished: list[str] = field(init=False, default_factory=list)
    _num_commands: int = field(init=False, default=0)
    _spool_bytes: int = field(init=False, default=0)
    _last_bytes: int = field(init=False, default=0)
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    async def open(self) -> None:
        """Connect and wait until the driver is ready. Raises InfrastructureError."""
        parser = await self._connect()
        self._reader = asyncio.create_task(self._read(parser), name="driver-stream")

    async def run(
        self,
        command: str,
        *,
        timeout_seconds: float,
        prelude: str = ":",
        payload: bytes | None = None,
        output_cap_bytes: int,
    ) -> Result:
        """Run `command` after `prelude`, which finds `payload` in the file "$spool/$SWEYARD_COMMAND.put.$$".

        One command runs at a time; the timeout counts from its turn. Raises InfrastructureError, or
        CommandMayHaveRunError if the channel was lost for good meanwhile.
        """
        async with self._turn:
            return await self._run(command, timeout_seconds, prelude, payload, output_cap_bytes)

    async def _run(
        self, command: str, timeout_seconds: float, prelude: str, payload: bytes | None, output_cap_bytes: int
    ) -> Result:
        pending = self._new_pending(command, prelude, payload, output_cap_bytes)
        began = self.clock()
        try:
            await self._send(pending.request)
            timed_out = not await self._wait_for_end(pending, timeout_seconds)
        except asyncio.CancelledError:
            self._aside(wire.encode_line("kill", pending.id, "KILL"))
            raise
        finally:
            self._pending = None
        ended = pending.ended.result()
        self._last_bytes = len(pending.request) + len(ended.output)
        self._spool_bytes += self._last_bytes
        return Result(
            exit_code=-1 if timed_out else ended.code,
            output=ended.output[:output_cap_bytes],
            truncated=ended.cut or len(ended.output) > output_cap_bytes,
            timed_out=timed_out,
            seconds=self.clock() - began,
            oom_killed=ended.oom_kills > 0,
        )

    async def close(self) -> None:
        """Close the stream; whoever still waits gets InfrastructureError(Deleted)."""
        self.abandon(InfrastructureError(FailureReason.DELETED, "the sandbox is closed"))
        for task in self._asides:
            task.cancel()
        if self._channel is not None:
            await self._channel.close()

    def abandon(self, error: InfrastructureError) -> None:
        """Give up: whoever waits, now or later, gets `error`."""
        self._die(error)
        if self._reader is not None:
            self._reader.cancel()

    def _new_pending(self, command: str, prelude: str, payload: bytes | None, cap_bytes: int) -> _Pending:
        if self._dead is not None:
            raise self._dead
        assert self._hello is not None, "open() first"
        self._num_commands += 1
        command_id = f"{self.secret[:6]}{self._num_commands:07d}"
        if payload is None and len(command) > wire.MAX_INLINE_COMMAND_BYTES // 4:
            encoded = wire.encode_shell_text(command)
            if len(encoded) > wire.MAX_INLINE_COMMAND_BYTES:
                payload, command = encoded, ""
                # By descriptor, for the spool is closed to other users; without -c, for the argument would be too long.
                prelude += '\nexec 5<"$spool/$SWEYARD_COMMAND.put.$$"\nlaunch=${launch% -c} command=/dev/fd/5'
        request = wire.encode_run(command_id, cap_bytes=cap_bytes, prelude=prelude, command=command)
        if payload is not None:
            request = wire.encode_put(f"{command_id}.put", payload, exact_head=self._hello.exact_head) + request
        request = self._forget_finished(command_id) + request
        self._pending = _Pending(command_id, request, asyncio.get_running_loop().create_future())
        return self._pending

    def _forget_finished(self, command_id: str) -> bytes:
        """A request to remove the files of earlier commands, now and then; not of the last: its pipe may be open."""
        request = b""
        if len(self._finished) > 1 and (len(self._finished) > _FORGET_AFTER or self._spool_bytes > _FORGET_BYTES):
            request = wire.encode_line("forget", *self._finished[:-1])
            self._finished, self._spool_bytes = self._finished[-1:], self._last_bytes
        self._finished.append(command_id)
        return request

    async def _wait_for_end(self, pending: _Pending, timeout_seconds: float) -> bool:
        """False if the timeout came first; then everything that the command started has been killed."""
        deadline, patience = self.clock() + timeout_seconds, _PEEK_AFTER_SECONDS
        while (left := deadline - self.clock()) > 0:
            if await _within(min(left, patience), pending.ended):
                return True
            await self._send(wire.encode_line("peek", pending.id))
            patience = min(2 * patience, _PEEK_EVERY_SECONDS)
        pending.is_expired = True
        await self._send(wire.encode_line("kill", pending.id, "TERM"))
        await _within(_TERM_GRACE_SECONDS, pending.ended)
        await self._send(wire.encode_line("kill", pending.id, "KILL"))
        if not await _within(_KILL_GRACE_SECONDS, pending.ended):
            await self._break()
            if not await _within(self.reconnect_seconds + _HELLO_SECONDS, pending.ended):
                raise self._lost("did not answer after a timeout")
        return False

    async def _break(self) -> None:
        """The driver is silent: make the reader connect anew."""
        if self._channel is not None:
            await self._channel.close()

    def _aside(self, request: bytes) -> None:
        """Send something whose answer nobody awaits."""
        if self._dead is None:
            task = asyncio.create_task(self._send_if_alive(request))
            self._asides.add(task)
            task.add_done_callback(self._asides.discard)

    async def _send_if_alive(self, request: bytes) -> None:
        try:
            await self._send(request)
        except InfrastructureError:
            return  # the next command says so

    async def _send(self, request: bytes) -> None:
        await self._connected.wait()
        if self._dead is not None:
            raise self._dead
        assert self._channel is not None
        try:
            await self._channel.send(request)
        except ChannelError:
            # The reader sees the end of the stream, reconnects, and asks about the pending command.
            await self._channel.close()

    async def _read(self, parser: wire.AnswerParser) -> None:
        while True:
            assert self._channel is not None
            try:
                while data := await self._channel.receive():
                    for answer in parser.feed(data):
                        await self._handle(answer)
            except (ChannelError, wire.WireError):
                pass
            self._connected.clear()
            await self._channel.close()
            try:
                parser = await self._reconnect()
            except InfrastructureError as error:
                self._die(error)
                return

    async def _handle(self, answer: wire.Answer) -> None:
        pending = self._pending
        if isinstance(answer, wire.Hello):  # a command killed the driver's loops
            await self._ask_about_pending()
        if (
            isinstance(answer, wire.Hello | wire.Lacks)
            or pending is None
            or answer.id != pending.id
            or pending.ended.done()
        ):
            return
        match answer:
            case wire.Ended():
                pending.ended.set_result(answer)
            case wire.Unknown() if pending.is_expired:
                pending.ended.set_result(wire.Ended(pending.id, 0, 0, cut=False, output=b""))
            case wire.Unknown():
                self.counters.resent += 1
                await self._send(pending.request)
            case wire.Refused():
                pending.fail(InfrastructureError(FailureReason.DISK_FULL, "the sandbox's disk takes no more files"))

    async def _connect(self) -> wire.AnswerParser:
        channel = await self.connector.connect()
        parser = wire.AnswerParser(self.secret, max_output_bytes=_MAX_OUTPUT_BYTES)
        try:
            async with asyncio.timeout(_HELLO_SECONDS):
                await channel.send(wire.encode_driver(self.secret, self.environment))
                self._hello = await _receive_hello(channel, parser)
        except BaseException as error:
            await channel.close()
            if isinstance(error, TimeoutError | wire.WireError):
                raise ChannelError(f"the sandbox's shell did not answer: {error}") from error
            raise
        self._channel = channel
        self._connected.set()
        return parser

    async def _reconnect(self) -> wire.AnswerParser:
        """A new stream, asked about the pending command. Raises InfrastructureError when there is no hope left."""
        deadline, delay, last = self.clock() + self.reconnect_seconds, 0.05, ""
        while self.clock() < deadline:
            if (error := await self.connector.explain()) is not None:
                raise error
            try:
                parser = await self._connect()
            except ChannelError as broken:
                last = str(broken)
                await asyncio.sleep(delay)
                delay = min(2 * delay, 5.0)
                continue
            self.counters.reconnects += 1
            await self._ask_about_pending()
            return parser
        raise self._lost(f"could not be reached for {self.reconnect_seconds:.0f} s ({last})")

    async def _ask_about_pending(self) -> None:
        if self._pending is not None:
            self.counters.recovered += 1
            await self._send(wire.encode_line("status", self._pending.id))

    def _lost(self, what: str) -> InfrastructureError:
        return InfrastructureError(FailureReason.CHANNEL_LOST, f"the sandbox {what}")

    def _die(self, error: InfrastructureError) -> None:
        if self._dead is None:
            self._dead = error
        self._connected.set()
        if self._pending is not None:
            lost = error.reason is FailureReason.CHANNEL_LOST
            self._pending.fail(CommandMayHaveRunError(error.message) if lost else error)


async def _within(seconds: float, future: asyncio.Future[Any]) -> bool:
    """Whether `future` is done in time; raises what it holds. The future itself is not cancelled."""
    if not future.done():
        await asyncio.wait([future], timeout=seconds)
    if future.done():
        future.result()
    return future.done()


async def _receive_hello(channel: Channel, parser: wire.AnswerParser) -> wire.Hello:
    while data := await channel.receive():
        for answer in parser.feed(data):
            if isinstance(answer, wire.Lacks):
                tools = ", ".join(answer.tools)
                raise InfrastructureError(FailureReason.ERROR, f"the image lacks {tools}; install coreutils or busybox")
            if isinstance(answer, wire.Hello):
                return answer
    raise ChannelError("the stream ended before the driver was ready")

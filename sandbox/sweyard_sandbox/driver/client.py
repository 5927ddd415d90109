"""DriverClient: runs commands over the stream to a sandbox's driver, each at most once.

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
from sweyard_sandbox.driver.channel import Connector
from sweyard_sandbox.driver.link import HELLO_SECONDS, ChannelCounters, DriverLink
from sweyard_sandbox.driver.requests import Request, RequestBook
from sweyard_sandbox.errors import CommandMayHaveRunError, FailureReason, InfrastructureError, ToolsRemovedError
from sweyard_sandbox.runtime import Result

_TERM_GRACE_SECONDS = 1.0
_KILL_GRACE_SECONDS = 10.0


@dataclass(slots=True)
class _Pending:
    """The command whose result is awaited."""

    request: Request
    ended: asyncio.Future[wire.Ended]
    is_expired: bool = False
    """Its timeout is over: it must not begin any more."""

    def fail(self, error: InfrastructureError) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)


@dataclass(slots=True)
class DriverClient:
    """One sandbox's driver. `secret` must be unguessable; `environment` is exported to every command.

    Clients that share `turns` open no more streams at the same time than it allows.
    """

    connector: Connector
    secret: str
    environment: dict[str, str] = field(default_factory=dict)
    clock: Callable[[], float] = time.monotonic
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    link: DriverLink = field(init=False)
    _requests: RequestBook = field(init=False)
    _pending: _Pending | None = field(init=False, default=None)
    _asides: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._requests = RequestBook(self.secret[:6])
        self.link = DriverLink(
            self.connector,
            self.secret,
            self.environment,
            on_answer=self._handle,
            on_greeting=self._ask_about_pending,
            on_death=self._fail_pending,
            turns=self.turns,
            clock=self.clock,
        )

    @property
    def counters(self) -> ChannelCounters:
        """What the stream went through."""
        return self.link.counters

    async def open(self) -> None:
        """Connect and wait until the driver is ready. Raises ChannelError, InfrastructureError."""
        await self.link.open()

    async def run(
        self,
        command: str,
        *,
        timeout_seconds: float,
        prelude: str = ":",
        payload: bytes | None = None,
        output_cap_bytes: int,
    ) -> Result:
        """Run `command` after `prelude`, which finds `payload` in the file "$spool/$SWEYARD_COMMAND.put.$driver".

        One command runs at a time; the timeout counts from its turn. Raises InfrastructureError, or
        CommandMayHaveRunError if the channel was lost for good meanwhile.
        """
        async with self._turn:
            if self.link.dead is not None:
                raise self.link.dead
            request = self._requests.build(
                command,
                prelude=prelude,
                payload=payload,
                cap_bytes=output_cap_bytes,
                exact_head=self.link.hello.exact_head,
            )
            return await self._run(request, timeout_seconds)

    async def _run(self, request: Request, timeout_seconds: float) -> Result:
        pending = self._pending = _Pending(request, asyncio.get_running_loop().create_future())
        self.link.limit_output(request.cap_bytes)
        began = self.clock()
        try:
            await self.link.send(request.data)
            timed_out = not await self._wait_for_end(pending, timeout_seconds)
        except asyncio.CancelledError:
            self._aside(wire.encode_line("kill", request.id, "KILL"))
            raise
        finally:
            self._pending = None
            self._requests.finish(request)
        ended = pending.ended.result()
        return Result(
            exit_code=-1 if timed_out else ended.code,
            output=ended.output,
            truncated=ended.cut,
            timed_out=timed_out,
            seconds=self.clock() - began,
            oom_killed=ended.oom_kills > 0,
        )

    async def close(self) -> None:
        """Close the stream; whoever still waits gets InfrastructureError(Deleted)."""
        self.abandon(InfrastructureError(FailureReason.DELETED, "the sandbox is closed"))
        for task in self._asides:
            task.cancel()
        await self.link.close()

    def abandon(self, error: InfrastructureError) -> None:
        """Give up: whoever waits, now or later, gets `error`."""
        self.link.give_up(error)
        self._fail_pending(error)

    async def _wait_for_end(self, pending: _Pending, timeout_seconds: float) -> bool:
        """False if the timeout came first; then everything that the command started has been killed."""
        if await _within(timeout_seconds, pending.ended):
            return True
        pending.is_expired = True
        await self.link.send(wire.encode_line("kill", pending.request.id, "TERM"))
        await _within(_TERM_GRACE_SECONDS, pending.ended)
        await self.link.send(wire.encode_line("kill", pending.request.id, "KILL"))
        if not await _within(_KILL_GRACE_SECONDS, pending.ended):
            await self.link.break_off()
            if not await _within(self.link.reconnect_seconds + HELLO_SECONDS, pending.ended):
                raise InfrastructureError(FailureReason.CHANNEL_LOST, "the sandbox did not answer after a timeout")
        return False

    def _aside(self, request: bytes) -> None:
        """Send something whose answer nobody awaits."""
        if self.link.dead is None:
            task = asyncio.create_task(self._send_if_alive(request))
            self._asides.add(task)
            task.add_done_callback(self._asides.discard)

    async def _send_if_alive(self, request: bytes) -> None:
        try:
            await self.link.send(request)
        except InfrastructureError:
            return  # the next command says so

    async def _handle(self, answer: wire.Answer) -> None:
        pending = self._pending
        if isinstance(answer, wire.Hello | wire.Lacks) or pending is None or pending.ended.done():
            return
        if answer.id != pending.request.id:
            return
        match answer:
            case wire.Ended():
                pending.ended.set_result(answer)
            case wire.Unknown() if pending.is_expired:
                pending.ended.set_result(wire.Ended(answer.id, 0, 0, cut=False, output=b""))
            case wire.Unknown():
                self.counters.resent += 1
                await self.link.send(pending.request.data)
            case wire.Refused():
                pending.fail(InfrastructureError(FailureReason.DISK_FULL, "the sandbox's disk takes no more files"))
            case wire.Ruined():
                pending.fail(ToolsRemovedError())
            case wire.Dropped():
                said = "the command was not begun: something in the sandbox killed or stopped what runs commands"
                pending.fail(InfrastructureError(FailureReason.ERROR, said))

    async def _ask_about_pending(self) -> None:
        if self._pending is not None:
            self.counters.recovered += 1
            await self.link.send(wire.encode_line("status", self._pending.request.id))

    def _fail_pending(self, error: InfrastructureError) -> None:
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

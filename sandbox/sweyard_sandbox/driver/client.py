"""DriverClient: runs commands over the stream to a sandbox's driver, each at most once.

Where the stream can break, and what the next driver then finds in the spool (shell/common.sh):
- before the whole request arrived, or before its claim: no claim. The request is sent again under the same id; of an
  old driver that was held up and the new one, the first to make the claim runs it, and the other one begins nothing;
- between claim and start: a claim. Its driver goes on, stream or not; the new one waits, and answers from the spool.
  If the old one died there, the new one forbids the start and says so (`Dropped`): InfrastructureError;
- during output, after the exit, and after the mark but before this side read it: the same, from the spool;
- at any of these, and the spool was removed: its ledger is gone, and the command is not sent again, for nobody knows
  whether it ran: CommandMayHaveRunError.
A request is sent at most once over a stream. If a driver finds the spool removed before it begins a request that went
to no other, that did not run (`Lost`), and goes out anew, under another id, once there is another spool.

Every wait has an end: the caller's timeout, then the kill deadline, then InfrastructureError.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
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
    sent: asyncio.Event = field(default_factory=asyncio.Event)
    ledger: str | None = None
    """What it must be begun under; None while no driver was told of it."""
    is_doubtful: bool = False
    """A driver was told of it whose answers no longer come."""
    is_asked: bool = False
    """Whether it was begun, of the driver that now is."""
    is_expired: bool = False
    """Its timeout is over: it must not begin any more."""

    def end_unbegun(self) -> None:
        """It never began, and its timeout is over."""
        self.ended.set_result(wire.Ended(self.request.id, 0, 0, cut=False, output=b""))

    def fail(self, error: InfrastructureError) -> None:
        self.sent.set()
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
    _cancelled: list[str] = field(init=False, default_factory=list)
    """Commands that must not go on, until a later one has ended."""
    _asides: set[asyncio.Task[None]] = field(init=False, default_factory=set)
    _turn: asyncio.Lock = field(init=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._requests = RequestBook(self.secret[:6])
        self.link = DriverLink(
            self.connector,
            self.secret,
            self.environment,
            on_answer=self._handle,
            on_greeting=self._greet,
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
            request = self._requests.build(command, prelude=prelude, payload=payload, cap_bytes=output_cap_bytes)
            return await self._run(request, timeout_seconds)

    async def _run(self, request: Request, timeout_seconds: float) -> Result:
        pending = self._pending = _Pending(request, asyncio.get_running_loop().create_future())
        self.link.limit_output(request.cap_bytes)
        began = self.clock()
        try:
            if self.link.is_ready:
                await self._send(pending)
            await pending.sent.wait()
            timed_out = not await self._wait_for_end(pending, timeout_seconds)
        except asyncio.CancelledError:
            if pending.ledger is not None:
                self._cancelled.append(pending.request.id)
                self._aside(self._kill_cancelled())
            raise
        finally:
            self._pending = None
            self._requests.finish(pending.request)
        self._cancelled.clear()
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
        await self._kill(pending.request.id, "TERM")
        await _within(_TERM_GRACE_SECONDS, pending.ended)
        await self._kill(pending.request.id)
        if not await _within(_KILL_GRACE_SECONDS, pending.ended):
            await self.link.break_off()
            if not await _within(self.link.reconnect_seconds + HELLO_SECONDS, pending.ended):
                raise InfrastructureError(FailureReason.CHANNEL_LOST, "the sandbox did not answer after a timeout")
        return False

    async def _send(self, pending: _Pending) -> None:
        """For the first time, as far as any driver knows."""
        if pending.is_expired:
            pending.end_unbegun()
            return
        hello = self.link.hello
        pending.ledger = hello.ledger
        await self.link.send(pending.request.encode(hello.ledger, exact_head=hello.exact_head))
        pending.sent.set()

    async def _kill(self, command_id: str, signal: str = "KILL") -> None:
        await self.link.send(wire.encode_line("kill", command_id, signal))

    async def _kill_cancelled(self) -> None:
        for command_id in list(self._cancelled):
            await self._kill(command_id)

    def _aside(self, work: Coroutine[None, None, None]) -> None:
        """Something that nobody waits for."""
        task = asyncio.create_task(work)
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

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
                pending.end_unbegun()
            case wire.Unknown() if pending.is_asked:  # once, though a driver that greets twice is asked twice
                pending.is_asked = False
                self.counters.resent += 1
                await self._send(pending)
            case wire.Lost() if pending.is_doubtful:
                pending.fail(_may_have_run())
            case wire.Lost():  # a greeting follows
                pending.request, pending.ledger = self._requests.renew(pending.request), None
            case wire.Refused():
                pending.fail(InfrastructureError(FailureReason.DISK_FULL, "the sandbox's disk takes no more files"))
            case wire.Ruined():
                pending.fail(ToolsRemovedError())
            case wire.Dropped():
                said = "the command was not begun: something in the sandbox killed or stopped what runs commands"
                pending.fail(InfrastructureError(FailureReason.ERROR, said))

    async def _greet(self) -> None:
        """The driver is ready, and may be a new one."""
        await self._kill_cancelled()
        pending = self._pending
        if pending is None or pending.ended.done():
            return
        if pending.ledger is None:
            await self._send(pending)
        elif pending.ledger != self.link.hello.ledger:
            pending.fail(_may_have_run())
        else:
            pending.is_doubtful = pending.is_asked = True
            self.counters.recovered += 1
            if pending.is_expired:
                await self._kill(pending.request.id)
            await self.link.send(wire.encode_line("status", pending.request.id, pending.ledger))

    def _fail_pending(self, error: InfrastructureError) -> None:
        if self._pending is not None:
            may_have_run = error.reason is FailureReason.CHANNEL_LOST and self._pending.ledger is not None
            self._pending.fail(CommandMayHaveRunError(error.message) if may_have_run else error)


def _may_have_run() -> CommandMayHaveRunError:
    return CommandMayHaveRunError("the stream broke, and what the sandbox knew of its commands was removed")


async def _within(seconds: float, future: asyncio.Future[Any]) -> bool:
    """Whether `future` is done in time; raises what it holds. The future itself is not cancelled."""
    if not future.done():
        await asyncio.wait([future], timeout=seconds)
    if future.done():
        future.result()
    return future.done()

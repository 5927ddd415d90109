"""DriverLink: one stream to a sandbox's driver, opened again when it breaks, until the sandbox is dead."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sweyard_sandbox.driver import wire
from sweyard_sandbox.driver.channel import Channel, ChannelError, Connector
from sweyard_sandbox.errors import FailureReason, InfrastructureError, ToolsMissingError, ToolsRemovedError
from sweyard_sandbox.runtime import DEFAULT_OUTPUT_CAP_BYTES

HELLO_SECONDS = 30.0
_RECONNECT_SECONDS = 60.0
_FIRST_DELAY_SECONDS = 0.05
_LONGEST_DELAY_SECONDS = 5.0
_EXPLAIN_TRIES = 10
_EXPLAIN_SECONDS = 0.5


@dataclass(slots=True)
class ChannelCounters:
    """What a sandbox's stream went through, for metrics."""

    reconnects: int = 0
    resent: int = 0
    """Commands that never arrived and were sent again."""
    recovered: int = 0
    """Results asked for after a reconnect."""


@dataclass(slots=True)
class DriverLink:
    """Sends requests, hands over answers; `on_greeting` is called whenever the driver is ready but the first time.

    What is on its way when the stream breaks may be lost in both directions.
    """

    connector: Connector
    secret: str
    environment: dict[str, str]
    on_answer: Callable[[wire.Answer], Awaitable[None]]
    on_greeting: Callable[[], Awaitable[None]]
    on_death: Callable[[InfrastructureError], None]
    turns: asyncio.Semaphore
    """To open a stream one takes a turn, so that hundreds at once do not all run out of time."""
    clock: Callable[[], float] = time.monotonic
    reconnect_seconds: float = _RECONNECT_SECONDS
    counters: ChannelCounters = field(default_factory=ChannelCounters)
    dead: InfrastructureError | None = field(init=False, default=None)
    """Why nothing can be sent any more."""
    _channel: Channel | None = field(init=False, default=None)
    _hello: wire.Hello | None = field(init=False, default=None)
    _num_streams: int = field(init=False, default=0)
    _is_ready: bool = field(init=False, default=False)
    _parser: wire.AnswerParser = field(init=False)
    _reader: asyncio.Task[None] | None = field(init=False, default=None)
    _cap_bytes: int = field(init=False, default=DEFAULT_OUTPUT_CAP_BYTES)

    @property
    def hello(self) -> wire.Hello:
        """What the driver said of itself."""
        assert self._hello is not None, "open() first"
        return self._hello

    @property
    def is_ready(self) -> bool:
        """There is a stream, as far as is known; else `on_greeting` follows, or `on_death`."""
        return self._is_ready

    async def open(self) -> None:
        """Connect and wait until the driver is ready. Raises ChannelError, InfrastructureError."""
        await self._connect()
        self._is_ready = True
        self._reader = asyncio.create_task(self._read(), name="driver-stream")

    async def send(self, request: bytes) -> None:
        """Send if there is a stream. If it breaks, `on_greeting` follows."""
        channel = self._channel
        if not self._is_ready or channel is None:
            return
        try:
            await channel.send(request)
        except ChannelError:
            await channel.close()
        except asyncio.CancelledError:  # what was sent of it would eat the beginning of the next request
            await channel.close()
            raise

    def limit_output(self, cap_bytes: int) -> None:
        """Hold no more than this of the output to come."""
        self._cap_bytes = self._parser.max_output_bytes = cap_bytes

    async def break_off(self) -> None:
        """The driver is silent: connect anew."""
        if self._channel is not None:
            await self._channel.close()

    def give_up(self, error: InfrastructureError) -> None:
        """The sandbox is dead, or given back."""
        if self.dead is None:
            self.dead = error
        self._is_ready = False
        if self._reader is not None:
            self._reader.cancel()

    async def _read(self) -> None:
        try:
            while True:
                why = await self._read_stream()
                self._is_ready = False
                await self.break_off()
                await self._reconnect(why)
        except InfrastructureError as error:
            self.give_up(error)
            self.on_death(error)

    async def _read_stream(self) -> str:
        """Until it breaks; why."""
        assert self._channel is not None
        try:
            while data := await self._channel.receive():
                for answer in self._parser.feed(data):
                    if isinstance(answer, wire.Hello):  # a command killed the driver's loops, or removed its spool
                        self._hello = answer
                        await self.on_greeting()
                    else:
                        await self.on_answer(answer)
        except (ChannelError, wire.WireError) as error:
            return str(error)
        return "the stream ended"

    async def _connect(self) -> None:
        async with self.turns:
            await self._connect_in_turn()

    async def _connect_in_turn(self) -> None:
        channel = await self.connector.connect()
        parser = wire.AnswerParser(self.secret, max_output_bytes=self._cap_bytes)
        self._num_streams += 1
        stream = f"{self.secret[:6]}.{self._num_streams}"
        ledger = self._hello.ledger if self._hello else wire.NO_LEDGER
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                await channel.send(wire.encode_driver(self.secret, self.environment, stream=stream, ledger=ledger))
                self._hello = await _receive_hello(channel, parser)
        except BaseException as error:
            await channel.close()
            if isinstance(error, TimeoutError | wire.WireError):
                raise ChannelError(f"the sandbox's shell did not answer: {error}") from error
            raise
        self._channel, self._parser = channel, parser

    async def _reconnect(self, why: str) -> None:
        """A new stream after the last one broke. Raises InfrastructureError when there is no hope left."""
        born = self.hello.born
        deadline, delay, last = self.clock() + self.reconnect_seconds, _FIRST_DELAY_SECONDS, ""
        while self.clock() < deadline:
            if (error := await self.connector.explain()) is not None:
                raise error
            try:
                await self._connect()
            except ChannelError as broken:
                last = str(broken)
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST_DELAY_SECONDS)
                continue
            except ToolsMissingError as missing:  # they were there when it was opened first
                raise ToolsRemovedError from missing
            if self.hello.born != born:
                raise await self._explain_other_container()
            self.counters.reconnects += 1
            self._is_ready = True
            await self.on_greeting()
            return
        words = f"{why}; the sandbox could not be reached for {self.reconnect_seconds:.0f} s ({last})"
        raise InfrastructureError(FailureReason.CHANNEL_LOST, words)

    async def _explain_other_container(self) -> InfrastructureError:
        """The sandbox's container is gone, and a new one is in its place; the runtime may hear of it later than we."""
        for _ in range(_EXPLAIN_TRIES):
            if (error := await self.connector.explain()) is not None:
                return error
            await asyncio.sleep(_EXPLAIN_SECONDS)
        return InfrastructureError(FailureReason.ERROR, "the sandbox's container ended, and another one took its place")

    async def close(self) -> None:
        """Close the stream for good."""
        if self._channel is not None:
            await self._channel.close()


async def _receive_hello(channel: Channel, parser: wire.AnswerParser) -> wire.Hello:
    while data := await channel.receive():
        for answer in parser.feed(data):
            if isinstance(answer, wire.Lacks):
                tools = ", ".join(answer.tools)
                raise ToolsMissingError(f"the image lacks {tools}; install coreutils or busybox")
            if isinstance(answer, wire.Hello):
                return answer
    raise ChannelError("the stream ended before the driver was ready")

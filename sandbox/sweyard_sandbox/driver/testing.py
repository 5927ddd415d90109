"""CuttingConnector: streams to real drivers that break where a test says; ships with the driver, as its points do.

connector = CuttingConnector(inner, tmp_path / "gates")
cut = connector.cut_next(Point.BEFORE_CLAIM, hold=True)
result = await client.run(...)  # over two streams
cut.release()                   # the first driver goes on
"""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from sweyard_sandbox.driver import wire
from sweyard_sandbox.driver.channel import Channel, ChannelError, Connector
from sweyard_sandbox.errors import InfrastructureError

OUTPUT = b"output\n"
"""What a command must write for Point.IN_OUTPUT to be found."""
_POLL_SECONDS = 0.002


class Point(StrEnum):
    """How far a command is when its stream breaks."""

    UNSENT = "unsent"
    HALF_SENT = "half-sent"
    BEFORE_CLAIM = "before-claim"
    AFTER_CLAIM = "after-claim"
    BEFORE_START = "before-start"
    IN_OUTPUT = "in-output"
    AFTER_EXIT = "after-exit"
    BEFORE_MARK = "before-mark"
    UNREAD = "unread"
    """The driver has sent its mark, and nobody read it."""


_IN_DRIVER = {Point.BEFORE_CLAIM, Point.AFTER_CLAIM, Point.BEFORE_START, Point.AFTER_EXIT, Point.BEFORE_MARK}
"""Those at which a driver stops by itself: lines `#@ NAME` of its text."""


@dataclass(slots=True)
class Cut:
    """One break. With `hold`, a driver that stopped at `point` stays there until it is released."""

    point: Point
    hold: bool
    gate: Path | None = None
    is_made: bool = False

    def release(self) -> None:
        """The driver goes on from where it stopped."""
        self.hold = False
        if self.gate is not None:
            self.gate.unlink(missing_ok=True)


@dataclass(slots=True)
class CuttingConnector:
    """Streams of `inner`, whose drivers can be stopped; `gates` is a folder of its own that they can write."""

    inner: Connector
    gates: Path
    channels: list["CuttingChannel"] = field(init=False, default_factory=list)
    _next: Cut | None = field(init=False, default=None)

    def cut_next(self, point: Point, *, hold: bool = False) -> Cut:
        """Break the stream of the next command that is sent at `point`."""
        self._next = Cut(point, hold)
        return self._next

    def take_cut(self) -> Cut | None:
        """For the command that is being sent."""
        cut, self._next = self._next, None
        return cut

    async def connect(self) -> Channel:
        """A stream to a driver of its own."""
        inner = await self.inner.connect()
        folder = self.gates / str(len(self.channels))
        folder.mkdir(parents=True)
        self.channels.append(CuttingChannel(self, inner, folder))
        return self.channels[-1]

    async def explain(self) -> InfrastructureError | None:
        """As the inner one."""
        return await self.inner.explain()


class CuttingChannel:
    """One stream; its first message is the driver, which is given stops."""

    def __init__(self, owner: CuttingConnector, inner: Channel, folder: Path) -> None:
        self.requests: list[bytes] = []
        """What was sent for commands, status questions and the like; not the driver."""
        self._owner = owner
        self._inner = inner
        self._folder = folder
        self._cut: Cut | None = None
        self._is_driver_sent = False
        self._seen = b""
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._tasks = [asyncio.create_task(self._pump())]

    async def send(self, data: bytes) -> None:
        """Send as much as the cut allows."""
        if self._cut is not None and self._cut.is_made:
            raise ChannelError("cut")
        if not self._is_driver_sent:
            self._is_driver_sent = True
            await self._inner.send(self._add_stops(data))
            return
        self.requests.append(data)
        if is_run(data):
            self._cut = self._cut or self._owner.take_cut()
            data = self._prepare(data)
        await self._inner.send(data)
        if self._cut is not None and self._cut.point in (Point.UNSENT, Point.HALF_SENT):
            await self._break()

    async def receive(self) -> bytes:
        """What came before the cut."""
        if (data := await self._received.get()) is None:
            self._received.put_nowait(None)
            raise ChannelError("cut")
        return data

    async def close(self) -> None:
        """Close the inner stream."""
        for task in self._tasks:
            task.cancel()
        self._received.put_nowait(None)
        await self._inner.close()

    def _prepare(self, data: bytes) -> bytes:
        """What is sent of a request under the cut."""
        self._seen = b""
        match self._cut:
            case Cut(Point.UNSENT):
                return b""
            case Cut(Point.HALF_SENT):
                return data[: len(data) // 2]
            case Cut(point) if point in _IN_DRIVER:
                self._cut.gate = self._folder / point
                self._cut.gate.touch()
                self._tasks.append(asyncio.create_task(self._wait_for_stop(self._folder / f"{point}.reached")))
        return data

    async def _wait_for_stop(self, reached: Path) -> None:
        while not reached.exists():
            await asyncio.sleep(_POLL_SECONDS)
        await self._break()

    async def _pump(self) -> None:
        try:
            while data := await self._inner.receive():
                self._seen += data
                if self._cut is not None and self._is_reached_by(self._cut.point):
                    await self._break()
                    return
                self._received.put_nowait(data)
        except ChannelError:
            pass
        self._received.put_nowait(None)

    def _is_reached_by(self, point: Point) -> bool:
        return (point is Point.IN_OUTPUT and OUTPUT in self._seen) or (point is Point.UNREAD and b"-end " in self._seen)

    async def _break(self) -> None:
        """What is on its way is lost; the driver reads what it was sent, and then the end."""
        assert self._cut is not None
        self._cut.is_made = True
        while not self._received.empty():
            self._received.get_nowait()
        self._received.put_nowait(None)
        await self._inner.close()
        if not self._cut.hold:
            self._cut.release()

    def _add_stops(self, data: bytes) -> bytes:
        gate = f"{self._folder}/{{0}}"
        stop = f"[ -e {gate} ] && {{{{ true >{gate}.reached; while [ -e {gate} ]; do sleep 0.01; done; }}}}"
        plain, stopping = wire.read_program().encode(), wire.read_program(stop).encode()
        assert data.startswith(plain)
        return stopping + data.removeprefix(plain)


def is_run(data: bytes) -> bool:
    """Whether a request is for a command, and no question about one."""
    return data.startswith((b"run ", b"put ", b"forget ")) and b"run " in data

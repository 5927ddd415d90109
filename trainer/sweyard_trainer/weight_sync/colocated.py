"""Engines on the trainer's own GPUs, which take turns: they sleep while the ranks compute, and wake with new weights.

Awake weights come first, then their content, then the key-value cache: a sleeper of level 2 has nothing that is worth
keeping, so it keeps nothing in host memory either.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Protocol

from sweyard_trainer.errors import EngineAwayError, EnginesGoneError, WeightSyncError
from sweyard_trainer.weight_sync.disk import DiskEngine
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet, Member
from sweyard_trainer.weight_sync.patience import Patience


class SharesGpus(Protocol):
    """The ranks' end; see Learner."""

    async def release_memory(self) -> None: ...

    async def open_handover(self, engine_urls: Sequence[str]) -> None: ...

    async def send_weights(self) -> None: ...


class ColocatedEngine:
    """One engine, for ColocatedFleet; from the volume where `disk` is given, else the ranks hand its weights over."""

    def __init__(self, control: EngineControl, disk: DiskEngine | None = None) -> None:
        self.control = control
        self._disk = disk

    @property
    def name(self) -> str:
        """Its URL."""
        return self.control.url

    @property
    def reads_files(self) -> bool:
        """Whether it loads by itself."""
        return self._disk is not None

    async def served_version(self) -> str:
        """See EngineControl."""
        return await self.control.served_version()

    async def update(self, version: int) -> None:
        """What is left to do once its weights have memory and, without `disk`, content."""
        if self._disk is not None:
            await self._disk.load(version)
        await self.control.name_version(version)
        await self.control.wake("kv_cache")  # with which it takes requests again, and no cached prefix is left


class ColocatedFleet(Fleet):
    """A WeightSync whose engines come and go together: the ranks hold the memory in which one could start again, so
    the life ends with the first that is lost, and the next life starts all."""

    def __init__(self, engines: Sequence[ColocatedEngine], patience: Patience, ranks: SharesGpus) -> None:
        super().__init__(engines, patience)
        self.reads_files = any(engine.reads_files for engine in engines)
        self._controls = {engine.name: engine.control for engine in engines}
        self._ranks = ranks
        self._is_open = self._asleep = False

    async def rest(self) -> None:
        """See WeightSync. The first time it waits until the engines have started."""
        async with self._alone():
            await self._all_asleep()

    async def publish(self, version: int) -> None:
        """See WeightSync."""
        async with self._alone():
            await self._all_asleep()
            self._version, self._asleep = version, False
            await self._ranks.release_memory()
            await asyncio.gather(*(self._wake(member) for member in self._members))
            if not self.reads_files:
                await self._hand_over()
            confirmed = await asyncio.gather(*(self._update(member, version) for member in self._members))
            self._require(all(confirmed))
            for member in self._members:
                member.join(version)

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """See WeightSync; nothing changes but by the end of the life. Who sleeps is asked when it is to wake."""
        while True:
            await asyncio.sleep(self._patience.pause)
            for member in self._members:
                await self._look(member)
            self._require(self._asleep or len(self.serving) == len(self._members))

    async def _all_asleep(self) -> None:
        if not self._asleep:
            await asyncio.gather(*(self._put_to_sleep(member) for member in self._members))
            self._asleep = True

    async def _put_to_sleep(self, member: Member) -> None:
        """Raises EnginesGoneError for one that does not answer in the time of a start."""
        give_up_at = self._now() + self._patience.gone
        member.version, name = None, member.engine.name
        while True:
            try:
                asleep = self._controls[name].sleep()
                return await self._within(self._patience.update, asleep, f"{name} did not fall asleep")
            except EngineAwayError as error:
                member.leave(error)
                self._give_up_after(give_up_at)
            await asyncio.sleep(self._patience.pause)

    async def _wake(self, member: Member) -> None:
        name = member.engine.name
        awake = self._controls[name].wake("weights")
        await self._within(self._patience.update, awake, f"{name} did not wake")

    async def _hand_over(self) -> None:
        try:
            async with asyncio.timeout(self._patience.update):
                if not self._is_open:
                    await self._ranks.open_handover([member.engine.name for member in self._members])
                    self._is_open = True
                await self._ranks.send_weights()
        except TimeoutError as error:
            raise WeightSyncError(f"weights were not handed over within {self._patience.update:g} s") from error

    def _require(self, everybody_serves: bool) -> None:
        if not everybody_serves:
            reasons = "; ".join(str(member.why) for member in self._members if member.version is None)
            raise EnginesGoneError(f"an engine on the trainer's GPUs is lost: {reasons}")

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Nobody looks at an engine meanwhile."""
        async with AsyncExitStack() as stack:
            for member in self._members:
                await stack.enter_async_context(member.busy)
            yield

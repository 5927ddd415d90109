"""Fleet: the engines of a run, those that serve and those that are away.

Invariants (tests/trainer/weight_sync/test_fleet.py):
- an engine serves only while what it confirmed last is what was published last;
- every stage has a deadline: nothing that an engine does, or leaves undone, holds the run up for longer;
- an engine that is away comes back with the version of that moment, without stopping the others;
- with no engine for `patience.gone` the run's life ends by a typed failure.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from sweyard_trainer.errors import EngineAwayError, EnginesGoneError, WeightSyncError
from sweyard_trainer.weight_sync.patience import Patience
from sweyard_trainer.weight_sync.scaler import Engines

logger = logging.getLogger(__name__)

T = TypeVar("T")


class FleetEngine(Protocol):
    """One engine as a fleet handles it. Its methods may take for ever; what they raise is a WeightSyncError."""

    @property
    def name(self) -> str:
        """For logs."""
        ...

    async def update(self, version: int) -> None:
        """Have it sample with `version`."""
        ...

    async def served_version(self) -> str:
        """What it calls the weights that it samples with now; another word if it does not sample."""
        ...


class Member:
    """What is known of one engine."""

    def __init__(self, engine: FleetEngine) -> None:
        self.engine = engine
        self.version: int | None = None
        """What it confirmed last; None while it is away."""
        self.why = WeightSyncError(f"{engine.name} was not asked yet")
        """What sent it away."""
        self.misses = 0
        """Looks in a row that it did not answer."""
        self.busy = asyncio.Lock()
        """Updates and looks take turns."""

    def leave(self, why: WeightSyncError) -> None:
        """It does not serve any more."""
        if self.version is not None:
            logger.error("an engine leaves: %s", why)
        self.version, self.why = None, why

    def join(self, version: int) -> None:
        """It has confirmed `version`."""
        if self.version is None:
            logger.info("%s serves, with weights %d", self.engine.name, version)
        self.version, self.misses = version, 0


class Fleet:
    """A WeightSync over engines that load a version by themselves."""

    reads_files = True

    def __init__(self, engines: Sequence[FleetEngine], patience: Patience) -> None:
        self._all = [Member(engine) for engine in engines]
        self._members = self._all
        """Those that are to serve."""
        self._patience = patience
        self._version: int | None = None
        """Published last."""
        self._absent_at = -math.inf

    @property
    def absent_at(self) -> float:
        """See WeightSync."""
        return self._absent_at

    @property
    def scalable(self) -> Engines | None:
        """See WeightSync."""
        return None

    @property
    def serving(self) -> list[str]:
        """Names of the engines that serve."""
        return [member.engine.name for member in self._members if member.version is not None]

    def sampled_version(self, published: int) -> int:
        """See WeightSync."""
        return published

    async def rest(self) -> None:
        """See WeightSync: they have machines of their own."""

    async def publish(self, version: int) -> None:
        """See WeightSync. Engines that are away are `watch`'s to bring back, unless there is no other."""
        self._version = version
        give_up_at = self._now() + self._patience.gone
        asked = [member for member in self._members if member.version is not None] or self._members
        while self._members:
            await asyncio.gather(*(self._bring(member) for member in asked))
            if self.serving:
                return
            if not any(isinstance(member.why, EngineAwayError) for member in self._members):
                raise self._members[0].why
            self._give_up_after(give_up_at)
            await asyncio.sleep(self._patience.pause)
            asked = self._members

    async def watch(self, on_change: Callable[[], Awaitable[None]]) -> None:
        """See WeightSync."""
        tasks = [asyncio.create_task(self._tend(member, on_change)) for member in self._all]
        tasks.append(asyncio.create_task(self._mourn()))
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _bring(self, member: Member) -> None:
        """Have it load what was published last and confirm it; again if another version is published meanwhile."""
        async with member.busy:
            while (version := self._version) is not None and member.version != version:
                if not await self._update(member, version):
                    return
                if version == self._version:
                    member.join(version)

    async def _update(self, member: Member, version: int) -> bool:
        """Whether it confirmed `version`; it leaves otherwise."""
        name, told = member.engine.name, member.engine.update(version)
        try:
            await self._within(self._patience.update, told, f"{name} did not load weights {version}")
            await self._confirm(member, version)
        except WeightSyncError as error:
            member.leave(error)
            return False
        return True

    async def _confirm(self, member: Member, version: int) -> None:
        """Raises WeightSyncError unless it serves `version`."""
        name, asked = member.engine.name, member.engine.served_version()
        served = await self._within(self._patience.confirm, asked, f"{name} did not confirm weights {version}")
        if served != str(version):
            raise WeightSyncError(f"{name} serves weights {served} after version {version} was sent")

    async def _tend(self, member: Member, on_change: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._patience.pause)
            if member not in self._members:
                continue
            served = member.version is not None
            await (self._look(member) if served else self._bring(member))
            if served != (member.version is not None):
                await on_change()

    async def _look(self, member: Member) -> None:
        """One that answers with other weights was started again; one that does not answer is given some time."""
        async with member.busy:
            if member.version is None:  # it has left while this look waited for its turn
                return
            name, asked = member.engine.name, member.engine.served_version()
            try:
                served = await self._within(self._patience.probe, asked, f"{name} did not answer")
                if served != str(member.version):
                    raise WeightSyncError(f"{name} serves weights {served} instead of {member.version}")
                member.misses = 0
            except EngineAwayError as error:
                member.misses += 1
                if member.misses >= self._patience.misses:
                    member.leave(error)
            except WeightSyncError as error:
                member.leave(error)

    async def _mourn(self) -> None:
        """Raises EnginesGoneError once no engine has served for too long."""
        give_up_at = self._now() + self._patience.gone
        while True:
            if self.serving or self._version is None:
                give_up_at = self._now() + self._patience.gone
            elif self._members:
                self._absent_at = self._now()
            self._give_up_after(give_up_at)
            await asyncio.sleep(self._patience.pause)

    def _give_up_after(self, moment: float) -> None:
        if self._members and self._now() >= moment:
            reasons = "; ".join(str(member.why) for member in self._members)
            raise EnginesGoneError(f"no engine has served for {self._patience.gone:g} s: {reasons}")

    async def _within(self, seconds: float, work: Awaitable[T], otherwise: str) -> T:
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            raise EngineAwayError(f"{otherwise} within {seconds:g} s") from error

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

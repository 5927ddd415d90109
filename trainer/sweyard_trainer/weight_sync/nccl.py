"""Weights from GPU to GPU: the ranks broadcast whole tensors into the engines' workers, over vLLM's transfer routes.

Engines must run with `--weight-transfer-config '{"backend": "nccl"}'` (sweyard_api.engine_command sees to it).
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Protocol

from sweyard_trainer.errors import EngineAwayError, EnginesGoneError, WeightSyncError
from sweyard_trainer.weight_sync.engine_control import EngineControl
from sweyard_trainer.weight_sync.fleet import Fleet, Member
from sweyard_trainer.weight_sync.patience import Patience


class SendsWeights(Protocol):
    """The ranks' end of a transfer; see Learner."""

    async def open_transfer(self, engine_urls: Sequence[str], workers_per_engine: int, master_host: str) -> None: ...

    async def send_weights(self) -> None: ...


class NcclEngine:
    """One engine that is sent to, for NcclFleet."""

    def __init__(self, control: EngineControl) -> None:
        self.control = control

    @property
    def name(self) -> str:
        """Its URL."""
        return self.control.url

    async def served_version(self) -> str:
        """See EngineControl."""
        return await self.control.served_version()

    async def update(self, version: int) -> None:
        """What is left to do once it has the weights."""
        await self.control.forget_prefixes()
        await self.control.name_version(version)
        await self.control.resume()


class NcclFleet(Fleet):
    """All engines that answer receive in one broadcast; one that was away joins at the next publication.

    A transfer that hangs, since an engine died inside it, ends at its deadline: the ranks are then of no use either,
    and the life ends with it.
    """

    reads_files = False

    def __init__(
        self,
        engines: Sequence[NcclEngine],
        patience: Patience,
        sender: SendsWeights,
        *,
        workers_per_engine: int,
        master_host: str,
    ) -> None:
        """`master_host` is where the engines reach rank 0."""
        super().__init__(engines, patience)
        self._controls = {engine.name: engine.control for engine in engines}
        self._sender = sender
        self._workers_per_engine, self._master_host = workers_per_engine, master_host
        self._group: list[str] = []
        """Engines that the open group joins."""

    async def publish(self, version: int) -> None:
        """See WeightSync. Nobody looks at an engine meanwhile: it is paused on purpose."""
        async with AsyncExitStack() as stack:
            for member in self._members:
                await stack.enter_async_context(member.busy)
            self._version = version
            receivers = await self._paused()
            await self._transfer([member.engine.name for member in receivers])
            confirmed = await asyncio.gather(*(self._update(member, version) for member in receivers))
            for member in (member for member, done in zip(receivers, confirmed, strict=True) if done):
                member.join(version)
        if not self.serving:
            raise receivers[0].why

    async def _paused(self) -> list[Member]:
        """The engines that answer and have ended their requests. Raises EnginesGoneError."""
        give_up_at = self._now() + self._patience.gone
        while not (ready := [member for member in await asyncio.gather(*map(self._pause, self._members)) if member]):
            self._give_up_after(give_up_at)
            await asyncio.sleep(self._patience.pause)
        return ready

    async def _pause(self, member: Member) -> Member | None:
        name = member.engine.name
        try:
            await self._within(self._patience.update, self._controls[name].pause(), f"{name} did not pause")
        except WeightSyncError as error:
            member.leave(error)
            return None
        return member

    async def _transfer(self, names: list[str]) -> None:
        """To a group of exactly these engines, opened anew where they are others than last time."""
        try:
            async with asyncio.timeout(self._patience.update):
                if names != self._group:
                    await self._sender.open_transfer(names, self._workers_per_engine, self._master_host)
                    self._group = names
                await self._sender.send_weights()
        except TimeoutError as error:
            raise WeightSyncError(
                f"the transfer to {', '.join(names)} did not end within {self._patience.update:g} s"
            ) from error

    async def _bring(self, member: Member) -> None:
        """Nothing can be sent to it alone. If no other serves, only a new life can send: it begins with all weights."""
        async with member.busy:
            name, asked = member.engine.name, member.engine.served_version()
            try:
                served = await self._within(self._patience.probe, asked, f"{name} did not answer")
            except EngineAwayError as error:
                return member.leave(error)
        if not self.serving:
            raise EnginesGoneError(
                f"{name} is back with weights {served}, and no other engine has version {self._version}"
            )

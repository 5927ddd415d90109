"""EngineSet: the engines that confirmed the current weight version, how busy each is, and their calls under way."""

import asyncio
import hashlib
import logging
from collections.abc import Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweyard_trainer.engine.engine import Completion, Engine, EngineError

logger = logging.getLogger(__name__)

QUESTION_SECONDS = 30.0
"""For an engine to say which weights it serves."""
CHECK_SECONDS = 300.0
"""For its first token."""


async def confirming(engines: Sequence[Engine], version: int, checked: set[str]) -> list[Engine]:
    """Those of `engines` that say that they serve `version`; all are asked at the same time.

    Each one's fitness is checked once, and noted in `checked`. Raises EngineUnfitError.
    """
    answers = await asyncio.gather(*(_confirms(engine, version, checked) for engine in engines))
    return [engine for engine, confirms in zip(engines, answers, strict=True) if confirms]


async def _confirms(engine: Engine, version: int, checked: set[str]) -> bool:
    try:
        async with asyncio.timeout(QUESTION_SECONDS):
            if await engine.weight_version() != version:
                return False
        if engine.name not in checked:
            async with asyncio.timeout(CHECK_SECONDS):
                await engine.check()
            checked.add(engine.name)
    except (EngineError, TimeoutError) as error:
        logger.warning("%s is left out: %s", engine.name, error or "no answer in time")
        return False
    return True


@dataclass(slots=True)
class EngineSet:
    """Replaced as a whole by `succeeded_by`; calls under way go on, but for those at engines that left."""

    version: int = 0
    cache_salt: str = ""
    engines: list[Engine] = field(default_factory=list)
    load: dict[str, int] = field(default_factory=dict)
    left: dict[str, asyncio.Event] = field(default_factory=dict)
    """By engine: set once it is not among the engines any more."""

    def succeeded_by(
        self, version: int, cache_salt: str, engines: Sequence[Engine], ending: Collection[str] = ()
    ) -> "EngineSet":
        """The next set. Engines whose names are in `ending` begin no replies, and end those that are under way."""
        names = {engine.name for engine in engines}
        staying = (names | set(ending)) & self.left.keys()
        for name in self.left.keys() - staying:
            self.left[name].set()
        left = {name: self.left[name] if name in staying else asyncio.Event() for name in names | staying}
        return EngineSet(version, cache_salt, list(engines), left=left)

    def choose(self, preferred: str) -> Engine:
        """The least busy one; among equals the same one for the same session, for its prefix cache."""
        if not self.engines:
            raise EngineError(f"no engine has confirmed weight version {self.version}")
        ring = sorted(self.engines, key=lambda engine: hashlib.blake2b(f"{preferred}/{engine.name}".encode()).digest())
        return min(ring, key=lambda engine: self.load.get(engine.name, 0))

    async def unless_it_leaves(self, engine: Engine, answer: Coroutine[Any, Any, Completion]) -> Completion:
        """The answer of an engine of this set.

        Raises EngineError as soon as the engine has left, and for one that was started again with older weights.
        """
        self.load[engine.name] = self.load.get(engine.name, 0) + 1
        call = asyncio.ensure_future(answer)
        leaving = asyncio.ensure_future(self.left[engine.name].wait())
        try:
            await asyncio.wait({call, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise EngineError(f"{engine.name} has left while it was to answer")
            completion = call.result()
            if completion.weight_version < self.version:
                raise EngineError(
                    f"{engine.name} answered with weights {completion.weight_version}, not {self.version}"
                )
            return completion
        finally:
            self.load[engine.name] -= 1
            call.cancel()
            leaving.cancel()
            await asyncio.gather(call, leaving, return_exceptions=True)

"""RolloutWorker: runs attempts in this process, with a runtime (hence a holder) and a gateway client of its own."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.grading.regression import regression_score, regression_task
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import EmbeddedEngine
from sweyard_trainer.rollout.attempt import AttemptRules, Workbench, run_attempt
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.rollout.traces import Tracer
from sweyard_trainer.trajectory import Trajectory


class VerificationTimeoutError(InfrastructureError):
    """The tests took too long, which is no proof that the task is at fault."""


class Worker(Protocol):
    """What the step scheduler needs of a worker, here or in another process."""

    async def start(self) -> None:
        """Make the runtime, the gateway client and the engine."""
        ...

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        """Sample with weights `version` from here on; see GatewayClient. Raises EngineError, EngineUnfitError."""
        ...

    async def announce(self, images: Sequence[str]) -> None:
        """See Runtime.announce."""
        ...

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        """Why `task` cannot be trained on (gold patch fails, or empty patch passes), or None.

        `patient` allows more time. Raises InfrastructureError, VerificationTimeoutError.
        """
        ...

    async def regression_score(self, task: Task, patch: str) -> float:
        """Share of the task's regression tests that pass with `patch`. Raises InfrastructureError."""
        ...

    async def run(self, plan: AttemptPlan) -> Trajectory:
        """One attempt. Raises EngineUnfitError alone."""
        ...

    async def close(self) -> None:
        """Give everything back."""
        ...


@dataclass(frozen=True, slots=True)
class LocalWorker:
    """A Worker in this process."""

    bench: Workbench
    rules: AttemptRules
    weights: Path
    """Directory of weight versions, for embedded engines."""
    embedded: Sequence[EmbeddedEngine]
    nonce: Callable[[], str]
    tracer: Tracer | None = None

    async def start(self) -> None:
        return None

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        for engine in self.embedded:
            if await engine.weight_version() != version:
                await engine.load_weights(self.weights / str(version), version)
        await self.bench.gateway.use_weights(version, num_engines)

    async def announce(self, images: Sequence[str]) -> None:
        await self.bench.runtime.announce(list(images))

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        grade = self.bench.grade_patiently if patient else self.bench.grade
        gold, empty = await asyncio.gather(grade(task, task.gold_patch), grade(task, ""))
        if gold.timed_out:
            raise VerificationTimeoutError(FailureReason.ERROR, f"{task.id}: the tests took too long")
        if not gold.strict:
            return f"its gold patch does not pass: {'; '.join(gold.reasons) or gold.log[-200:]}"
        return "its tests pass without any change" if empty.official else None

    async def regression_score(self, task: Task, patch: str) -> float:
        judged = regression_task(task)
        assert judged is not None, "asked of tasks that have regression tests of their own"
        return regression_score(await self.bench.grade_regressions(judged, patch))

    async def run(self, plan: AttemptPlan) -> Trajectory:
        return await run_attempt(plan, self.bench, self.rules, self.nonce())

    async def close(self) -> None:
        await self.bench.gateway.close()
        await self.bench.runtime.close()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)

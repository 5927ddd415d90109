"""One step's rollouts: groups drawn from the cursor, refilled where they teach nothing, cut at a deadline.

Invariants (tests/trainer/rollout):
- every attempt of the step ends in exactly one Trajectory, and each is logged once;
- a step lasts no longer than its deadline plus what closing a sandbox takes; stragglers are masked as infrastructure;
- refills are bounded: at most `max_refills` for each group the step asks for;
- which tasks a step draws depends only on the cursor and on which groups had signal.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sweyard_sandbox.errors import InfrastructureError, SweyardError
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.learner.group_signal import GroupSignal
from sweyard_trainer.rollout.attempt import masked
from sweyard_trainer.rollout.plan import AttemptPlan, TaskCursor, plan_group
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.trajectory import Trajectory

logger = logging.getLogger(__name__)

VERIFICATION_FAILURES = 10
"""So many tasks in a row that cannot be verified for infrastructure's sake end the run's attempt."""


@dataclass(frozen=True, slots=True)
class StepRules:
    """What one step asks for."""

    groups: int
    group_size: int
    temperature: float
    deadline_seconds: float
    teaches: GroupSignal
    dynamic_sampling: bool
    max_refills: int
    verify_tasks: bool
    seed: int


@dataclass(slots=True)
class StepRollouts:
    """What one step brought."""

    groups: list[list[Trajectory]] = field(default_factory=list)
    """To train on."""
    dropped: list[list[Trajectory]] = field(default_factory=list)
    """Without signal, replaced by others."""
    num_stragglers: int = 0

    @property
    def attempts(self) -> list[Trajectory]:
        """All of them, dropped groups too."""
        return [attempt for group in (*self.groups, *self.dropped) for attempt in group]


class StepScheduler:
    """Brings the rollouts of one step after the other."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        cursor: TaskCursor,
        pool: WorkerPool,
        rules: StepRules,
        verified: set[str],
    ) -> None:
        self._tasks = tasks
        self._cursor = cursor
        self._pool = pool
        self._rules = rules
        self._verified = verified
        """Ids of tasks known to be sound."""

    async def collect(self, step: int, on_attempt: Callable[[Trajectory], None]) -> StepRollouts:
        """The rollouts of `step`. Raises EngineUnfitError; NoTasksError when every task has been set aside."""
        run = _StepRun(self, step, on_attempt)
        return await run.collect()

    async def draw_verified(self) -> Task:
        """The next task whose gold patch passes and whose empty patch fails; others are set aside."""
        failures = 0
        while (task_id := self._cursor.draw()) is not None:
            task = self._tasks[task_id]
            if not self._rules.verify_tasks or task_id in self._verified:
                return task
            try:
                fault = await self._pool.verify_twice(task)
            except InfrastructureError as error:
                failures += 1
                if failures == VERIFICATION_FAILURES:
                    raise
                logger.warning("task %s could not be verified now, another is drawn: %s", task_id, error)
                continue
            if fault is None:
                self._verified.add(task_id)
                return task
            logger.warning("task %s is set aside: %s", task_id, fault)
            self._cursor.set_aside.add(task_id)
        raise NoTasksError("no task is left to train on: each one's gold patch fails, or its tests pass without it")


class NoTasksError(SweyardError, ValueError):
    """Every task has been set aside."""


class _StepRun:
    """State of one step under way."""

    def __init__(self, scheduler: StepScheduler, step: int, on_attempt: Callable[[Trajectory], None]) -> None:
        self._scheduler = scheduler
        self._rules = scheduler._rules
        self._pool = scheduler._pool
        self._step = step
        self._on_attempt = on_attempt
        self._result = StepRollouts()
        self._seen: dict[str, int] = {}
        self._refills_left = self._rules.groups * self._rules.max_refills

    async def collect(self) -> StepRollouts:
        deadline = asyncio.get_running_loop().time() + self._rules.deadline_seconds
        first = [self._plan(await self._scheduler.draw_verified()) for _ in range(self._rules.groups)]
        await self._pool.announce([plan for plans in first for plan in plans])
        groups = {asyncio.create_task(self._run_group(plans, deadline)) for plans in first}
        try:
            while groups:
                done, _ = await asyncio.wait(groups, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    groups |= await self._take(task.result(), deadline)
                groups -= done
        finally:
            await _cancel(groups)
        return self._result

    def _plan(self, task: Task) -> list[AttemptPlan]:
        draw = self._seen.get(task.id, 0)
        self._seen[task.id] = draw + 1
        rules = self._rules
        return plan_group(str(self._step), draw, task, rules.group_size, temperature=rules.temperature, seed=rules.seed)

    async def _take(self, group: list[Trajectory], deadline: float) -> "set[asyncio.Task[list[Trajectory]]]":
        """Keep a group, or drop it and start another in its place."""
        out_of_time = asyncio.get_running_loop().time() >= deadline
        if not self._rules.dynamic_sampling or self._rules.teaches(group) or self._refills_left == 0 or out_of_time:
            self._result.groups.append(group)
            return set()
        self._refills_left -= 1
        self._result.dropped.append(group)
        plans = self._plan(await self._scheduler.draw_verified())
        return {asyncio.create_task(self._run_group(plans, deadline))}

    async def _run_group(self, plans: Sequence[AttemptPlan], deadline: float) -> list[Trajectory]:
        runs = [asyncio.create_task(self._run_one(plan, deadline)) for plan in plans]
        try:
            return list(await asyncio.gather(*runs))
        finally:
            await _cancel(set(runs))

    async def _run_one(self, plan: AttemptPlan, deadline: float) -> Trajectory:
        try:
            async with asyncio.timeout_at(deadline):
                trajectory = await self._pool.run(plan)
        except TimeoutError:
            self._result.num_stragglers += 1
            reason = f"StepDeadline: not done {self._rules.deadline_seconds:g} s after its step began"
            trajectory = masked(plan, Outcome.ENV_INFRA, reason)
        self._on_attempt(trajectory)
        return trajectory


async def _cancel(tasks: "set[asyncio.Task[list[Trajectory]]] | set[asyncio.Task[Trajectory]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

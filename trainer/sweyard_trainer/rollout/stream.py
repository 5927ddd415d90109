"""RolloutStream: runs what the backlog asks for, step after step, also while the trainer trains.

Invariants (tests/trainer/rollout/test_stream.py):
- every attempt ends in exactly one Trajectory, unless its group is dropped while it runs;
- a step waits no longer than its deadline plus what closing a sandbox takes; stragglers are masked as infrastructure.
  The deadline counts anew while others share the places, as attempts may wait for one, and from when engines serve
  again, for which they wait, too;
- cursor and backlog change together between two awaits, so that a checkpoint never loses or doubles a task;
- without staleness nothing runs between two steps, and which tasks a step draws depends only on the cursor and on
  which groups had signal.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sweyard_sandbox.errors import SweyardError
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.all_or_none import all_or_none, cancel_all
from sweyard_trainer.rollout.attempt import masked
from sweyard_trainer.rollout.backlog import Backlog
from sweyard_trainer.rollout.groups import Group, StepRollouts
from sweyard_trainer.rollout.plan import AttemptPlan, TaskCursor, plan_group
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.verification import TaskVerifier
from sweyard_trainer.trajectory import Trajectory


class NoTasksError(SweyardError, ValueError):
    """Every task has been set aside."""


@dataclass(frozen=True, slots=True)
class StreamRules:
    """How the groups of a run are attempted."""

    group_size: int
    temperature: float
    seed: int
    deadline_seconds: float
    """Of a step."""


class RolloutStream:
    """Groups under way, each an asyncio task. The first that fails by more than its own fault ends them all."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        cursor: TaskCursor,
        backlog: Backlog,
        pool: WorkerPool,
        rules: StreamRules,
        *,
        verifier: TaskVerifier | None,
        on_attempt: Callable[[Trajectory], None],
        shares_places: Callable[[], bool] = lambda: False,
        engines_absent_at: Callable[[], float] = lambda: -math.inf,
    ) -> None:
        """`on_attempt` hears of each attempt as it ends. Without a verifier every task is taken for sound.

        `shares_places` says whether another's attempts, which end by themselves, use the pool now;
        `engines_absent_at` when, by the event loop's clock, none was last known to serve.
        """
        self._tasks = tasks
        self._cursor = cursor
        self._backlog = backlog
        self._pool = pool
        self._rules = rules
        self._verifier = verifier
        self._on_attempt = on_attempt
        self._shares_places = shares_places
        self._engines_absent_at = engines_absent_at
        self._running: dict[int, asyncio.Task[None]] = {}
        """By the group's number."""
        self._failure: BaseException | None = None
        self._changed = asyncio.Event()

    async def collect(self, step: int, version: int, steps_left: int) -> StepRollouts:
        """The rollouts of `step`, one of `steps_left`, whose weights the engines serve as `version`.

        Raises EngineUnfitError, CustomCodeError; NoTasksError when every task has been set aside.
        """
        began = self._now()
        await self._cancel(self._backlog.open(step, version, steps_left))
        self._begin_groups()
        waiting = [group for group in self._backlog.under_way if group.number not in self._running]
        await self._pool.announce([plan for group in waiting for plan in self._plans(group)])
        self._start(waiting)
        while True:
            await self._raise_failure()
            if (rollouts := self._backlog.take_batch()) is not None:
                return rollouts
            if await self._changed_before(self._deadline(began)) or self._deadline(began) > self._now():
                continue
            if self._shares_places():
                began = self._now()
            else:
                await self._cut(self._backlog.overdue())

    async def close(self) -> None:
        """Cancel what runs; the backlog keeps it as under way."""
        await cancel_all(self._running.values())

    async def _raise_failure(self) -> None:
        if self._failure is not None:
            await self.close()
            raise self._failure

    def _begin_groups(self) -> list[Group]:
        fresh = []
        while self._backlog.wants_group():
            task_id = self._cursor.draw()
            if task_id is None:
                raise NoTasksError(
                    "no task is left to train on: each one's gold patch fails, or its tests pass without it"
                )
            fresh.append(self._backlog.begin(task_id))
        return fresh

    def _start(self, groups: Iterable[Group]) -> None:
        for group in groups:
            task = asyncio.create_task(self._run_group(group))
            self._running[group.number] = task
            task.add_done_callback(partial(self._group_ended, group.number))

    def _group_ended(self, number: int, task: "asyncio.Task[None]") -> None:
        self._running.pop(number, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error
            self._changed.set()

    async def _run_group(self, group: Group) -> None:
        task = self._tasks[group.task_id]
        if self._verifier is None or await self._verifier.accepts(task):
            plans = {index: plan for index, plan in enumerate(self._plans(group)) if index not in group.ended}
            await all_or_none(self._run_attempt(group, index, plan) for index, plan in plans.items())
        else:
            self._backlog.withdraw(group)
            self._go_on()

    async def _run_attempt(self, group: Group, index: int, plan: AttemptPlan) -> None:
        trajectory = await self._pool.run(plan)
        self._on_attempt(trajectory)
        self._backlog.end(group, index, trajectory)
        self._go_on()

    def _go_on(self) -> None:
        """There may be room for another group, or a whole batch."""
        self._start(self._begin_groups())
        self._changed.set()

    async def _cut(self, groups: Collection[Group]) -> None:
        """End what runs of `groups`; what had not ended is masked."""
        await self._cancel(groups)
        reason = f"StepDeadline: not done {self._rules.deadline_seconds:g} s after its step began"
        for group in groups:
            for index, plan in enumerate(self._plans(group)):
                if index not in group.ended:
                    trajectory = masked(plan, Outcome.ENV_INFRA, reason)
                    self._on_attempt(trajectory)
                    self._backlog.cut(group, index, trajectory)

    async def _cancel(self, groups: Collection[Group]) -> None:
        await cancel_all(self._running[group.number] for group in groups if group.number in self._running)

    def _deadline(self, began: float) -> float:
        return max(began, self._engines_absent_at()) + self._rules.deadline_seconds

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    async def _changed_before(self, deadline: float) -> bool:
        try:
            async with asyncio.timeout_at(deadline):
                await self._changed.wait()
        except TimeoutError:
            return False
        self._changed.clear()
        return True

    def _plans(self, group: Group) -> list[AttemptPlan]:
        rules = self._rules
        return plan_group(
            str(group.step),
            group.repeat,
            self._tasks[group.task_id],
            rules.group_size,
            temperature=rules.temperature,
            seed=rules.seed,
        )

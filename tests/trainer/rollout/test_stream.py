import asyncio
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from sweyard_api.algorithm import Algorithm
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.learner.group_signal import group_signal
from sweyard_trainer.rollout.attempt import masked
from sweyard_trainer.rollout.backlog import Backlog, BacklogRules
from sweyard_trainer.rollout.groups import Drop, StepRollouts
from sweyard_trainer.rollout.plan import AttemptPlan, TaskCursor
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.stream import NoTasksError, RolloutStream, StreamRules
from sweyard_trainer.rollout.verification import TaskVerifier
from sweyard_trainer.trajectory import Trajectory

TEACHES = group_signal(Algorithm(), max_response_tokens=1_000)


@dataclass(frozen=True)
class Rules:
    """Of a run, as far as rollouts go."""

    groups: int = 3
    group_size: int = 4
    max_staleness: int = 0
    deadline_seconds: float = 60
    dynamic_sampling: bool = False
    max_refills: int = 2
    verify_tasks: bool = False


RULES = Rules()


class RewardingWorker:
    """Rewards by rule; hangs where the rule says so."""

    def __init__(self, reward: Callable[[AttemptPlan], float | None], faults: dict[str, str] | None = None) -> None:
        self.reward = reward
        self.faults = faults or {}
        self.running = 0
        self.most_running = 0
        self.verified: list[str] = []
        self.announced: list[Sequence[str]] = []

    async def start(self) -> None: ...

    async def use_weights(self, version: int, num_engines: int | None = None) -> None: ...

    async def announce(self, images: Sequence[str]) -> None:
        self.announced.append(images)

    async def verify(self, task: Task, *, patient: bool = False) -> str | None:
        self.verified.append(task.id)
        fault = self.faults.get(task.id)
        if fault == "infra":
            raise InfrastructureError(FailureReason.NODE_LOST, "gone")
        return fault

    async def regression_score(self, task: Task, patch: str) -> float:
        raise NotImplementedError

    async def run(self, plan: AttemptPlan) -> Trajectory:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(0)
            reward = self.reward(plan)
            if reward is None:
                await asyncio.sleep(3600)
            assert reward is not None
            outcome = Outcome.SOLVED if reward > 0 else Outcome.UNSOLVED
            return replace(masked(plan, outcome, ""), reward=reward)
        finally:
            self.running -= 1

    async def close(self) -> None: ...


@pytest.fixture
def tasks(make_task: Callable[..., Task]) -> dict[str, Task]:
    return {name: make_task(name) for name in "abcdefghijkl"}


def make_stream(
    worker: RewardingWorker,
    tasks: dict[str, Task],
    rules: Rules,
    *,
    max_concurrent: int = 8,
    on_attempt: Callable[[Trajectory], None] = lambda attempt: None,
    state: tuple[dict[str, Any], dict[str, Any], list[Trajectory]] | None = None,
    shares_places: Callable[[], bool] = lambda: False,
    engines_absent_at: Callable[[], float] = lambda: -math.inf,
) -> tuple[RolloutStream, TaskCursor, Backlog]:
    """A stream from the start, or from the state of a cursor and a backlog."""
    cursor, pool = TaskCursor(tuple(tasks), 0), WorkerPool([worker], max_concurrent)
    backlog = Backlog(
        BacklogRules(rules.groups, rules.group_size, rules.max_staleness, max_concurrent, rules.max_refills),
        TEACHES if rules.dynamic_sampling else None,
    )
    if state is not None:
        cursor.restore(state[0])
        backlog.restore(*state[1:])
    stream = RolloutStream(
        tasks,
        cursor,
        backlog,
        pool,
        StreamRules(rules.group_size, 1.0, 0, rules.deadline_seconds),
        verifier=TaskVerifier(pool, cursor, set()) if rules.verify_tasks else None,
        on_attempt=on_attempt,
        shares_places=shares_places,
        engines_absent_at=engines_absent_at,
    )
    return stream, cursor, backlog


async def collect(
    worker: RewardingWorker, tasks: dict[str, Task], rules: Rules, max_concurrent: int = 8
) -> tuple[StepRollouts, list[Trajectory], TaskCursor]:
    ended: list[Trajectory] = []
    stream, cursor, _ = make_stream(worker, tasks, rules, max_concurrent=max_concurrent, on_attempt=ended.append)
    return await stream.collect(1, 0, 1), ended, cursor


def index_of(plan: AttemptPlan) -> int:
    return int(plan.attempt_id.rsplit("/", 1)[1])


async def test_a_step_brings_whole_groups_and_logs_each_attempt_once(tasks: dict[str, Task]) -> None:
    rollouts, logged, _ = await collect(RewardingWorker(lambda plan: 0.0), tasks, RULES)
    assert [len(group) for group in rollouts.groups] == [4, 4, 4]
    assert all(len({attempt.group_id for attempt in group}) == 1 for group in rollouts.groups)
    assert sorted(attempt.attempt_id for attempt in logged) == sorted(a.attempt_id for a in rollouts.attempts)
    assert len({attempt.attempt_id for attempt in logged}) == 12


async def test_no_more_attempts_run_at_once_than_allowed(tasks: dict[str, Task]) -> None:
    worker = RewardingWorker(lambda plan: 0.0)
    await collect(worker, tasks, RULES, max_concurrent=5)
    assert worker.most_running == 5


async def test_the_images_of_a_step_are_announced_once_in_order(tasks: dict[str, Task]) -> None:
    worker = RewardingWorker(lambda plan: 0.0)
    rollouts, _, _ = await collect(worker, tasks, RULES)
    (images,) = worker.announced
    assert len(images) == 8
    assert set(images) <= {f"image:{group[0].task_id}" for group in rollouts.groups}


async def test_groups_without_signal_are_replaced_by_other_tasks(tasks: dict[str, Task]) -> None:
    dull: set[str] = set()

    def reward(plan: AttemptPlan) -> float:
        if len(dull) < 2:
            dull.add(plan.task.id)
        return 0.1 if plan.task.id in dull else float(index_of(plan) == 0)

    rollouts, _, _ = await collect(RewardingWorker(reward), tasks, replace(RULES, dynamic_sampling=True))
    assert {group[0].task_id for group in rollouts.dropped} == dull
    assert len(rollouts.groups) == 3
    assert not dull & {group[0].task_id for group in rollouts.groups}


async def test_a_single_loser_among_winners_is_signal(tasks: dict[str, Task]) -> None:
    worker = RewardingWorker(lambda plan: 0.95 if index_of(plan) else 0.0)
    rollouts, _, _ = await collect(worker, tasks, replace(RULES, dynamic_sampling=True))
    assert (len(rollouts.groups), rollouts.dropped) == (3, [])


async def test_refills_are_bounded_when_nothing_can_be_solved(tasks: dict[str, Task]) -> None:
    rollouts, logged, _ = await collect(RewardingWorker(lambda plan: 0.0), tasks, replace(RULES, dynamic_sampling=True))
    assert (len(rollouts.groups), len(rollouts.dropped)) == (3, 6)
    assert len(logged) == 36


async def test_a_straggler_is_masked_at_the_deadline_and_its_group_trained_short(tasks: dict[str, Task]) -> None:
    worker = RewardingWorker(lambda plan: None if index_of(plan) == 3 else 0.0)
    rollouts, logged, _ = await collect(worker, tasks, replace(RULES, deadline_seconds=0.2), max_concurrent=100)
    assert rollouts.num_stragglers == 3
    assert [sum(a.outcome.is_infrastructure for a in group) for group in rollouts.groups] == [1, 1, 1]
    assert all(a.infra_reason.startswith("StepDeadline") for a in logged if a.outcome.is_infrastructure)
    assert worker.running == 0


async def test_no_attempt_is_cut_for_the_time_that_another_ones_attempts_used_the_places(
    tasks: dict[str, Task],
) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = GatedWorker([order[0]])
    deadlines = 0

    def shares_places() -> bool:
        nonlocal deadlines
        deadlines += 1
        if deadlines == 3:
            worker.gates[order[0]].set()
        return True

    rules = replace(OVERLAPPED, deadline_seconds=0.05)
    stream, *_ = make_stream(worker, tasks, rules, shares_places=shares_places)
    rollouts = await stream.collect(1, 0, 1)
    assert (trained_tasks(rollouts), rollouts.num_stragglers) == (order[:2], 0)
    assert deadlines == 3


async def test_no_attempt_is_cut_for_the_time_that_no_engine_served(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = GatedWorker([order[0]])
    looks = 0

    def engines_absent_at() -> float:
        nonlocal looks
        looks += 1
        if looks == 9:
            worker.gates[order[0]].set()
        return asyncio.get_running_loop().time()

    rules = replace(OVERLAPPED, deadline_seconds=0.05)
    stream, *_ = make_stream(worker, tasks, rules, engines_absent_at=engines_absent_at)
    rollouts = await stream.collect(1, 0, 1)
    assert (trained_tasks(rollouts), rollouts.num_stragglers) == (order[:2], 0)


async def test_tasks_whose_gold_patch_fails_are_set_aside_and_replaced(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = RewardingWorker(lambda plan: 0.0, faults={order[0]: "broken", order[2]: "broken"})
    rollouts, _, cursor = await collect(worker, tasks, replace(RULES, verify_tasks=True))
    assert {group[0].task_id for group in rollouts.groups} == {order[1], order[3], order[4]}
    assert cursor.set_aside == {order[0], order[2]}


async def test_verification_stopped_by_infrastructure_sets_nothing_aside(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = RewardingWorker(lambda plan: 0.0, faults={order[0]: "infra"})
    _, _, cursor = await collect(worker, tasks, replace(RULES, verify_tasks=True))
    assert cursor.set_aside == set()
    with pytest.raises(InfrastructureError):
        await collect(
            RewardingWorker(lambda plan: 0.0, faults=dict.fromkeys(tasks, "infra")),
            tasks,
            replace(RULES, verify_tasks=True),
        )


async def test_a_set_in_which_every_task_is_faulty_ends_the_run_in_a_sentence(tasks: dict[str, Task]) -> None:
    worker = RewardingWorker(lambda plan: 0.0, faults=dict.fromkeys(tasks, "broken"))
    with pytest.raises(NoTasksError, match="no task is left"):
        await collect(worker, tasks, replace(RULES, verify_tasks=True))


async def test_a_failing_attempt_ends_the_step_and_cancels_the_rest(tasks: dict[str, Task]) -> None:
    def reward(plan: AttemptPlan) -> float | None:
        if index_of(plan) == 2:
            raise ValueError("engine unfit")
        return None

    worker = RewardingWorker(reward)
    with pytest.raises(ValueError, match="engine unfit"):
        await collect(worker, tasks, RULES, max_concurrent=100)
    assert worker.running == 0


class GatedWorker(RewardingWorker):
    """Attempts at the tasks of `closed` wait for their gate."""

    def __init__(self, closed: Sequence[str] = ()) -> None:
        super().__init__(lambda plan: float(index_of(plan) % 2))
        self.gates = {task_id: asyncio.Event() for task_id in closed}
        self.ran: list[AttemptPlan] = []

    async def run(self, plan: AttemptPlan) -> Trajectory:
        self.ran.append(plan)
        if plan.task.id in self.gates:
            await self.gates[plan.task.id].wait()
        return await super().run(plan)


OVERLAPPED = replace(RULES, groups=2, group_size=2, max_staleness=1)


def trained_tasks(rollouts: StepRollouts) -> list[str]:
    return [group[0].task_id for group in rollouts.groups]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


async def test_with_staleness_attempts_go_on_between_two_steps(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = GatedWorker(order[2:4])
    stream, _, backlog = make_stream(worker, tasks, OVERLAPPED)
    assert trained_tasks(await stream.collect(1, 0, 9)) == order[:2]
    for gate in worker.gates.values():
        gate.set()
    await until(lambda: len(backlog.ready) == 2)
    assert len(worker.ran) == 8  # and no more: with the batch in training two are open
    second = await stream.collect(2, 1, 8)
    assert (trained_tasks(second), second.staleness) == (order[2:4], [1, 1])
    await stream.close()
    assert worker.running == 0


async def test_a_late_group_is_finished_in_a_later_step_if_its_staleness_allows(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = GatedWorker(order[1:4])
    stream, *_ = make_stream(worker, tasks, replace(OVERLAPPED, deadline_seconds=0.05))
    first = await stream.collect(1, 0, 9)
    assert (trained_tasks(first), first.num_stragglers) == (order[:1], 0)
    for gate in worker.gates.values():
        gate.set()
    second = await stream.collect(2, 1, 8)
    assert trained_tasks(second) == order[1:3]
    assert not any(attempt.outcome.is_infrastructure for attempt in second.attempts)
    await stream.close()


async def test_a_group_that_is_late_at_its_last_chance_is_dropped_and_counted(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = GatedWorker([order[1]])
    stream, *_ = make_stream(worker, tasks, replace(OVERLAPPED, deadline_seconds=0.05))
    await stream.collect(1, 0, 9)
    second = await stream.collect(2, 1, 8)
    assert second.num_dropped(Drop.LATE) == 1
    assert order[1] not in trained_tasks(second)
    assert [attempt.task_id for group in second.dropped for attempt in group] == [order[1]] * 2
    await stream.close()


async def test_a_later_life_runs_what_had_not_ended_with_the_same_seeds(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = GatedWorker([order[1]])
    stream, cursor, backlog = make_stream(worker, tasks, OVERLAPPED)
    collecting = asyncio.create_task(stream.collect(1, 0, 1))
    await until(lambda: len(backlog.ready) == 1 and len(worker.ran) == 4)
    state = (*json.loads(json.dumps([cursor.state(), backlog.state()])), backlog.attempts)
    collecting.cancel()
    await stream.close()

    again = GatedWorker()
    restored, *_ = make_stream(again, tasks, OVERLAPPED, state=state)
    rollouts = await restored.collect(1, 0, 1)
    assert trained_tasks(rollouts) == order[:2]
    assert again.ran == [plan for plan in worker.ran if plan.task.id == order[1]]


async def test_a_failure_between_two_steps_ends_the_next_one_though_its_batch_is_there(tasks: dict[str, Task]) -> None:
    order = TaskCursor(tuple(tasks), 0)._order()
    worker = GatedWorker(order[2:])
    stream, _, backlog = make_stream(worker, tasks, replace(OVERLAPPED, max_staleness=2))
    await stream.collect(1, 0, 9)

    def unfit(plan: AttemptPlan) -> float:
        if plan.task.id == order[4]:
            raise ValueError("engine unfit")
        return 1.0

    worker.reward = unfit
    for gate in worker.gates.values():
        gate.set()
    await until(lambda: stream._failure is not None and len(backlog.ready) >= 2)
    with pytest.raises(ValueError, match="engine unfit"):
        await stream.collect(2, 1, 8)
    assert worker.running == 0

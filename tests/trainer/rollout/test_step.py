import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from sweyard_api.algorithm import Algorithm
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.learner.group_signal import group_signal
from sweyard_trainer.rollout.attempt import masked
from sweyard_trainer.rollout.plan import AttemptPlan, TaskCursor
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.step import NoTasksError, StepRollouts, StepRules, StepScheduler
from sweyard_trainer.trajectory import Trajectory

RULES = StepRules(
    groups=3,
    group_size=4,
    temperature=1.0,
    deadline_seconds=60,
    teaches=group_signal(Algorithm(), max_response_tokens=1_000),
    dynamic_sampling=False,
    max_refills=2,
    verify_tasks=False,
    seed=0,
)


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

    async def use_weights(self, version: int) -> None: ...

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


async def collect(
    worker: RewardingWorker, tasks: dict[str, Task], rules: StepRules, max_concurrent: int = 8
) -> tuple[StepRollouts, list[Trajectory], TaskCursor]:
    cursor = TaskCursor(tuple(tasks), 0)
    scheduler = StepScheduler(tasks, cursor, WorkerPool([worker], max_concurrent), rules, set())
    logged: list[Trajectory] = []
    return await scheduler.collect(1, logged.append), logged, cursor


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

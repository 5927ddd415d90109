"""A user's own reward, estimator and group filter, as typed functions. The agent's factory is in agents.registry.

reward(task: Task, attempt: Trajectory) -> float: called for every attempt that did not fail for infrastructure's sake,
    with outcome, patch, official verdict, grading log and transcript filled in and the config's reward in place.
estimator(groups: Sequence[Tensor]) -> Sequence[Tensor]: one advantage for each reward of each group.
group filter(group: Sequence[Trajectory]) -> bool: False keeps the group out of the batch.
agent factory(spec: sweyard_api.workload.Agent) -> sweyard_sandbox.agents.protocol.Agent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from torch import Tensor

from sweyard_api.algorithm import Algorithm
from sweyard_api.training_run import TrainingRunSpec
from sweyard_api.workload import Reward
from sweyard_sandbox.agents.registry import load_agent_factory
from sweyard_sandbox.custom_code import CustomCodeError, load_function
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.trajectory import Trajectory

Groups = Sequence[Sequence[Trajectory]]


def check_custom_code(spec: TrainingRunSpec) -> None:
    """Before anything is started. Raises CustomCodeError."""
    load_reward(spec.reward)
    load_estimator(spec.algorithm)
    load_group_filter(spec.algorithm)
    if spec.agent.type == "custom":
        load_agent_factory(spec.agent)


def load_reward(reward: Reward) -> Callable[[Task, Trajectory], Trajectory]:
    """What gives an attempt its reward: the attempt unchanged where the config names no function."""
    if reward.function is None:
        return lambda task, attempt: attempt
    function = load_function("reward.function", reward.function, "task, attempt")

    def rewarded(task: Task, attempt: Trajectory) -> Trajectory:
        try:
            value = float(function(task, attempt))
        except Exception as error:  # whatever it is, a user's code must end the run and not pass for our bug
            raise CustomCodeError(
                f"reward.function: {reward.function!r} failed on task {task.id!r} by {type(error).__name__}: {error}"
            ) from error
        if not math.isfinite(value):
            raise CustomCodeError(f"reward.function: {reward.function!r} returned {value}; it must be finite")
        return replace(attempt, reward=value)

    return rewarded


def load_estimator(algorithm: Algorithm) -> Callable[[Sequence[Tensor]], list[Tensor]] | None:
    """The user's, whose shapes are checked on every batch; None where the config names one of ours."""
    path = algorithm.estimator_function
    if path is None:
        return None
    function = load_function("algorithm.estimatorFunction", path, "groups")

    def estimated(groups: Sequence[Tensor]) -> list[Tensor]:
        advantages = list(function(groups))
        if [own.shape for own in advantages] != [rewards.shape for rewards in groups]:
            raise CustomCodeError(
                f"algorithm.estimatorFunction: {path!r} must return one advantage for each reward of each group"
            )
        if not all(own.isfinite().all() for own in advantages):
            raise CustomCodeError(f"algorithm.estimatorFunction: {path!r} returned an advantage that is not finite")
        return advantages

    return estimated


def load_group_filter(algorithm: Algorithm) -> Callable[[Groups], Groups]:
    """Groups in, those to train on out."""
    if algorithm.group_filter is None:
        return lambda groups: groups
    keeps = load_function("algorithm.groupFilter", algorithm.group_filter, "group")
    return lambda groups: [group for group in groups if keeps(group)]

"""A user's own estimator and group filter, as typed functions. The reward is in rollout.reward, the agent's factory in
agents.registry.

estimator(groups: Sequence[Tensor]) -> Sequence[Tensor]: one advantage for each reward of each group.
group filter(group: Sequence[Trajectory]) -> bool: False keeps the group out of the batch.

Whatever they do wrong ends the run with a sentence: it would meet other attempts too, and must not pass for our bug.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sweyard_api.algorithm import Algorithm
from sweyard_api.training_run import TrainingRunSpec
from sweyard_api.workload import MAX_REWARD
from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.custom import CustomAgent
from sweyard_sandbox.agents.registry import load_agent_factory, make_agent
from sweyard_sandbox.custom_code import CustomCodeError, load_function, users_faults
from sweyard_trainer.rollout.reward import load_reward
from sweyard_trainer.trajectory import Trajectory

if TYPE_CHECKING:
    from torch import Tensor

Groups = Sequence[Sequence[Trajectory]]


def check_custom_code(spec: TrainingRunSpec) -> None:
    """Before anything is started. Raises CustomCodeError."""
    load_reward(spec.reward)
    load_estimator(spec.algorithm)
    load_group_filter(spec.algorithm)
    if spec.agent.type == "custom":
        load_agent_factory(spec.agent)
        if spec.mode == "rl" and spec.warmup is not None and spec.warmup.demonstrations == "scripted":
            _demand_script(spec.agent)


def _demand_script(spec: AgentSpec) -> None:
    agent = make_agent(spec)
    if isinstance(agent, CustomAgent) and not agent.has_script:
        raise CustomCodeError(
            f"{agent.called} returned an agent without `scripted`, which a scripted warm-up imitates: write it, set "
            "warmup.demonstrations to `dataset`, or warmup.steps to 0"
        )


def load_estimator(algorithm: Algorithm) -> "Callable[[Sequence[Tensor]], list[Tensor]] | None":
    """The user's, whose answer is checked on every batch; None where the config names one of ours."""
    path = algorithm.estimator_function
    if path is None:
        return None
    function = load_function("algorithm.estimatorFunction", path, "groups")
    called = f"algorithm.estimatorFunction: {path!r}"

    def estimated(groups: "Sequence[Tensor]") -> "list[Tensor]":
        import torch  # what can be refused is refused without it

        with users_faults(f"{called} failed"):
            advantages = [torch.as_tensor(own, dtype=torch.float64) for own in function(groups)]
        if [own.shape for own in advantages] != [rewards.shape for rewards in groups]:
            raise CustomCodeError(
                f"{called} returned advantages of the shapes {[list(own.shape) for own in advantages]} for rewards of "
                f"{[list(rewards.shape) for rewards in groups]}; it must return one for each reward of each group"
            )
        if not all((own.abs() <= MAX_REWARD).all() for own in advantages):
            raise CustomCodeError(
                f"{called} returned an advantage that is not a number from -{MAX_REWARD:g} to {MAX_REWARD:g}"
            )
        return advantages

    return estimated


def load_group_filter(algorithm: Algorithm) -> Callable[[Groups], Groups]:
    """Groups in, those to train on out."""
    if algorithm.group_filter is None:
        return lambda groups: groups
    function = load_function("algorithm.groupFilter", algorithm.group_filter, "group")
    called = f"algorithm.groupFilter: {algorithm.group_filter!r}"

    def keeps(group: Sequence[Trajectory]) -> bool:
        with users_faults(f"{called} failed"):
            answer = function(group)
            if answer in (True, False):
                return bool(answer)
        raise CustomCodeError(f"{called} returned {answer!r}; it must return True to keep the group, or False")

    return lambda groups: [group for group in groups if keeps(group)]

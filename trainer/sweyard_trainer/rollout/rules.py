"""What a run's config says about its rollouts."""

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.learner.group_signal import group_signal
from sweyard_trainer.rollout.backlog import Backlog, BacklogRules
from sweyard_trainer.rollout.stream import StreamRules


def step_deadline_seconds(spec: TrainingRunSpec) -> float:
    """How long a step waits for its rollouts."""
    return float(spec.rollout.step_deadline_seconds or spec.agent.timeout_seconds + spec.reward.timeout_seconds)


def make_backlog(spec: TrainingRunSpec) -> Backlog:
    """Without any group yet. Raises CustomCodeError."""
    rollout, algorithm = spec.rollout, spec.algorithm
    rules = BacklogRules(
        groups=rollout.groups_per_step,
        group_size=rollout.group_size,
        max_staleness=rollout.max_staleness,
        max_concurrent=rollout.max_concurrent,
        max_refills=algorithm.max_refills,
    )
    teaches = group_signal(algorithm, rollout.max_response_tokens)
    return Backlog(rules, teaches if algorithm.dynamic_sampling else None)


def stream_rules(spec: TrainingRunSpec) -> StreamRules:
    """How groups are attempted."""
    return StreamRules(
        group_size=spec.rollout.group_size,
        temperature=spec.rollout.temperature,
        seed=spec.seed,
        deadline_seconds=step_deadline_seconds(spec),
    )

import numpy as np
import pytest

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.metrics import rollout_metrics
from sweyard_trainer.rollout.groups import StepRollouts
from sweyard_trainer.trajectory import Segment, Trajectory

OF_THE_POLICY = {"reward_mean", "solved_fraction", "official_fraction", "truncated_fraction", "sampled_tokens_mean"}


def attempt(outcome: Outcome, reward: float = 0.0) -> Trajectory:
    segment = Segment(*(np.ones(3, dtype) for dtype in (np.int32, np.bool_, np.float32, np.int32)))
    return Trajectory("1/t/0", "t", "1/t", (segment,), outcome, reward)


def test_rewards_are_of_attempts_that_were_scored() -> None:
    group = [attempt(Outcome.SOLVED, 1.0), attempt(Outcome.UNSOLVED), attempt(Outcome.ENV_INFRA)]
    told = rollout_metrics(StepRollouts(groups=[group]), with_signal=1, seconds=3.0, version=2)
    assert {name: told[name] for name in ("reward_mean", "solved_fraction", "sampled_tokens_mean")} == {
        "reward_mean": 0.5,
        "solved_fraction": 0.5,
        "sampled_tokens_mean": 4.5,
    }
    assert told["infra_failure_fraction"] == pytest.approx(1 / 3)


def test_nothing_is_told_of_the_policy_where_infrastructure_failed_every_attempt() -> None:
    group = [attempt(Outcome.ENV_INFRA)] * 2
    told = rollout_metrics(StepRollouts(groups=[group]), with_signal=0, seconds=3.0, version=2)
    assert OF_THE_POLICY & told.keys() == set()
    assert (told["infra_failure_fraction"], told["attempts"]) == (1.0, 2.0)

import math

import pytest
import torch
from torch import tensor

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.algorithm.aggregation import token_weights
from sweyard_trainer.algorithm.importance import correction_weights
from sweyard_trainer.algorithm.kl import kl_estimate
from sweyard_trainer.algorithm.outcomes import adds_loss, counts_in_baseline
from sweyard_trainer.algorithm.policy_loss import policy_loss
from sweyard_trainer.algorithm.ratios import gspo_log_ratio


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual_clip", "loss", "clipped"),
    [
        pytest.param(1.0, 2.0, None, -2.0, False, id="on-policy"),
        pytest.param(1.5, 1.0, None, -1.28, True, id="gain-capped-above"),
        pytest.param(0.5, 1.0, None, -0.5, False, id="lost-winner-not-clipped"),
        pytest.param(0.5, -1.0, None, 0.8, True, id="loser-capped-below"),
        pytest.param(1.5, -1.0, None, 1.5, False, id="grown-loser-not-clipped"),
        pytest.param(5.0, -1.0, None, 5.0, False, id="exploded-loser"),
        pytest.param(5.0, -1.0, 3.0, 3.0, True, id="exploded-loser-dual-clipped"),
        pytest.param(5.0, 1.0, 3.0, -1.28, True, id="dual-clip-leaves-winners"),
    ],
)
def test_policy_loss_equals_hand_computed(
    ratio: float, advantage: float, dual_clip: float | None, loss: float, clipped: bool
) -> None:
    result = policy_loss(tensor([math.log(ratio)]), tensor([advantage]), 0.2, 0.28, dual_clip)
    assert result.values.item() == pytest.approx(loss, rel=1e-5)
    assert result.clipped.item() is clipped


def test_clipped_tokens_have_no_gradient() -> None:
    log_ratio = tensor([math.log(1.5), math.log(1.1)], requires_grad=True)
    torch.autograd.backward(policy_loss(log_ratio, tensor([1.0, 1.0]), 0.2, 0.28, None).values.sum())
    assert log_ratio.grad is not None
    assert log_ratio.grad.tolist() == pytest.approx([0.0, -1.1])


def test_huge_ratio_with_zero_advantage_is_zero_not_nan() -> None:
    assert policy_loss(tensor([1e4]), tensor([0.0]), 0.2, 0.28, None).values.item() == 0


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("token_mean", [1 / 6, 1 / 6, 0], id="token_mean"),
        pytest.param("sequence_mean_token_mean", [1 / 4, 1 / 8, 0], id="sequence_mean_token_mean"),
        pytest.param("sequence_mean_token_sum", [1 / 2, 1 / 2, 0], id="sequence_mean_token_sum"),
        pytest.param("constant", [1 / 20, 1 / 20, 0], id="constant"),
    ],
)
def test_token_weights_leave_masked_sequences_out_of_denominators(mode: str, expected: list[float]) -> None:
    assert token_weights(tensor([2, 4, 0]), mode, 10).tolist() == pytest.approx(expected)


def test_kl_estimators_equal_hand_computed() -> None:
    policy, reference = tensor([math.log(0.5)]), tensor([math.log(0.25)])
    assert kl_estimate(policy, reference, "k1").item() == pytest.approx(math.log(2))
    assert kl_estimate(policy, reference, "k2").item() == pytest.approx(math.log(2) ** 2 / 2)
    assert kl_estimate(policy, reference, "k3").item() == pytest.approx(0.5 - 1 + math.log(2))


def test_k1_is_unbiased_and_k3_agrees_in_expectation() -> None:
    policy, reference = tensor([0.5, 0.3, 0.2]), tensor([0.2, 0.5, 0.3])
    exact = (policy * (policy / reference).log()).sum().item()
    for estimator in ("k1", "k3"):
        expectation = (policy * kl_estimate(policy.log(), reference.log(), estimator)).sum().item()
        assert expectation == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param("none", [1.0, 1.0, 1.0], id="none"),
        pytest.param("token", [1.5, 2.0, 0.5], id="token-capped-at-two"),
        pytest.param("sequence", [2.0, 2.0, 0.5], id="sequence-product-capped"),
    ],
)
def test_importance_correction_truncates_ratios(level: str, expected: list[float]) -> None:
    old = tensor([math.log(1.5), math.log(4.0), math.log(0.5)])
    weights = correction_weights(old, torch.zeros(3), tensor([0, 0, 1]), 2, level, 2.0)
    assert weights.tolist() == pytest.approx(expected)


def test_gspo_ratio_is_the_geometric_mean_over_the_sequence() -> None:
    log_ratio = gspo_log_ratio(tensor([math.log(4.0), 0.0, math.log(3.0)]), torch.zeros(3), tensor([0, 0, 1]), 2)
    assert log_ratio.exp().tolist() == pytest.approx([2.0, 2.0, 3.0])


@pytest.mark.parametrize("outcome", list(Outcome))
def test_only_infrastructure_is_outside_the_baseline(outcome: Outcome) -> None:
    assert counts_in_baseline(outcome) == (outcome not in {Outcome.ENV_INFRA, Outcome.EVAL_INFRA})


def test_masked_outcome_adds_no_loss_but_stays_in_the_baseline() -> None:
    assert counts_in_baseline(Outcome.TRUNCATED)
    assert not adds_loss(Outcome.TRUNCATED, ["truncated", "max_turns"])
    assert adds_loss(Outcome.UNSOLVED, ["truncated", "max_turns"])
    assert not adds_loss(Outcome.ENV_INFRA, [])

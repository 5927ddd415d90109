import math

import pytest
import torch
from torch import tensor

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.algorithm.aggregation import token_weights
from sweyard_trainer.algorithm.cispo import cispo_loss
from sweyard_trainer.algorithm.importance import correction_weights
from sweyard_trainer.algorithm.kl import kl_estimate
from sweyard_trainer.algorithm.outcomes import Treatment, treatment
from sweyard_trainer.algorithm.overlong import overlong_penalty
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
        pytest.param(5.0, -2.0, 3.0, 6.0, True, id="dual-clip-scales-with-the-advantage"),
        pytest.param(1.0, 0.5, 3.0, -0.5, False, id="dual-clip-leaves-small-gains"),
        pytest.param(2.0, -1.0, 2.0, 2.0, False, id="dual-clip-itself-passes"),
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


def test_the_unclipped_side_has_the_ratios_own_gradient() -> None:
    log_ratio = tensor([math.log(0.5)], requires_grad=True)
    torch.autograd.backward(policy_loss(log_ratio, tensor([1.0]), 0.2, 0.28, None).values.sum())
    assert log_ratio.grad is not None
    assert log_ratio.grad.tolist() == pytest.approx([-0.5])


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


def test_token_weights_of_a_fully_masked_batch_are_zero() -> None:
    for mode in ("token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum", "constant"):
        assert token_weights(tensor([0, 0]), mode, 10).tolist() == [0.0, 0.0]


def test_token_weights_are_single_precision_of_exact_ones() -> None:
    # 2^24 + 1 tokens, the first number that single precision cannot hold.
    weights = token_weights(tensor([2**24 + 1]), "token_mean", 10)
    assert weights.dtype == torch.float32
    assert weights.double().item() == 2.0**-24 - 2.0**-48


def test_single_token_sequences_weigh_alike_by_token_and_by_sequence() -> None:
    for mode in ("token_mean", "sequence_mean_token_mean", "sequence_mean_token_sum"):
        assert token_weights(tensor([1]), mode, 10).tolist() == [1.0]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="median"):
        token_weights(tensor([1]), "median", 10)
    with pytest.raises(ValueError, match="k4"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")


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


def expected_gradient(logits: torch.Tensor, reference: torch.Tensor, estimator: str) -> list[float]:
    """Of the estimate as a loss, over all tokens that the policy may sample (each weighted by its probability)."""
    logits = logits.clone().requires_grad_()
    logprobs = logits.log_softmax(-1)
    loss = (logprobs.exp().detach() * kl_estimate(logprobs, reference.log(), estimator)).sum()
    return torch.autograd.grad(loss, logits)[0].tolist()


def test_gradient_of_each_kl_estimator_as_a_loss_is_what_its_docstring_says() -> None:
    policy, reference = tensor([0.5, 0.3, 0.2]), tensor([0.2, 0.5, 0.3])
    logits = policy.log()
    # d KL(p || q) / d logit_i = p_i (log p_i / q_i - KL); d KL(q || p) / d logit_i = p_i - q_i.
    exact_kl = (policy * (policy / reference).log()).sum()
    reverse = (policy * ((policy / reference).log() - exact_kl)).tolist()
    assert expected_gradient(logits, reference, "k1") == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    assert expected_gradient(logits, reference, "k2") == pytest.approx(reverse, abs=1e-6)
    assert expected_gradient(logits, reference, "k3") == pytest.approx([0.3, -0.2, -0.1], abs=1e-6)


def test_k3_of_an_impossible_token_is_large_and_finite() -> None:
    # exp is held at e^20: e^20 - 1 - 200.
    assert kl_estimate(tensor([-200.0]), tensor([0.0]), "k3").item() == pytest.approx(math.exp(20) - 201)


# Ratios: 1.5, 4 and 0.5 in the first sequence (product 3, geometric mean 3^(1/3) = 1.442), 0.25 in the second.
RATIOS = [1.5, 4.0, 0.5, 0.25]


@pytest.mark.parametrize(
    ("level", "mode", "cap", "floor", "expected"),
    [
        pytest.param("none", "truncate", 2.0, 0.0, [1.0, 1.0, 1.0, 1.0], id="none"),
        pytest.param("token", "truncate", 2.0, 0.0, [1.5, 2.0, 0.5, 0.25], id="token-capped"),
        pytest.param("sequence", "truncate", 2.0, 0.0, [2.0, 2.0, 2.0, 0.25], id="sequence-product-capped"),
        pytest.param("sequence", "truncate", 5.0, 0.0, [3.0, 3.0, 3.0, 0.25], id="sequence-product"),
        pytest.param("geometric", "truncate", 2.0, 0.0, [3 ** (1 / 3)] * 3 + [0.25], id="geometric-mean"),
        pytest.param("token", "mask", 2.0, 0.0, [1.5, 0.0, 0.5, 0.25], id="token-masked-above"),
        pytest.param("token", "mask", 5.0, 0.5, [1.5, 4.0, 0.5, 0.0], id="icepop-masked-below-the-floor"),
        pytest.param("token", "mask", 4.0, 0.0, [1.5, 4.0, 0.5, 0.25], id="the-cap-itself-passes"),
        pytest.param("sequence", "mask", 2.0, 0.0, [0.0, 0.0, 0.0, 0.25], id="sequence-masked"),
        pytest.param("geometric", "mask", 1.5, 0.5, [3 ** (1 / 3)] * 3 + [0.0], id="geometric-masked"),
    ],
)
def test_importance_correction_equals_hand_computed(
    level: str, mode: str, cap: float, floor: float, expected: list[float]
) -> None:
    old, engine = torch.zeros(4, dtype=torch.float64), -tensor(RATIOS, dtype=torch.float64).log()
    ids = tensor([0, 0, 0, 1])
    weights = correction_weights(old, engine, ids, 2, level=level, mode=mode, cap=cap, floor=floor)
    assert weights.tolist() == pytest.approx(expected, rel=1e-9)


def test_importance_correction_is_a_constant_for_the_gradient() -> None:
    old = torch.zeros(1, requires_grad=True)
    weights = correction_weights(
        old, tensor([-0.1]), tensor([0]), 1, level="token", mode="truncate", cap=2.0, floor=0.0
    )
    assert not weights.requires_grad


def test_importance_correction_of_a_hopeless_token_is_finite_when_masked_or_not() -> None:
    engine = tensor([-1e4])
    assert correction_weights(
        torch.zeros(1), engine, tensor([0]), 1, level="token", mode="truncate", cap=100.0, floor=0.0
    ).tolist() == [100.0]


@pytest.mark.parametrize(
    ("level", "mode", "wrong"), [("page", "mask", "page"), ("token", "shout", "shout")], ids=["level", "mode"]
)
def test_unknown_importance_correction_is_refused(level: str, mode: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        correction_weights(torch.zeros(1), torch.zeros(1), tensor([0]), 1, level=level, mode=mode, cap=2.0, floor=0.0)


def test_gspo_ratio_is_the_geometric_mean_over_the_sequence() -> None:
    log_ratio = gspo_log_ratio(tensor([math.log(4.0), 0.0, math.log(3.0)]), torch.zeros(3), tensor([0, 0, 1]), 2)
    assert log_ratio.exp().tolist() == pytest.approx([2.0, 2.0, 3.0])


def test_gspo_ratio_is_new_over_old() -> None:
    assert gspo_log_ratio(tensor([-1.0]), tensor([-3.0]), tensor([0]), 1).tolist() == [2.0]


def test_cispo_weighs_the_gradient_and_never_stops_it() -> None:
    # Ratios 1.5, 1.1 and 0.2 with clip_high 0.28: weights 1.28, 1.1 and 0.2, times A = 2, -1 and 1.
    logprobs = tensor([math.log(0.3), math.log(0.22), math.log(0.04)], requires_grad=True)
    loss = cispo_loss(logprobs, tensor([0.2] * 3).log(), tensor([2.0, -1.0, 1.0]), 0.28)
    expected = [-1.28 * 2 * math.log(0.3), 1.1 * math.log(0.22), -0.2 * math.log(0.04)]
    assert loss.values.tolist() == pytest.approx(expected, rel=1e-5)
    assert loss.clipped.tolist() == [True, False, False]
    torch.autograd.backward(loss.values.sum())
    assert logprobs.grad is not None
    assert logprobs.grad.tolist() == pytest.approx([-2.56, 1.1, -0.2], rel=1e-5)


def test_cispo_of_a_huge_ratio_without_advantage_is_zero_not_nan() -> None:
    assert cispo_loss(tensor([0.0]), tensor([-1e4]), tensor([0.0]), 0.28).values.item() == 0


def test_cispo_at_the_bound_itself_is_not_clipped() -> None:
    assert not cispo_loss(tensor([0.0]), -tensor([2.0]).log(), tensor([1.0]), 1.0).clipped.item()


@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(0, 0.0), (80, 0.0), (85, 0.5), (90, 1.0), (100, 2.0), (130, 2.0)],
    ids=["empty", "at-the-edge", "quarter", "half", "at-the-limit", "beyond"],
)
def test_overlong_penalty_grows_over_the_buffer(num_tokens: int, expected: float) -> None:
    # Limit 100, buffer 20, at most 2: from 80 on, a tenth a token.
    assert overlong_penalty(num_tokens, 100, 20, 2.0) == pytest.approx(expected)


@pytest.mark.parametrize("outcome", list(Outcome))
def test_infrastructure_alone_is_dropped_unless_the_config_says_otherwise(outcome: Outcome) -> None:
    lost = outcome in {Outcome.ENV_INFRA, Outcome.EVAL_INFRA}
    assert treatment(outcome, [], []) is (Treatment.DROP if lost else Treatment.TRAIN)
    assert treatment(outcome, [outcome.value], []) is (Treatment.DROP if lost else Treatment.MASK)
    assert treatment(outcome, ["other"], [outcome.value]) is Treatment.DROP

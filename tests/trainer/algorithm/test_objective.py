"""The losses of one micro-batch against numbers worked out by hand, without a model."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from sweyard_api.algorithm import Algorithm, ImportanceCorrection, KlPenalty
from sweyard_trainer.learner.objective import Figures, policy_gradient_loss, supervised_loss
from sweyard_trainer.learner.sequences import TrainingSequence, pack

PLAIN: dict[str, Any] = {"importance_correction": ImportanceCorrection(level="none")}


def sequence(engine: list[float], **values: Any) -> TrainingSequence:
    """A prompt of one token, then trained ones with these engine probabilities."""
    logprobs = np.log(np.array([1.0, *engine], dtype=np.float32))
    mask = np.arange(len(logprobs)) > 0
    return TrainingSequence(np.arange(len(logprobs), dtype=np.int32), mask, logprobs, **values)


def logs(*probabilities: float) -> np.ndarray:
    return np.log(np.array(probabilities, dtype=np.float32))


def objective(algorithm: Algorithm, probabilities: list[float], sequences: list[TrainingSequence]) -> Any:
    """(loss, figures, gradient by token) where the policy gives its trained tokens these probabilities."""
    logprobs = torch.tensor(probabilities).log().requires_grad_()
    entropies = torch.full((len(probabilities),), 0.7, requires_grad=True)
    batch = pack(sequences, torch.device("cpu"))
    loss, figures = policy_gradient_loss(algorithm, logprobs, entropies, batch, sequences)
    torch.autograd.backward(loss)
    return loss.item(), figures, logprobs.grad.tolist(), entropies.grad


def test_on_policy_each_token_gains_its_weight_times_its_sequences_advantage() -> None:
    two = [sequence([0.5, 0.5], advantage=2.0, weight=0.1), sequence([0.5], advantage=-1.0, weight=0.2)]
    loss, figures, gradient, _ = objective(Algorithm(**PLAIN), [0.5, 0.5, 0.5], two)
    # Ratios are 1: -(2 x 0.1) twice, +(1 x 0.2); the gradient of a ratio at 1 is that of the logprob.
    assert loss == pytest.approx(-0.2)
    assert gradient == pytest.approx([-0.2, -0.2, 0.2])
    assert figures.sums["clip_fraction"] == 0
    assert figures.sums["entropy"] == pytest.approx(2.1)
    assert "kl" not in figures.sums


def test_ratios_are_against_the_start_of_the_step_and_clipped() -> None:
    own = sequence([0.5, 0.5], advantage=1.0, weight=1.0, old_logprobs=logs(0.4, 0.25))
    loss, figures, gradient, _ = objective(Algorithm(clip_high=0.28, **PLAIN), [0.44, 0.5], [own])
    # Ratios 1.1 (kept) and 2 (cut to 1.28, no gradient).
    assert loss == pytest.approx(-(1.1 + 1.28), rel=1e-5)
    assert gradient == pytest.approx([-1.1, 0.0], rel=1e-5)
    assert figures.sums["clip_fraction"] == 1


def test_dual_clip_reaches_the_loss() -> None:
    own = sequence([0.5], advantage=-1.0, weight=1.0, old_logprobs=logs(0.1))
    assert objective(Algorithm(dual_clip=3.0, **PLAIN), [0.5], [own])[0] == pytest.approx(3.0)
    assert objective(Algorithm(**PLAIN), [0.5], [own])[0] == pytest.approx(5.0, rel=1e-5)


def test_lower_clip_reaches_the_loss() -> None:
    own = sequence([0.5], advantage=-1.0, weight=1.0, old_logprobs=logs(0.5))
    assert objective(Algorithm(clip_low=0.1, **PLAIN), [0.25], [own])[0] == pytest.approx(0.9, rel=1e-5)


def test_gspo_clips_a_whole_sequence_by_its_geometric_mean() -> None:
    own = sequence([0.5, 0.5], advantage=1.0, weight=1.0, old_logprobs=logs(0.1, 0.4))
    loss, figures, gradient, _ = objective(Algorithm(estimator="gspo", clip_high=3.0, **PLAIN), [0.4, 0.4], [own])
    # Ratios 4 and 1, mean of their logarithms log 2: both tokens have ratio 2, and half of each other's gradient.
    assert loss == pytest.approx(-4.0, rel=1e-5)
    assert gradient == pytest.approx([-2.0, -2.0], rel=1e-5)
    assert figures.sums["clip_fraction"] == 0


def test_cispo_keeps_the_gradient_of_a_clipped_token() -> None:
    own = sequence([0.5], advantage=1.0, weight=1.0, old_logprobs=logs(0.25))
    loss, figures, gradient, _ = objective(Algorithm(estimator="cispo", clip_high=0.28, **PLAIN), [0.5], [own])
    assert loss == pytest.approx(1.28 * math.log(2), rel=1e-5)
    assert gradient == pytest.approx([-1.28], rel=1e-5)
    assert figures.sums["clip_fraction"] == 1


def test_correction_multiplies_the_surrogate_by_start_of_step_over_engine() -> None:
    own = sequence([0.4, 0.1], advantage=1.0, weight=1.0)
    loss, figures, gradient, _ = objective(Algorithm(), [0.6, 0.4], [own])
    # Ratios 1.5 and 4, the second truncated to 2.
    assert loss == pytest.approx(-3.5, rel=1e-5)
    assert gradient == pytest.approx([-1.5, -2.0], rel=1e-5)
    assert figures.sums["correction_mean"] == pytest.approx(3.5, rel=1e-5)
    assert figures.sums["engine_ratio_mean"] == pytest.approx(5.5, rel=1e-5)
    # k3 of KL(engine || trainer): r - 1 - log r for each token.
    assert figures.sums["engine_kl"] == pytest.approx(5.5 - 2 - math.log(6), rel=1e-5)
    assert figures.maxima["engine_logprob_gap_max"] == pytest.approx(math.log(4), rel=1e-5)


def test_tokens_of_the_trained_weights_are_measured_apart_from_older_ones() -> None:
    mixed = sequence([0.4, 0.1], advantage=1.0, weight=1.0, fresh=np.array([False, True, False]))
    of_no_known_version = sequence([0.1], advantage=1.0, weight=1.0)
    _, figures, _, _ = objective(Algorithm(), [0.6, 0.4, 0.4], [mixed, of_no_known_version])
    assert figures.sums["fresh_tokens"] == 1
    assert figures.sums["fresh_engine_kl"] == pytest.approx(1.5 - 1 - math.log(1.5), rel=1e-5)


def test_masking_correction_silences_the_token() -> None:
    own = sequence([0.4, 0.1, 0.8], advantage=1.0, weight=1.0)
    algorithm = Algorithm(importance_correction=ImportanceCorrection(mode="mask", cap=2.0, floor=0.6))
    assert objective(algorithm, [0.6, 0.4, 0.4], [own])[2] == pytest.approx([-1.5, 0.0, 0.0], rel=1e-5)


def test_entropy_bonus_lowers_the_loss_by_weight_and_coefficient() -> None:
    own = sequence([0.5, 0.5], advantage=0.0, weight=0.25)
    loss, _, _, entropy_gradient = objective(Algorithm(entropy_coefficient=0.1, **PLAIN), [0.5, 0.5], [own])
    assert loss == pytest.approx(-0.1 * 0.7 * 0.25 * 2)
    assert entropy_gradient.tolist() == pytest.approx([-0.025, -0.025])


@pytest.mark.parametrize(
    ("placement", "estimator", "expected"),
    [
        pytest.param("loss", "k1", 0.5 * math.log(2) * 0.25, id="k1-in-loss"),
        pytest.param("loss", "k2", 0.5 * math.log(2) ** 2 / 2 * 0.25, id="k2-in-loss"),
        pytest.param("loss", "k3", 0.5 * (math.log(2) - 0.5) * 0.25, id="k3-in-loss"),
        pytest.param("reward", "k1", 0.0, id="not-in-loss"),
    ],
)
def test_kl_is_in_the_loss_only_where_the_config_says(placement: Any, estimator: Any, expected: float) -> None:
    own = sequence([0.5], advantage=0.0, weight=0.25, reference_logprobs=logs(0.25))
    kl = KlPenalty(coefficient=0.5, estimator=estimator, placement=placement)
    loss, figures, _, _ = objective(Algorithm(kl=kl, **PLAIN), [0.5], [own])
    assert loss == pytest.approx(expected, rel=1e-4)
    assert figures.sums["kl"] > 0


def test_only_trained_tokens_engine_logprobs_are_used() -> None:
    own = TrainingSequence(
        np.arange(4, dtype=np.int32),
        np.array([False, True, False, True]),
        np.array([0, math.log(0.5), 9.0, math.log(0.25)], dtype=np.float32),
        advantage=1.0,
        weight=1.0,
    )
    assert objective(Algorithm(), [0.5, 0.25], [own])[0] == pytest.approx(-2.0, rel=1e-5)


def test_supervised_loss_is_the_weighted_negative_log_likelihood() -> None:
    sequences = [sequence([0.5], weight=0.5), sequence([0.5, 0.5], weight=0.25)]
    loss = supervised_loss(torch.tensor([-1.0, -2.0, -4.0]), pack(sequences, torch.device("cpu")), sequences)
    assert loss.item() == pytest.approx(0.5 + 0.5 + 1.0)


def test_figures_add_up_and_maxima_are_the_largest() -> None:
    figures = Figures({"a": 1.0}, {"m": -3.0})
    figures.add(Figures({"a": 2.0, "b": 5.0}, {"m": -4.0, "n": -1.0}))
    assert figures.sums == {"a": 3.0, "b": 5.0}
    assert figures.maxima == {"m": -3.0, "n": -1.0}


def test_start_of_step_and_reference_are_used_only_if_every_sequence_has_them() -> None:
    two = [
        sequence([0.5], advantage=1.0, weight=1.0, old_logprobs=logs(0.1), reference_logprobs=logs(0.1)),
        sequence([0.5], advantage=1.0, weight=1.0),
    ]
    loss, figures, _, _ = objective(Algorithm(kl=KlPenalty(coefficient=1.0), **PLAIN), [0.5, 0.5], two)
    assert loss == pytest.approx(-2.0)
    assert "kl" not in figures.sums


def test_figures_are_plain_numbers_summed_over_tokens() -> None:
    own = sequence([0.5, 0.5], advantage=1.0, weight=1.0, reference_logprobs=logs(0.25, 0.25))
    kl = KlPenalty(coefficient=0.5, estimator="k1")
    _, figures, _, _ = objective(Algorithm(kl=kl, **PLAIN), [0.5, 0.5], [own])
    assert figures.sums["kl"] == pytest.approx(2 * math.log(2), rel=1e-5)
    assert {type(value) for value in (*figures.sums.values(), *figures.maxima.values())} <= {float, int}


def test_the_gap_between_engine_and_trainer_is_the_largest_in_either_direction() -> None:
    _, figures, _, _ = objective(Algorithm(), [0.4], [sequence([0.8], advantage=1.0, weight=1.0)])
    assert figures.maxima["engine_logprob_gap_max"] == pytest.approx(math.log(2), rel=1e-5)


def test_a_small_gap_between_engine_and_trainer_is_not_lost_in_rounding() -> None:
    own = sequence([0.5], advantage=1.0, weight=1.0, fresh=np.array([False, True]))
    _, figures, _, _ = objective(Algorithm(), [0.5 * math.exp(1e-4)], [own])
    # k3 is half the square of a small gap: 5e-9, which float32 cannot see beside 1.
    assert figures.sums["engine_kl"] == pytest.approx(5e-9, rel=0.01)
    assert figures.sums["fresh_engine_kl"] == pytest.approx(5e-9, rel=0.01)


def test_a_batch_without_trained_tokens_has_no_gap_and_no_loss() -> None:
    nothing = TrainingSequence(np.zeros(2, np.int32), np.zeros(2, np.bool_), np.zeros(2, np.float32))
    loss, figures, _, _ = objective(Algorithm(), [], [nothing])
    assert (loss, figures.maxima["engine_logprob_gap_max"]) == (0.0, 0.0)


def test_a_sequence_weighs_nothing_until_it_is_weighed() -> None:
    own = sequence([0.5])
    assert (own.advantage, own.weight, own.temperature, own.origin) == (1.0, 0.0, 1.0, ("", 0))


def test_a_batch_is_laid_out_on_the_device_it_is_for_as_indices() -> None:
    batch = pack([sequence([0.5])], torch.device("meta"))
    assert {tensor.device.type for tensor in (batch.token_ids, batch.targets)} == {"meta"}
    assert {tensor.dtype for tensor in (batch.token_ids, batch.targets)} == {torch.int64}


def test_a_batch_replays_the_routing_of_all_its_sequences_one_after_another() -> None:
    routed = [sequence([0.5], routed_experts=np.full((2, 3, 1), number, np.uint8)) for number in (4, 7)]
    routing = pack(routed, torch.device("cpu")).routed_experts
    assert routing is not None
    assert routing[:, 2, 0].tolist() == [4, 4, 7, 7]

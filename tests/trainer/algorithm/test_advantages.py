import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sweyard_trainer.algorithm.advantages import compute_advantages
from sweyard_trainer.algorithm.learning_signal import has_signal

ONE_LOSER = [0.0] + [0.95] * 7


@pytest.mark.parametrize(
    ("estimator", "normalize", "rewards", "expected"),
    [
        pytest.param("dr_grpo", True, [1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25], id="dr_grpo"),
        pytest.param("grpo", False, [1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25], id="grpo-without-std"),
        pytest.param("grpo", True, [1, 0, 0, 0], [1.5, -0.5, -0.5, -0.5], id="grpo-std-is-one-half"),
        pytest.param("gspo", True, [1, 0, 0, 0], [1.5, -0.5, -0.5, -0.5], id="gspo-as-grpo"),
        pytest.param("cispo", True, [1, 0, 0, 0], [1.5, -0.5, -0.5, -0.5], id="cispo-as-grpo"),
        pytest.param("cispo", False, [1, 0, 0, 0], [0.75, -0.25, -0.25, -0.25], id="cispo-without-std"),
        pytest.param("rloo", True, [1, 0, 0, 0], [1.0, -1 / 3, -1 / 3, -1 / 3], id="rloo"),
        pytest.param("rloo", True, [1, 0], [1.0, -1.0], id="rloo-of-two"),
        pytest.param("rloo", True, ONE_LOSER, [-0.95] + [0.95 / 7] * 7, id="rloo-one-loser"),
    ],
)
def test_advantages_equal_hand_computed_ones(
    estimator: str, normalize: bool, rewards: list[float], expected: list[float]
) -> None:
    (advantages,) = compute_advantages([torch.tensor(rewards, dtype=torch.float64)], estimator, normalize)
    assert advantages.tolist() == pytest.approx(expected, abs=1e-5)


def test_reinforce_plus_plus_normalizes_over_the_batch_not_the_group() -> None:
    first, second = compute_advantages(
        [torch.tensor([1.0, 1.0]), torch.tensor([0.0, 0.0])], "reinforce_plus_plus", normalize_by_std=True
    )
    expected = 0.5 / math.sqrt(1 / 3)
    assert first.tolist() == pytest.approx([expected] * 2, abs=1e-5)
    assert second.tolist() == pytest.approx([-expected] * 2, abs=1e-5)


def test_reinforce_plus_plus_baseline_takes_the_groups_mean_and_the_batchs_std() -> None:
    # Centred: [1, -1] and [0.5, -0.5]; their mean is 0, their variance (1 + 1 + 1/4 + 1/4) / 3 = 5/6.
    first, second = compute_advantages(
        [torch.tensor([3.0, 1.0]), torch.tensor([1.0, 0.0])], "reinforce_plus_plus_baseline", normalize_by_std=True
    )
    std = math.sqrt(5 / 6)
    assert first.tolist() == pytest.approx([1 / std, -1 / std], abs=1e-5)
    assert second.tolist() == pytest.approx([0.5 / std, -0.5 / std], abs=1e-5)


def test_a_tiny_deviation_is_divided_by_itself_and_a_little() -> None:
    # Rewards 0 and 2e-6: centred -1e-6 and 1e-6, std sqrt(2) 1e-6, to which 1e-6 is added.
    (advantages,) = compute_advantages([torch.tensor([0.0, 2e-6], dtype=torch.float64)], "grpo", True)
    assert advantages.tolist() == pytest.approx([-1 / (math.sqrt(2) + 1), 1 / (math.sqrt(2) + 1)])


@pytest.mark.parametrize(
    "estimator",
    ["grpo", "rloo", "dr_grpo", "gspo", "cispo", "reinforce_plus_plus", "reinforce_plus_plus_baseline"],
)
@pytest.mark.parametrize(
    "rewards", [[0.1] * 8, [1.0], [0.3, 0.1 + 0.2]], ids=["equal", "one", "equal-but-for-rounding"]
)
def test_group_without_signal_has_zero_advantages(estimator: str, rewards: list[float]) -> None:
    (advantages,) = compute_advantages([torch.tensor(rewards, dtype=torch.float64)], estimator, normalize_by_std=True)
    assert advantages.tolist() == [0.0] * len(rewards)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [
        pytest.param(ONE_LOSER, True, id="one-loser-among-winners"),
        pytest.param([0.1] * 8, False, id="eight-equal-fractions"),
        pytest.param([sum([0.1] * 3), 0.3], False, id="rounding"),
        pytest.param([0.0, 2e-6], True, id="just-beyond-rounding"),
        pytest.param([0.0, 1e-6], False, id="rounding-itself"),
        pytest.param([0.0, 1.0], True, id="group-of-two"),
        pytest.param([-1.0, -1.0], False, id="equal-and-negative"),
        pytest.param([1.0], False, id="group-of-one"),
        pytest.param([], False, id="all-infrastructure"),
    ],
)
def test_signal_is_seen_on_the_whole_group(rewards: list[float], expected: bool) -> None:
    assert has_signal(rewards) is expected


def test_one_loser_keeps_the_whole_group_with_non_zero_advantages() -> None:
    for estimator in ("grpo", "rloo", "dr_grpo"):
        (advantages,) = compute_advantages([torch.tensor(ONE_LOSER)], estimator, normalize_by_std=True)
        assert advantages.count_nonzero() == 8


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=16), st.sampled_from(["grpo", "rloo", "dr_grpo"]))
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order(rewards: list[float], estimator: str) -> None:
    (advantages,) = compute_advantages([torch.tensor(rewards, dtype=torch.float64)], estimator, normalize_by_std=True)
    assert advantages.sum().item() == pytest.approx(0, abs=1e-6)
    if has_signal(rewards):
        best = max(range(len(rewards)), key=lambda i: rewards[i])
        assert advantages[best] == advantages.max() > 0


def test_unknown_estimator_is_refused() -> None:
    with pytest.raises(ValueError, match="ppo"):
        compute_advantages([torch.tensor([0.0, 1.0])], "ppo", normalize_by_std=True)

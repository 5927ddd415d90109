import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_trainer.evaluation.intervals import effective_trials, wilson_interval


@pytest.mark.parametrize(
    ("solved", "trials", "low", "high"),
    [
        pytest.param(0, 10, 0.0, 0.2775, id="none of ten"),
        pytest.param(10, 10, 0.7225, 1.0, id="all of ten"),
        pytest.param(81, 263, 0.2553, 0.3662, id="Newcombe 1998, table I"),
        pytest.param(15, 148, 0.0624, 0.1605, id="Newcombe 1998, table II"),
        pytest.param(0, 0, 0.0, 1.0, id="no attempt"),
    ],
)
def test_wilson_intervals_match_published_ones(solved: int, trials: int, low: float, high: float) -> None:
    share = solved / trials if trials else 0.0
    assert wilson_interval(share, trials) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share(counts: tuple[int, int]) -> None:
    share = counts[0] / counts[1]
    low, high = wilson_interval(share, counts[1])
    assert 0 <= low <= share <= high <= 1


@pytest.mark.parametrize(
    ("shares", "attempts", "trials"),
    [
        pytest.param([1, 0, 0, 1, 0], 5, 5, id="one attempt a task"),
        pytest.param([1, 0, 0, 1, 0], 40, 5, id="eight attempts a task, all alike"),
        pytest.param([0.5] * 5, 40, 40, id="tasks do not differ"),
        pytest.param([0.0] * 5, 40, 5, id="nothing solved, so nothing known of likeness"),
        pytest.param([0.5, 0.25, 0.75, 0.5], 16, 16, id="tasks differ no more than attempts would"),
        pytest.param([], 0, 0, id="no task"),
        pytest.param([0.5], 8, 1, id="one task"),
    ],
)
def test_attempts_at_one_task_are_worth_what_they_tell_beyond_the_first(
    shares: list[float], attempts: int, trials: float
) -> None:
    assert effective_trials(shares, attempts) == pytest.approx(trials)


@given(st.integers(2, 40).flatmap(lambda n: st.tuples(st.lists(st.integers(0, 8), min_size=n, max_size=n))))
def test_they_are_worth_one_a_task_at_least_and_all_at_most(solved: tuple[list[int]]) -> None:
    shares = [count / 8 for count in solved[0]]
    assert len(shares) <= effective_trials(shares, 8 * len(shares)) <= 8 * len(shares)


def test_the_interval_holds_the_truth_as_often_as_it_says_where_attempts_at_a_task_are_alike() -> None:
    """60 tasks, easy or hard, 8 attempts each; counting attempts alone is right far too seldom."""
    draw = random.Random(0)
    truth, repeats = 0.45, 400
    ours = naive = 0
    for _ in range(repeats):
        chances = [0.85 if draw.random() < 0.5 else 0.05 for _ in range(60)]
        shares = [sum(draw.random() < chance for _ in range(8)) / 8 for chance in chances]
        mean = sum(shares) / 60
        low, high = wilson_interval(mean, effective_trials(shares, 480))
        ours += low <= truth <= high
        low, high = wilson_interval(mean, 480)
        naive += low <= truth <= high
    assert ours / repeats >= 0.93
    assert naive / repeats <= 0.75

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_trainer.evaluation.pass_at_k import best_at_k, pass_at_k, reported_ks

ATTEMPTS = st.lists(st.tuples(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.booleans()), min_size=1, max_size=8)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def chosen_well(subset: tuple[tuple[float, bool], ...]) -> float:
    highest = max(score for score, _ in subset)
    return mean([float(solved) for score, solved in subset if score == highest])


@given(ATTEMPTS, st.data())
def test_both_are_the_mean_over_all_ways_to_take_k_attempts(
    attempts: list[tuple[float, bool]], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(attempts)))
    scores, solved = [score for score, _ in attempts], [is_solved for _, is_solved in attempts]
    subsets = list(combinations(attempts, k))
    passed = mean([float(any(is_solved for _, is_solved in subset)) for subset in subsets])
    assert pass_at_k(len(attempts), sum(solved), k) == pytest.approx(passed)
    assert best_at_k(scores, solved, k) == pytest.approx(mean([chosen_well(subset) for subset in subsets]))


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.data())
def test_a_blind_verifier_is_worth_one_attempt_and_one_that_knows_all_of_them(
    solved: list[bool], data: st.DataObject
) -> None:
    k = data.draw(st.integers(1, len(solved)))
    assert best_at_k([0.0] * len(solved), solved, k) == pytest.approx(pass_at_k(len(solved), sum(solved), 1))
    assert best_at_k(list(map(float, solved)), solved, k) == pytest.approx(pass_at_k(len(solved), sum(solved), k))


@pytest.mark.parametrize(
    ("attempts", "solved", "k", "value"),
    [
        pytest.param(200, 100, 1, 0.5, id="half of them"),
        pytest.param(10, 3, 5, 1 - 21 / 252, id="by hand: C(7,5) / C(10,5)"),
        pytest.param(10, 0, 10, 0.0, id="none"),
        pytest.param(10, 6, 5, 1.0, id="more solved than can be missed"),
    ],
)
def test_pass_at_k_by_hand(attempts: int, solved: int, k: int, value: float) -> None:
    assert pass_at_k(attempts, solved, k) == pytest.approx(value)


@pytest.mark.parametrize("k", [0, 5])
def test_more_attempts_than_there_were_are_no_estimate(k: int) -> None:
    with pytest.raises(ValueError, match=f"k is {k}"):
        pass_at_k(4, 2, k)
    with pytest.raises(ValueError, match=f"k is {k}"):
        best_at_k([0.0] * 4, [True] * 4, k)


@pytest.mark.parametrize(
    ("attempts", "ks"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8]), (16, [1, 2, 4, 8, 16])]
)
def test_powers_of_two_and_all_of_them_are_reported(attempts: int, ks: list[int]) -> None:
    assert reported_ks(attempts) == ks

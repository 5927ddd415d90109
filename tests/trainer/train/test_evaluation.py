import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.evaluation import summarise, wilson_interval
from sweyard_trainer.trajectory import Trajectory


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
    assert wilson_interval(solved, trials) == pytest.approx((low, high), abs=6e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_share(counts: tuple[int, int]) -> None:
    low, high = wilson_interval(*counts)
    assert 0 <= low <= counts[0] / counts[1] <= high <= 1


def test_infrastructure_failures_are_outside_of_every_fraction() -> None:
    outcomes = [Outcome.SOLVED, Outcome.UNSOLVED, Outcome.TRUNCATED, Outcome.ENV_INFRA, Outcome.EVAL_INFRA]
    result = summarise("held", [Trajectory("a", "t", "g", (), outcome, 0.0, official=True) for outcome in outcomes])
    assert (result.attempts, result.solved, result.infra_failures) == (3, 1, 2)
    assert result.solved_fraction == pytest.approx(1 / 3)
    assert summarise("held", []).solved_fraction == 0.0

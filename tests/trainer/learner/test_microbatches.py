import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_trainer.learner.microbatches import plan_microbatches

LENGTHS = st.lists(st.integers(1, 200), min_size=1, max_size=60)


@given(LENGTHS, st.integers(1, 4), st.integers(50, 400))
def test_every_sequence_goes_to_exactly_one_place(lengths: list[int], ranks: int, budget: int) -> None:
    plan = plan_microbatches(lengths, ranks, budget)
    placed = [index for rank in plan for members in rank for index in members]
    assert sorted(placed) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 4), st.integers(50, 400))
def test_ranks_have_equally_many_microbatches_within_the_budget(lengths: list[int], ranks: int, budget: int) -> None:
    plan = plan_microbatches(lengths, ranks, budget)
    assert len(plan) == ranks
    assert len({len(rank) for rank in plan}) == 1
    for members in (members for rank in plan for members in rank):
        assert len(members) <= 1 or sum(lengths[index] for index in members) <= budget


@given(LENGTHS, st.integers(1, 4), st.integers(200, 400))
def test_ranks_carry_similar_loads(lengths: list[int], ranks: int, budget: int) -> None:
    plan = plan_microbatches(lengths, ranks, budget)
    rounds = zip(*plan, strict=True)
    for members_by_rank in rounds:
        loads = [sum(lengths[index] for index in members) for members in members_by_rank]
        assert max(loads) - min(loads) <= budget


@pytest.mark.parametrize(
    ("lengths", "ranks", "budget", "expected"),
    [
        pytest.param([20, 20], 1, 40, [[[0, 1]]], id="a budget may be filled"),
        pytest.param([20, 21], 1, 40, [[[1], [0]]], id="and not exceeded"),
        pytest.param([10], 1, 40, [[[0]]], id="as few as there need to be"),
        pytest.param([100, 10, 10], 1, 40, [[[0], [1, 2]]], id="one beyond the budget is alone and counts as one"),
        pytest.param([5, 9, 2, 7], 1, 12, [[[3, 0], [1, 2]]], id="longest first into the lightest, fullest first"),
        pytest.param([8, 7, 6, 5, 4, 3], 2, 12, [[[2, 5], [0]], [[3, 4], [1]]], id="dealt to ranks by weight"),
    ],
)
def test_plans_computed_by_hand(lengths: list[int], ranks: int, budget: int, expected: list[list[list[int]]]) -> None:
    assert plan_microbatches(lengths, ranks, budget) == expected


def test_equal_sequences_are_spread_evenly() -> None:
    plan = plan_microbatches([10] * 8, 2, 40)
    assert [[len(members) for members in rank] for rank in plan] == [[4], [4]]


def test_fewer_sequences_than_ranks_leave_empty_microbatches() -> None:
    plan = plan_microbatches([10], 3, 40)
    assert [[len(members) for members in rank] for rank in plan] == [[1], [0], [0]]

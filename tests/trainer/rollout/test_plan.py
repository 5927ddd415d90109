from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.rollout.plan import TaskCursor, derive_seed, plan_group

names = st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=12, unique=True).map(tuple)


@given(names, st.integers(0, 9), st.integers(1, 3))
def test_an_epoch_draws_every_task_once(ids: tuple[str, ...], seed: int, epochs: int) -> None:
    cursor = TaskCursor(ids, seed)
    for _ in range(epochs):
        assert sorted(str(cursor.draw()) for _ in ids) == sorted(ids)


@given(names, st.integers(0, 9), st.integers(0, 30), st.integers(1, 30))
def test_a_restored_cursor_goes_on_with_the_same_tasks(
    ids: tuple[str, ...], seed: int, before: int, after: int
) -> None:
    cursor = TaskCursor(ids, seed)
    for _ in range(before):
        cursor.draw()
    restored = TaskCursor(ids, seed)
    restored.restore(cursor.state())
    assert [restored.draw() for _ in range(after)] == [cursor.draw() for _ in range(after)]


@given(names, st.data())
def test_tasks_set_aside_are_never_drawn(ids: tuple[str, ...], data: st.DataObject) -> None:
    aside = data.draw(st.sets(st.sampled_from(ids)))
    cursor = TaskCursor(ids, 0, set_aside=aside)
    drawn = {cursor.draw() for _ in range(2 * len(ids))}
    assert drawn == (set(ids) - aside or {None})


def test_attempts_of_a_group_share_it_and_differ_in_seed(make_task: Callable[..., Task]) -> None:
    plans = plan_group("3", 0, make_task("x"), 4, temperature=1.0, seed=1)
    assert [plan.attempt_id for plan in plans] == ["3/x/0", "3/x/1", "3/x/2", "3/x/3"]
    assert {plan.group_id for plan in plans} == {"3/x"}
    assert len({plan.seed for plan in plans}) == 4


def test_a_task_drawn_twice_in_a_step_makes_two_groups(make_task: Callable[..., Task]) -> None:
    groups = {plan_group("3", draw, make_task("x"), 1, temperature=1.0, seed=1)[0].group_id for draw in range(3)}
    assert groups == {"3/x", "3/x~1", "3/x~2"}


def test_seeds_depend_on_every_part() -> None:
    assert len({derive_seed(0, "a", 1), derive_seed(1, "a", 1), derive_seed(0, "b", 1), derive_seed(0, "a", 2)}) == 4
    assert derive_seed(0, "a") == derive_seed(0, "a") < 2**63

"""The backlog's promises, whatever the order in which attempts end, tasks prove unfit, steps run late and lives end."""

import json
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollout.backlog import Backlog, BacklogRules
from sweyard_trainer.rollout.groups import Drop, Group
from sweyard_trainer.trajectory import Trajectory

RULES = BacklogRules(groups=2, group_size=1, max_staleness=1, max_concurrent=4, max_refills=0)


def attempt(group: Group, index: int, reward: float = 1.0, outcome: Outcome = Outcome.SOLVED) -> Trajectory:
    name = str(group.number)
    return Trajectory(f"{name}/{index}", group.task_id, name, (), outcome, reward)


def teaches(attempts: Sequence[Trajectory]) -> bool:
    return any(each.reward > 0 for each in attempts)


def begin_all(backlog: Backlog, first: int = 0) -> list[Group]:
    groups = []
    while backlog.wants_group():
        groups.append(backlog.begin(f"task-{first + len(groups)}"))
    return groups


def end(backlog: Backlog, *groups: Group) -> None:
    for group in groups:
        backlog.end(group, 0, attempt(group, 0))


def numbers(groups: list[list[Trajectory]]) -> list[int]:
    return [int(group[0].group_id) for group in groups]


def test_without_staleness_a_step_is_its_own_groups_and_nothing_begins_while_it_is_trained() -> None:
    backlog = Backlog(replace(RULES, max_staleness=0))
    backlog.open(1, 0, steps_left=3)
    groups = begin_all(backlog)
    assert len(groups) == 2
    end(backlog, groups[1])
    assert backlog.take_batch() is None
    end(backlog, groups[0])
    batch = backlog.take_batch()
    assert batch is not None
    assert (numbers(batch.groups), batch.staleness) == ([0, 1], [0, 0])
    assert not backlog.wants_group()
    backlog.open(2, 1, steps_left=2)
    assert len(begin_all(backlog)) == 2


def test_with_staleness_the_next_groups_are_under_way_while_a_batch_is_trained() -> None:
    backlog = Backlog(RULES)
    backlog.open(1, 0, steps_left=9)
    groups = begin_all(backlog)
    assert len(groups) == 4
    end(backlog, groups[0], groups[3])
    batch = backlog.take_batch()
    assert batch is not None
    assert numbers(batch.groups) == [0, 3]
    assert not backlog.wants_group()  # two batches are open: one under way, one in training


def test_a_batch_waits_for_a_group_whose_last_chance_it_is_though_younger_ones_are_ready() -> None:
    backlog = Backlog(RULES)
    backlog.open(1, 0, steps_left=9)
    old = begin_all(backlog)
    end(backlog, *old[:2])
    assert backlog.take_batch() is not None
    backlog.open(2, 1, steps_left=8)
    young = begin_all(backlog)
    end(backlog, *young, old[2])
    assert backlog.take_batch() is None
    end(backlog, old[3])
    batch = backlog.take_batch()
    assert batch is not None
    assert (numbers(batch.groups), batch.staleness) == ([2, 3], [1, 1])


def test_a_late_step_trains_what_is_ready_and_leaves_younger_groups_under_way() -> None:
    backlog = Backlog(RULES)
    backlog.open(1, 0, steps_left=9)
    groups = begin_all(backlog)
    end(backlog, groups[2])
    assert backlog.overdue() == []
    batch = backlog.take_batch()
    assert batch is not None
    assert numbers(batch.groups) == [2]
    assert [group.number for group in backlog.under_way] == [0, 1, 3]


def test_a_group_none_of_whose_attempts_ended_at_its_last_chance_is_dropped_as_late_and_never_scored() -> None:
    backlog = Backlog(replace(RULES, max_staleness=0, group_size=2))
    backlog.open(1, 0, steps_left=9)
    first, second = begin_all(backlog)
    backlog.end(first, 0, attempt(first, 0))
    assert backlog.overdue() == [first, second]
    for group, index in ((first, 1), (second, 0), (second, 1)):
        backlog.cut(group, index, attempt(group, index, 0.0, Outcome.ENV_INFRA))
    batch = backlog.take_batch()
    assert batch is not None
    assert (numbers(batch.groups), numbers(batch.dropped)) == ([0], [1])
    assert (batch.drops, batch.num_stragglers) == ({1: Drop.LATE}, 3)


def test_groups_that_full_batches_left_behind_are_dropped_as_stale() -> None:
    backlog = Backlog(RULES)
    backlog.open(1, 0, steps_left=9)
    groups = begin_all(backlog)
    end(backlog, groups[0])
    backlog.overdue()
    assert backlog.take_batch() is not None  # one group instead of two: three of that age are left for one batch
    backlog.open(2, 1, steps_left=8)
    end(backlog, groups[1], groups[2])
    assert backlog.take_batch() is not None
    assert backlog.open(3, 2, steps_left=7) == [groups[3]]
    end(backlog, *begin_all(backlog))
    batch = backlog.take_batch()
    assert batch is not None
    assert batch.drops == {3: Drop.STALE}


def test_no_more_groups_begin_than_attempts_may_run_where_waiting_would_only_age_them() -> None:
    backlog = Backlog(replace(RULES, max_staleness=4, max_concurrent=3, group_size=1))
    backlog.open(1, 0, steps_left=9)
    assert len(begin_all(backlog)) == 3


@pytest.mark.parametrize(("steps_left", "expected"), [(1, 2), (2, 4), (3, 4)])
def test_nothing_is_begun_that_no_step_is_left_to_train(steps_left: int, expected: int) -> None:
    backlog = Backlog(RULES)
    backlog.open(1, 0, steps_left=steps_left)
    assert len(begin_all(backlog)) == expected


@dataclass
class Life:
    """What survives in a checkpoint, and what became of every group."""

    backlog: Backlog
    rules: BacklogRules
    step: int = 0
    version: int = 0
    fates: dict[int, str] = field(default_factory=dict)
    """By number: trained, a reason to be dropped, or unfit."""
    num_drawn: int = 0

    def checkpoint(self) -> "Life":
        """As a later process would read it."""
        restored = Backlog(self.rules, teaches)
        restored.restore(json.loads(json.dumps(self.backlog.state())), self.backlog.attempts)
        return replace(self, backlog=restored, fates=deepcopy(self.fates))

    def give_fate(self, number: int, fate: str) -> None:
        assert number not in self.fates
        self.fates[number] = fate

    def begin(self) -> None:
        while self.backlog.wants_group():
            group = self.backlog.begin(f"task-{self.num_drawn % 5}")
            assert group.number == self.num_drawn
            self.num_drawn += 1

    def check(self) -> None:
        open_groups = {group.number for group in (*self.backlog.under_way, *self.backlog.ready)}
        untold = {group.number for _, group in self.backlog._dropped}  # dropped since the last batch
        everything = sorted((*open_groups, *untold, *self.fates))
        assert everything == list(range(self.num_drawn))
        assert len(open_groups) <= (self.rules.max_staleness + 1) * self.rules.groups
        if self.rules.max_staleness:
            assert self.backlog._num_running() < self.rules.max_concurrent + self.rules.group_size


rules_strategy = st.builds(
    BacklogRules,
    groups=st.integers(1, 4),
    group_size=st.integers(1, 3),
    max_staleness=st.integers(0, 3),
    max_concurrent=st.integers(1, 12),
    max_refills=st.integers(0, 2),
)


@given(rules_strategy, st.integers(1, 6), st.randoms(use_true_random=False), st.integers(0, 100), st.integers(0, 30))
def test_every_group_is_trained_once_or_dropped_once_or_open_whatever_happens(
    rules: BacklogRules, steps: int, random: Random, percent_dull: int, percent_trouble: int
) -> None:
    life = Life(Backlog(rules, teaches), rules)
    saved = life.checkpoint()
    for _ in range(40 * steps):
        if life.step == steps:
            break
        life.step += 1
        stale = life.backlog.open(life.step, life.version, steps - life.step + 1)
        assert all(life.version - group.version > rules.max_staleness for group in stale)
        life.begin()
        while (batch := life.backlog.take_batch()) is None:
            life.check()
            trouble = random.randrange(100) < percent_trouble
            under_way = life.backlog.under_way
            if trouble and random.random() < 0.2:
                break  # the process dies here
            assert under_way, "nothing is left to wait for, and yet no batch"
            if trouble and random.random() < 0.5:
                for group in life.backlog.overdue():
                    for index in set(range(rules.group_size)) - group.ended.keys():
                        life.backlog.cut(group, index, attempt(group, index, 0.0, Outcome.ENV_INFRA))
            elif trouble:
                unfit = random.choice(under_way)
                life.backlog.withdraw(unfit)
                life.give_fate(unfit.number, "unfit")
            else:
                group = random.choice(under_way)
                index = random.choice(sorted(set(range(rules.group_size)) - group.ended.keys()))
                life.backlog.end(group, index, attempt(group, index, float(random.randrange(100) >= percent_dull)))
            life.begin()
        if batch is None:
            life = saved.checkpoint()
            continue
        assert len(batch.groups) == len(batch.staleness) <= rules.groups
        assert max(batch.staleness, default=0) <= rules.max_staleness
        # Of the step itself, and of the one before while it was trained.
        assert batch.num_dropped(Drop.NO_SIGNAL) <= 2 * rules.groups * rules.max_refills
        for group in batch.groups:
            life.give_fate(int(group[0].group_id), "trained")
        assert percent_trouble or not batch.num_dropped(Drop.LATE, Drop.STALE)
        for number in batch.drops:
            life.give_fate(number, "dropped")
        for group in random.sample(life.backlog.under_way, min(2, len(life.backlog.under_way))):  # while it trains
            index = min(set(range(rules.group_size)) - group.ended.keys())
            life.backlog.end(group, index, attempt(group, index))
            life.begin()
        life.check()
        life.version += 1
        if random.random() < 0.5:
            saved = life.checkpoint()
    life.check()


@given(rules_strategy, st.randoms(use_true_random=False))
def test_without_staleness_every_group_is_fresh_and_none_is_left_behind(rules: BacklogRules, random: Random) -> None:
    life = Life(Backlog(replace(rules, max_staleness=0), None), replace(rules, max_staleness=0))
    for step in range(1, 4):
        life.backlog.open(step, step - 1, 4 - step)
        life.begin()
        batch = None
        while batch is None:
            group = random.choice(life.backlog.under_way)
            index = random.choice(sorted(set(range(rules.group_size)) - group.ended.keys()))
            life.backlog.end(group, index, attempt(group, index))
            batch = life.backlog.take_batch()
        assert batch.staleness == [0] * rules.groups
        assert not life.backlog.under_way
        assert not life.backlog.ready

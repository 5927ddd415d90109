"""Backlog: which groups are begun, which make the next batch, which are let go. Pure: no I/O, clock or randomness.

A group is begun under a weight version and ages by one with each version after it; it may be trained up to age
`max_staleness`. A batch waits for a group under way only where that is its last chance, so that long attempts are
trained as often as short ones. Without staleness each group's first chance is its last: all end, then all are trained.

Invariants (tests/trainer/rollout/test_backlog.py):
- every group that was begun is trained once, dropped once for a reason, or open;
- no batch holds a group older than `max_staleness`;
- with the batch in training, no more than `max_staleness + 1` batches are open at any time, of which those under way
  fill the attempts that may run at once and not more (`max_staleness` 0: all begin at once);
- at most `max_refills` for each group that a step asks for are dropped for want of signal.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sweyard_trainer.rollout.groups import Drop, Group, StepRollouts
from sweyard_trainer.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class BacklogRules:
    """What a run asks for."""

    groups: int
    """Of one batch."""
    group_size: int
    max_staleness: int
    """Weight versions."""
    max_concurrent: int
    """Attempts."""
    max_refills: int
    """For each group of a step."""


class Backlog:
    """All groups that are open: under way, or ended and not yet trained."""

    def __init__(self, rules: BacklogRules, teaches: Callable[[Sequence[Trajectory]], bool] | None = None) -> None:
        """`teaches` judges a group that has ended; without it every group is trained."""
        self._rules = rules
        self._teaches = teaches
        self._groups: dict[int, Group] = {}
        self._dropped: list[tuple[Drop, Group]] = []
        """Since the last batch."""
        self._num_stragglers = 0
        self._num_begun = 0
        self._num_begun_by_task: dict[str, int] = {}
        """In this step."""
        self._step = 0
        self._version = 0
        self._refills_left = 0
        self._batches_wanted = 0
        """So many may be open."""
        self._is_late = False

    @property
    def under_way(self) -> list[Group]:
        """Groups with attempts that have not ended, oldest first."""
        return [group for group in self._groups.values() if not self._has_ended(group)]

    @property
    def ready(self) -> list[Group]:
        """Groups that wait to be trained, oldest first."""
        return [group for group in self._groups.values() if self._has_ended(group)]

    @property
    def attempts(self) -> list[Trajectory]:
        """Those that have ended, of all open groups and of those dropped since the last batch."""
        groups = (*self._groups.values(), *(group for _, group in self._dropped))
        return [attempt for group in groups for attempt in group.attempts]

    def open(self, step: int, version: int, steps_left: int) -> list[Group]:
        """Step `step`, one of `steps_left`, begins under weights `version`.

        The groups under way that have become too old, and are dropped.
        """
        if step != self._step:
            self._num_begun_by_task.clear()
            self._refills_left = self._rules.groups * self._rules.max_refills
        self._step, self._version, self._is_late = step, version, False
        self._batches_wanted = min(self._rules.max_staleness + 1, steps_left)
        stale = [group for group in self._groups.values() if self._age(group) > self._rules.max_staleness]
        abandoned = [group for group in stale if not self._has_ended(group)]
        for group in stale:
            self._drop(group, Drop.STALE)
        return abandoned

    def wants_group(self) -> bool:
        """Whether another group is to begin now."""
        rules = self._rules
        if self._is_late or len(self._groups) >= self._batches_wanted * rules.groups:
            return False
        return rules.max_staleness == 0 or self._num_running() < rules.max_concurrent

    def begin(self, task_id: str) -> Group:
        """A group at the task, under way from here on."""
        repeat = self._num_begun_by_task.get(task_id, 0)
        self._num_begun_by_task[task_id] = repeat + 1
        group = Group(self._num_begun, self._step, repeat, task_id, self._version)
        self._num_begun += 1
        self._groups[group.number] = group
        return group

    def withdraw(self, group: Group) -> None:
        """Its task turned out to be unfit: as though it had never been begun."""
        del self._groups[group.number]

    def end(self, group: Group, index: int, attempt: Trajectory) -> None:
        """One of its attempts ended."""
        group.ended[index] = attempt
        if self._has_ended(group):
            self._judge(group)

    def cut(self, group: Group, index: int, attempt: Trajectory) -> None:
        """One of its attempts was cut at the deadline; `attempt` is masked."""
        self._num_stragglers += 1
        group.num_cut += 1
        self.end(group, index, attempt)

    def overdue(self) -> list[Group]:
        """The step is out of time: it begins nothing more, and waits no longer for these groups under way."""
        self._is_late = True
        under_way = self.under_way
        last_chance = [group for group in under_way if self._age(group) >= self._rules.max_staleness]
        return last_chance if last_chance or self.ready else under_way[: self._rules.groups]

    def take_batch(self) -> StepRollouts | None:
        """What the step is to train on, once it need not wait for more; the groups leave the backlog."""
        ready = self.ready
        chosen = ready[: self._rules.groups]
        if not (self._is_due(chosen) or (self._is_late and (chosen or not self._groups))):
            return None
        self._batches_wanted -= 1  # this one is in training
        self._is_late = False
        for group in chosen:
            del self._groups[group.number]
        dropped, self._dropped = self._dropped, []
        stragglers, self._num_stragglers = self._num_stragglers, 0
        return StepRollouts(
            groups=[group.attempts for group in chosen],
            dropped=[group.attempts for _, group in dropped if group.ended],
            drops={group.number: reason for reason, group in dropped},
            staleness=[self._age(group) for group in chosen],
            num_stragglers=stragglers,
        )

    def state(self) -> dict[str, Any]:
        """JSON-able, for the checkpoint: groups under way begin again from it. Attempts that have ended are named here,
        and `attempts` has them."""
        return {
            "step": self._step,
            "num_begun": self._num_begun,
            "num_begun_by_task": dict(self._num_begun_by_task),
            "refills_left": self._refills_left,
            "groups": [group.encoded() for group in self._groups.values()],
            "dropped": [(reason.value, group.encoded()) for reason, group in self._dropped],
        }

    def restore(self, state: dict[str, Any], attempts: Iterable[Trajectory]) -> None:
        """Inverse of `state` and `attempts`."""
        ended = {attempt.attempt_id: attempt for attempt in attempts}
        self._step, self._num_begun = state["step"], state["num_begun"]
        self._num_begun_by_task = dict(state["num_begun_by_task"])
        self._refills_left = state["refills_left"]
        groups = [Group.decoded(group, ended) for group in state["groups"]]
        self._groups = {group.number: group for group in groups}
        self._dropped = [(Drop(reason), Group.decoded(group, ended)) for reason, group in state["dropped"]]

    def _is_due(self, chosen: Sequence[Group]) -> bool:
        """A full batch, which leaves no more groups of an age behind than there are batches before these are too old.

        Where it holds none that is younger, waiting would not help them.
        """
        rules = self._rules
        if len(chosen) < rules.groups:
            return False
        left = [self._age(group) for group in self._groups.values() if group not in chosen]
        youngest = min(map(self._age, chosen))
        return all(
            sum(other >= age for other in left) <= (rules.max_staleness - age) * rules.groups
            for age in range(youngest + 1, rules.max_staleness + 1)
        )

    def _judge(self, group: Group) -> None:
        if group.num_cut == self._rules.group_size:
            self._drop(group, Drop.LATE)
        elif self._teaches and self._refills_left and not self._is_late and not self._teaches(group.attempts):
            self._refills_left -= 1
            self._drop(group, Drop.NO_SIGNAL)

    def _drop(self, group: Group, reason: Drop) -> None:
        del self._groups[group.number]
        self._dropped.append((reason, group))

    def _age(self, group: Group) -> int:
        return self._version - group.version

    def _has_ended(self, group: Group) -> bool:
        return len(group.ended) == self._rules.group_size

    def _num_running(self) -> int:
        """Attempts of all groups that run or wait for their turn."""
        return sum(self._rules.group_size - len(group.ended) for group in self._groups.values())

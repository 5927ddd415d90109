"""How many tasks a data set is to have, and what is kept where its packages gave fewer.

A number that the user asked for is met, or nothing is made. Without one, what was proved is kept.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sweyard_sandbox.tasks.source import SourceError
from sweyard_sandbox.tasks.task import Task

USUAL: Mapping[str, int] = {"train": 60, "heldout": 20, "unseen": 12}
"""Tasks of a split that nothing was asked of."""
FEWEST: Mapping[str, int] = {"train": 6, "heldout": 2, "unseen": 2}
"""Of those: with fewer there is nothing to train on, or to measure."""


class TooFewTasksError(SourceError):
    """Packages gave fewer tasks than were asked for, or than are of use."""


@dataclass(frozen=True, slots=True)
class Made:
    """What one package gave."""

    source: str
    wanted: Mapping[str, int]
    """Tasks by split, at most."""
    tasks: Sequence[Task]
    unnoticed: int = 0
    """Bugs tried that none of its tests noticed."""
    unusable: int = 0
    """Bugs tried that a test noticed, but that are no task: endless loops, say, or a second bug in equal lines."""
    spared: int = 0
    """Bugs not tried, for their function had its share of tasks."""

    def of(self, split: str) -> list[Task]:
        """Its tasks of one split."""
        return [task for task in self.tasks if f"split:{split}" in task.tags]

    @property
    def is_short(self) -> bool:
        """It gave less than was wanted of it."""
        return any(len(self.of(split)) < number for split, number in self.wanted.items())


@dataclass(frozen=True, slots=True)
class Kept:
    """The tasks of a data set."""

    tasks: list[Task]
    remark: str = ""
    """Why there are fewer than usual; empty if there are not."""


def share(total: int, number: int, parts: int) -> int:
    """What part `number` of `parts` has of a total."""
    return total // parts + (number < total % parts)


def keep(made: Sequence[Made], asked: Mapping[str, int | None], per_function: int) -> Kept:
    """The tasks of packages that are split alike; `asked` by split, None where the user left it open.

    Raises TooFewTasksError with numbers that can be had.
    """
    counts = {split: sum(len(each.of(split)) for each in made) for split in asked}
    needed = {split: FEWEST[split] if number is None else number for split, number in asked.items()}
    if lacking := {split: number for split, number in needed.items() if counts[split] < number}:
        raise TooFewTasksError(_refusal(made, counts, lacking, per_function))
    goals = {split: USUAL[split] if number is None else number for split, number in asked.items()}
    if all(counts[split] == goals[split] for split in goals):
        return Kept([task for each in made for task in each.tasks])
    numbers = counts if any(number is not None for number in asked.values()) else in_proportion(counts, goals)
    remark = f"{_listed(numbers)} rather than {_listed(goals)}: {_causes(made, per_function)}"
    if left_out := sum(counts.values()) - sum(numbers.values()):
        remark += f"; {left_out} more were left out to keep the splits in proportion ({_flags(made)} takes them all)"
    return Kept(_evenly(made, numbers), f"{remark}; to have more: {_remedies(made, per_function)}")


def in_proportion(counts: Mapping[str, int], goals: Mapping[str, int]) -> dict[str, int]:
    """As many of each split as there are, in the proportion of `goals`; of each at least the fewest of use."""
    scale = min(Fraction(counts[split], goal) for split, goal in goals.items())
    return {split: max(int(goal * scale), FEWEST[split]) for split, goal in goals.items()}


def obtainable(made: Sequence[Made], split: str) -> int:
    """The largest number to ask for of a split that the packages, each with its equal share, can give."""
    counts = [len(each.of(split)) for each in made]
    fitting = (
        total
        for total in range(sum(counts), 0, -1)
        if all(share(total, number, len(made)) <= count for number, count in enumerate(counts))
    )
    return next(fitting, 0)


def _evenly(made: Sequence[Made], numbers: Mapping[str, int]) -> list[Task]:
    """So many of each split, in their order; what is too much is taken from the package that gave most."""
    kept: set[str] = set()
    for split, number in numbers.items():
        groups = [each.of(split) for each in made]
        while sum(map(len, groups)) > number:
            max(groups, key=len).pop()
        kept.update(task.id for group in groups for task in group)
    return [task for each in made for task in each.tasks if task.id in kept]


def _refusal(made: Sequence[Made], counts: Mapping[str, int], lacking: Mapping[str, int], per_function: int) -> str:
    fewer = f"ask for {_flags(made)}, or " if any(counts.values()) else ""
    return (
        f"only {_listed(counts)} tasks could be made, and {_listed(lacking)} are needed: "
        f"{_causes(made, per_function)}; {fewer}{_remedies(made, per_function)} "
        "(what was verified is kept, and not verified again)"
    )


def _flags(made: Sequence[Made]) -> str:
    """Numbers that the packages can give, as they are asked for."""
    return " ".join(f"--{split} {obtainable(made, split)}" for split in made[0].wanted)


def _listed(numbers: Mapping[str, int]) -> str:
    return " and ".join(f"{number} {split}" for split, number in numbers.items())


def _causes(made: Sequence[Made], per_function: int) -> str:
    """Of each package that gave less than its share: what became of the bugs put into it."""
    return "; ".join(_cause(each, per_function) for each in made if each.is_short)


def _cause(made: Made, per_function: int) -> str:
    tried = len(made.tasks) + made.unnoticed + made.unusable
    parts = [f"of {tried} bugs put into {made.source} its tests missed {made.unnoticed}"]
    if made.unusable:
        parts.append(f"{made.unusable} are no tasks for other reasons")
    if made.spared:
        parts.append(f"{made.spared} were not tried, as one function has at most {per_function} tasks")
    return ", ".join(parts)


def _remedies(made: Sequence[Made], per_function: int) -> str:
    more = f"--per-function {2 * per_function}, or " if any(each.spared for each in made if each.is_short) else ""
    return f"{more}another {'--unseen-package' if 'unseen' in made[0].wanted else '--repo or --package'}"


def splits_of(tasks: Sequence[Task]) -> str:
    """37 train, 12 heldout."""
    tags = Counter(tag for task in tasks for tag in task.tags)
    return ", ".join(f"{tags[f'split:{split}']} {split}" for split in (*USUAL, "practice") if tags[f"split:{split}"])

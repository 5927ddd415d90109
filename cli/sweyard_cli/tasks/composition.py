"""What a data set consists of, in numbers. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any

from sweyard_cli.figures import plural

if TYPE_CHECKING:
    from sweyard_sandbox.tasks.task import Task

SHOWN = 20
"""Values of a group that are shown; the rest is one line."""
MEDIANS = ("fail_to_pass", "pass_to_pass", "statement_characters")


def composition(tasks: "Sequence[Task]", left_out: Sequence[str]) -> dict[str, Any]:
    """Counts, the largest first, and medians."""
    groups = sorted({tag.split(":", 1)[0] for task in tasks for tag in task.tags if ":" in tag})
    tags = {group: _counted(_values(tasks, group)) for group in groups}
    return {
        "tasks": len(tasks),
        "left_out": len(left_out),
        "images": len({task.image for task in tasks}),
        "median_fail_to_pass": median(len(task.fail_to_pass) for task in tasks),
        "median_pass_to_pass": median(len(task.pass_to_pass) for task in tasks),
        "median_statement_characters": median(len(task.problem_statement) for task in tasks),
        "without_solution": sum(not task.gold_patch for task in tasks),
        "by": {
            "grader": _counted(task.grader for task in tasks),
            "repository": _counted(task.repository for task in tasks),
            **tags,
        },
    }


def _values(tasks: "Sequence[Task]", group: str) -> Iterator[str]:
    return (tag.split(":", 1)[1] for task in tasks for tag in task.tags if tag.startswith(f"{group}:"))


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def composition_lines(figures: dict[str, Any]) -> Iterator[str]:
    """As a person reads it."""
    in_images = f"{plural(figures['tasks'], 'task')} in {plural(figures['images'], 'image')}"
    yield f"{in_images}; {figures['left_out']} rows are no tasks"
    yield f"{figures['without_solution']} have no solution, and cannot be checked before their use"
    failing, passing, statement = (figures[f"median_{name}"] for name in MEDIANS)
    yield f"median of a task: {failing:g} tests that must begin to pass, {passing:g} that must go on passing"
    yield f"median of a statement: {statement:g} characters"
    for group, counts in figures["by"].items():
        yield f"\nby {group}:"
        width = max(len(str(count)) for count in counts.values())
        shown = list(counts.items())[:SHOWN]
        yield from (f"  {count:{width}}  {value}" for value, count in shown)
        if rest := dict(list(counts.items())[SHOWN:]):
            yield f"  {sum(rest.values()):{width}}  of {len(rest)} others"

"""What is kept of the tasks that packages gave, and what is told where they are too few."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_sandbox.tasks.sizes import FEWEST, USUAL, Made, TooFewTasksError, keep, obtainable, share
from sweyard_sandbox.tasks.task import Task

OPEN: Mapping[str, int | None] = {"train": None, "heldout": None}


def task(name: str, split: str) -> Task:
    return Task(
        id=name,
        repository="r",
        image="dir:trees/r",
        working_directory="/w",
        problem_statement="p",
        gold_patch="g",
        fail_to_pass=(),
        tags=(f"split:{split}",),
    )


def made(source: str, wanted: dict[str, int], counts: dict[str, int], **reasons: int) -> Made:
    tasks = [task(f"{source}-{split}-{n}", split) for split, count in counts.items() for n in range(count)]
    return Made(source, wanted, tasks, **reasons)


def packages(asked: Mapping[str, int | None], *counts: tuple[int, int], **reasons: int) -> list[Made]:
    """Packages that gave so many train and held-out tasks each, of an equal share."""
    totals = {split: USUAL[split] if number is None else number for split, number in asked.items()}
    return [
        made(
            f"p{number}",
            {split: share(total, number, len(counts)) for split, total in totals.items()},
            dict(zip(asked, each, strict=True)),
            **reasons,
        )
        for number, each in enumerate(counts)
    ]


def numbers(tasks: list[Task]) -> tuple[int, int]:
    tags = Counter(tag for task in tasks for tag in task.tags)
    return tags["split:train"], tags["split:heldout"]


KEPT = {
    "all": (OPEN, [(60, 20)], (60, 20)),
    "few to train on": (OPEN, [(37, 20)], (37, 12)),
    "few held out": (OPEN, [(60, 9)], (27, 9)),
    "a handful": (OPEN, [(6, 2)], (6, 2)),
    "few of one package": (OPEN, [(30, 10), (7, 10)], (37, 12)),
    "as asked": ({"train": 5, "heldout": 1}, [(5, 1)], (5, 1)),
    "none held out, as asked": ({"train": 5, "heldout": 0}, [(5, 0)], (5, 0)),
    "asked to train on alone": ({"train": 30, "heldout": None}, [(30, 8)], (30, 8)),
}


@pytest.mark.parametrize(("asked", "counts", "kept"), KEPT.values(), ids=KEPT)
def test_what_is_kept(asked: Any, counts: list[tuple[int, int]], kept: tuple[int, int]) -> None:
    assert numbers(keep(packages(asked, *counts), asked, 6).tasks) == kept


def test_what_is_too_much_is_taken_from_the_package_that_gave_most() -> None:
    kept = keep(packages(OPEN, (30, 10), (7, 4)), OPEN, 6)
    assert Counter(task.id.rpartition("-")[0] for task in kept.tasks) == {
        "p0-train": 30, "p0-heldout": 8, "p1-train": 7, "p1-heldout": 4,
    }  # fmt: skip


REMARKS = {
    "nothing to say": ((60, 20), {}, ""),
    "why": (
        (37, 20),
        {"unnoticed": 150, "unusable": 3, "spared": 40},
        "37 train and 12 heldout rather than 60 train and 20 heldout: of 210 bugs put into p0 its tests missed 150, "
        "3 are no tasks for other reasons, 40 were not tried, as one function has at most 6 tasks; "
        "8 more were left out to keep the splits in proportion (--train 37 --heldout 20 takes them all); "
        "to have more: --per-function 12, or another --repo or --package",
    ),
    "all was tried": (
        (30, 10),
        {"unnoticed": 9},
        "30 train and 10 heldout rather than 60 train and 20 heldout: of 49 bugs put into p0 its tests missed 9; "
        "to have more: another --repo or --package",
    ),
}


@pytest.mark.parametrize(("counts", "reasons", "remark"), REMARKS.values(), ids=REMARKS)
def test_the_user_is_told_why_there_are_no_more(counts: tuple[int, int], reasons: dict[str, int], remark: str) -> None:
    assert keep(packages(OPEN, counts, **reasons), OPEN, 6).remark == remark


REFUSED = {
    "fewer than asked": (
        {"train": 60, "heldout": 20},
        [(37, 9)],
        "only 37 train and 9 heldout tasks could be made, and 60 train and 20 heldout are needed: .*"
        r"; ask for --train 37 --heldout 9, or --per-function 12, or another --repo or --package \(what was verified",
    ),
    "a package gave less than its share": ({"train": 60, "heldout": 20}, [(30, 10), (7, 10)], "ask for --train 15 "),
    "no handful": (OPEN, [(3, 1)], "only 3 .* and 6 train and 2 heldout are needed.*ask for --train 3 --heldout 1, or"),
    "none at all": (OPEN, [(0, 0)], "only 0 train and 0 heldout .*tasks; --per-function 12, or another"),
    "none held out, as asked": ({"train": 60, "heldout": 0}, [(37, 0)], "ask for --train 37 --heldout 0, or"),
}


@pytest.mark.parametrize(("asked", "counts", "says"), REFUSED.values(), ids=REFUSED)
def test_too_few_are_refused_with_numbers_that_can_be_had(asked: Any, counts: list[tuple[int, int]], says: str) -> None:
    with pytest.raises(TooFewTasksError, match=says):
        keep(packages(asked, *counts, spared=1), asked, 6)


def test_packages_that_are_never_trained_on_have_an_option_of_their_own() -> None:
    with pytest.raises(TooFewTasksError, match="ask for --unseen 4, or another --unseen-package"):
        keep([made("u", {"unseen": 9}, {"unseen": 4})], {"unseen": 9}, 6)


COUNTS = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 30)), min_size=1, max_size=4)


@given(COUNTS)
def test_splits_keep_their_proportion_and_no_package_gives_what_it_has_not(counts: list[tuple[int, int]]) -> None:
    quotas = packages(OPEN, *[(0, 0)] * len(counts))
    capped = [
        (min(train, quota.wanted["train"]), min(heldout, quota.wanted["heldout"]))
        for (train, heldout), quota in zip(counts, quotas, strict=True)
    ]
    given_tasks = packages(OPEN, *capped)
    totals = [sum(each) for each in zip(*capped, strict=True)]
    if totals[0] < FEWEST["train"] or totals[1] < FEWEST["heldout"]:
        with pytest.raises(TooFewTasksError):
            keep(given_tasks, OPEN, 6)
        return
    train, heldout = numbers(keep(given_tasks, OPEN, 6).tasks)
    assert train <= totals[0]
    assert heldout <= totals[1]
    assert abs(train - 3 * heldout) <= 3


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5))
def test_a_number_that_is_told_can_be_had_of_equal_shares_and_one_more_cannot(counts: list[int]) -> None:
    given_tasks = [made(f"p{n}", {"train": 20}, {"train": count}) for n, count in enumerate(counts)]

    def can_be_had(total: int) -> bool:
        return all(share(total, n, len(counts)) <= count for n, count in enumerate(counts))

    found = obtainable(given_tasks, "train")
    assert can_be_had(found)
    assert not can_be_had(found + 1)

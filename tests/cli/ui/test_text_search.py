"""A search that tells what it has found so far."""

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.cli.conftest import attempt, write_attempts

from sweyard_cli.ui.attempt_index import AttemptIndex
from sweyard_cli.ui.text_search import Found, TextSearch

MakeRun = Callable[..., Path]
STEPS = {f"step-00000{step}": [attempt(label=str(step), patch="+found")] for step in (1, 2, 3)}


def ids(found: Found) -> list[str]:
    return sorted(found.attempts["attempt_id"].to_pylist())


def in_no_time(num_readers: int = 1) -> TextSearch:
    """One that is never late, however slow the machine."""
    return TextSearch(num_readers=num_readers, clock=lambda: 0.0)


def test_whoever_asks_again_hears_more_the_newest_first(make_run: MakeRun) -> None:
    index = AttemptIndex(make_run(attempts=STEPS) / "rollouts")
    seconds = count()
    search = TextSearch(clock=lambda: float(next(seconds)))
    told = [search.among(index.table(), index.paths(), "found", seconds=0.5) for _ in range(2)]
    assert [ids(found) for found in told] == [["3/t1/0"], ["1/t1/0", "2/t1/0", "3/t1/0"]], "twice as long as before"
    assert [round(found.searched, 2) for found in told] == [0.33, 1.0]


def test_a_file_is_searched_again_once_it_has_changed(make_run: MakeRun) -> None:
    rollouts = make_run(attempts=STEPS) / "rollouts"
    index, search = AttemptIndex(rollouts), in_no_time()
    assert len(ids(search.among(index.table(), index.paths(), "found"))) == 3
    path = rollouts / "step-000002.parquet"
    write_attempts(path, [attempt(label="2", patch="+other")])
    os.utime(path, (0, 0))
    assert ids(search.among(index.table(), index.paths(), "found")) == ["1/t1/0", "3/t1/0"]


def test_only_files_of_the_attempts_that_are_asked_for_are_read(make_run: MakeRun) -> None:
    rollouts = make_run(attempts=STEPS) / "rollouts"
    index = AttemptIndex(rollouts)
    table, paths = index.table(), index.paths()
    (rollouts / "step-000003.parquet").unlink()
    assert ids(in_no_time().among(table.slice(0, 2), paths, "found")) == ["1/t1/0", "2/t1/0"]


def test_a_file_whose_texts_are_damaged_is_told_and_the_search_goes_on(make_run: MakeRun) -> None:
    rollouts = make_run(attempts=STEPS) / "rollouts"
    index = AttemptIndex(rollouts)
    table, paths = index.table(), index.paths()
    path = rollouts / "step-000002.parquet"
    content = bytearray(path.read_bytes())
    patch = content.index(b"+found")
    content[patch - 40 : patch + 6] = bytes(46)
    path.write_bytes(content)
    found = in_no_time(num_readers=2).among(table, paths, "found")
    assert (ids(found), found.searched) == (["1/t1/0", "3/t1/0"], 1.0)
    [sentence] = found.unread
    assert str(path) in sentence


def test_a_file_that_gave_way_to_another_one_has_nothing(make_run: MakeRun) -> None:
    rollouts = make_run(attempts=STEPS) / "rollouts"
    index = AttemptIndex(rollouts)
    table, paths = index.table(), index.paths()
    (rollouts / "step-000002.parquet").unlink()
    found = in_no_time().among(table, paths, "found")
    assert (ids(found), found.unread) == (["1/t1/0", "3/t1/0"], [])

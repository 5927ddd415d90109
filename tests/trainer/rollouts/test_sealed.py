import os
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sweyard_trainer.rollouts import sealed as sealed_module
from sweyard_trainer.rollouts.batches import NoBatchError, read_batch
from sweyard_trainer.rollouts.files import step_label
from sweyard_trainer.rollouts.reading import read_attempt, read_attempts
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.trajectory import Trajectory

MakeAttempt = Callable[..., Trajectory]
LABEL = step_label(1)


def ids(path: Path) -> list[str]:
    return [attempt.attempt_id for attempt in read_attempts(path)]


def test_a_step_done_again_replaces_its_file_at_once(tmp_path: Path, make_attempt: MakeAttempt) -> None:
    before = seal(tmp_path / LABEL, [make_attempt("1/before/0")])
    reader = before.open("rb")
    after = seal(tmp_path / LABEL, [make_attempt("1/after/0")])
    assert (before, ids(after)) == (after, ["1/after/0"])
    assert pq.read_table(reader, columns=["attempt_id"]).column(0).to_pylist() == ["1/before/0"]
    assert os.listdir(tmp_path) == [f"{LABEL}.parquet"]
    reader.close()


def test_a_file_that_cannot_be_finished_leaves_the_one_before(tmp_path: Path, make_attempt: MakeAttempt) -> None:
    seal(tmp_path / LABEL, [make_attempt("1/before/0")])
    with pytest.raises(AttributeError):
        seal(tmp_path / LABEL, [make_attempt("1/after/0"), None])  # type: ignore[list-item]
    assert ids(tmp_path / f"{LABEL}.parquet") == ["1/before/0"]


def test_large_steps_are_written_part_by_part(
    tmp_path: Path, make_attempt: MakeAttempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealed_module, "ROW_GROUP_BYTES", 1_000)
    names = [f"1/t/{number}" for number in range(9)]
    sealed = seal(tmp_path / LABEL, [make_attempt(name, patch="x" * 400) for name in names])
    assert 1 < pq.ParquetFile(sealed).num_row_groups < 9
    assert ids(sealed) == names
    assert [read_attempt(sealed, name).attempt_id for name in names] == names


def test_the_batch_comes_back_in_its_order_without_what_was_dropped(tmp_path: Path, make_attempt: MakeAttempt) -> None:
    a, b, c, dropped = (make_attempt(name) for name in ("1/a/0", "1/b/0", "1/a/1", "1/d/0"))
    sealed = seal(tmp_path / LABEL, [dropped, c, b, a], [[b], [a, c]])
    assert [[attempt.attempt_id for attempt in group] for group in read_batch(tmp_path, 1)] == [
        ["1/b/0"],
        ["1/a/0", "1/a/1"],
    ]
    assert ids(sealed) == ["1/d/0", "1/a/1", "1/b/0", "1/a/0"]


def test_a_step_that_has_not_ended_has_no_batch(tmp_path: Path) -> None:
    with pytest.raises(NoBatchError, match="holds no step 2, or it has not ended"):
        read_batch(tmp_path, 2)

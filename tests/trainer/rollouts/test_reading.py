from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweyard_trainer.rollouts.files import UNDER_WAY, find_files, label_of_attempt, step_label, step_of
from sweyard_trainer.rollouts.journal import Journal
from sweyard_trainer.rollouts.reading import (
    NoSuchAttemptError,
    RolloutFormatError,
    find_attempt,
    read_attempt,
    read_attempts,
    read_columns,
    read_row,
    typed_damage,
)
from sweyard_trainer.rollouts.sealed import seal
from sweyard_trainer.trajectory import Trajectory

MakeAttempt = Callable[..., Trajectory]
LABEL = step_label(1)


@pytest.mark.parametrize("is_sealed", [False, True], ids=["journal", "sealed"])
def test_one_attempt_and_some_columns_are_read_alone(
    tmp_path: Path, make_attempt: MakeAttempt, is_sealed: bool
) -> None:
    attempts = [make_attempt(f"1/{name}/0", task_id=name, patch="\ud83d") for name in "ab"]
    if is_sealed:
        seal(tmp_path / LABEL, attempts)
    else:
        Journal(tmp_path / LABEL, attempts).close()
    path = find_files(tmp_path)[LABEL]
    assert read_columns(path, ["num_tokens", "task_id"]).to_pylist() == [
        {"num_tokens": 3, "task_id": "a"},
        {"num_tokens": 3, "task_id": "b"},
    ]
    assert read_attempt(path, "1/b/0").task_id == "b"
    assert read_row(path, "1/b/0", ["patch", "task_id"]) == {"patch": "\ud83d", "task_id": "b"}
    with pytest.raises(NoSuchAttemptError, match="holds no attempt 1/c/0"):
        read_attempt(path, "1/c/0")


@pytest.mark.parametrize("is_sealed", [False, True], ids=["journal", "sealed"])
def test_an_id_that_no_file_can_hold_as_it_is_is_found(
    tmp_path: Path, make_attempt: MakeAttempt, is_sealed: bool
) -> None:
    attempts = [make_attempt(f"1/{name}/0") for name in ("a\ud83d", "\U0010ffff")]
    if is_sealed:
        seal(tmp_path / LABEL, attempts)
    else:
        Journal(tmp_path / LABEL, attempts).close()
    files = find_files(tmp_path)
    for each in attempts:
        path = find_attempt(files, each.attempt_id)
        assert path is not None
        assert read_attempt(path, each.attempt_id).attempt_id == each.attempt_id
        assert read_row(path, each.attempt_id, ["attempt_id"]) == {"attempt_id": each.attempt_id}


def test_no_damage_of_a_journal_ends_who_reads_it(tmp_path: Path, make_attempt: MakeAttempt) -> None:
    Journal(tmp_path / LABEL, [make_attempt(f"1/{name}/0") for name in "abc"]).close()
    [path] = find_files(tmp_path).values()
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        with suppress(RolloutFormatError):
            assert len(read_attempts(path)) <= 3


def test_files_that_are_none_of_ours_are_named(tmp_path: Path) -> None:
    path = tmp_path / f"{LABEL}.parquet"
    path.write_bytes(b"no parquet")
    with pytest.raises(RolloutFormatError, match=r"step-000001.parquet is no rollout file"):
        read_attempts(path)
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(RolloutFormatError, match="has version none of the rollout schema, and this sweyard reads 1"):
        read_attempts(path)


def test_a_damaged_page_is_told(tmp_path: Path, make_attempt: MakeAttempt) -> None:
    sealed = seal(tmp_path / LABEL, [make_attempt(patch="abc" * 1000)])
    data = bytearray(sealed.read_bytes())
    data[4:1000] = b"\xff" * 996
    sealed.write_bytes(data)
    with pytest.raises(RolloutFormatError, match="damaged"):
        read_attempts(sealed)


def test_a_bit_that_has_turned_anywhere_is_told_or_changes_nothing(tmp_path: Path, make_attempt: MakeAttempt) -> None:
    attempts = [make_attempt(f"1/{name}/0", task_id=name, patch=name * 1_000) for name in "ab"]
    sealed = seal(tmp_path / LABEL, attempts)
    data, whole, told = sealed.read_bytes(), repr(read_attempts(sealed)), 0
    for position in range(0, len(data), 131):
        sealed.write_bytes(data[:position] + bytes([data[position] ^ 1 << position % 8]) + data[position + 1 :])
        try:
            assert repr(read_attempts(sealed)) == whole, f"at byte {position}"
        except RolloutFormatError:
            told += 1
    assert told


def test_an_attempt_is_found_in_the_step_that_trained_it(tmp_path: Path, make_attempt: MakeAttempt) -> None:
    early, late, waiting = (make_attempt(f"1/{name}/0") for name in ("early", "late", "waiting"))
    seal(tmp_path / step_label(1), [early])
    seal(tmp_path / step_label(2), [late])
    Journal(tmp_path / UNDER_WAY, [waiting]).close()
    files = find_files(tmp_path)
    found = [find_attempt(files, f"1/{name}/0") for name in ("early", "late", "waiting", "never")]
    assert [path and path.stem for path in found] == ["step-000001", "step-000002", "under-way", None]


LABELS = {"3/cachetools-1/0": "step-000003", "eval-step-3-held/t/0": "eval-step-3-held", "12/a/b~1/3": "step-000012"}


@pytest.mark.parametrize(("attempt_id", "label"), LABELS.items())
def test_an_attempt_s_id_says_which_file_it_is_in(attempt_id: str, label: str) -> None:
    assert label_of_attempt(attempt_id) == label
    assert step_of(label) == (int(attempt_id.partition("/")[0]) if label.startswith("step") else None)


@pytest.mark.parametrize("error", [PermissionError("denied"), FileNotFoundError("gone")])
def test_a_file_that_may_not_be_read_is_not_told_to_be_damaged(error: OSError) -> None:
    with pytest.raises(type(error)), typed_damage("step-1.parquet"):
        raise error

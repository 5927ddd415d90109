import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sweyard_trainer.atomic_directory import atomic_directory, new_directory, remove_abandoned
from sweyard_trainer.completeness import is_complete


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise RuntimeError("boom")

    with pytest.raises(RuntimeError, match="boom"), atomic_directory(tmp_path / "model") as directory:
        fail(directory)
    assert list(tmp_path.iterdir()) == []


def test_of_two_writers_the_first_to_finish_wins(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with atomic_directory(target) as slow:
        (slow / "by").write_text("slow")
        with atomic_directory(target) as fast:
            (fast / "by").write_text("fast")
    assert is_complete(target)
    assert (target / "by").read_text() == "fast"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_what_a_killed_writer_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left = ("1.0123abcd.partial", "1.89ab.partial")
    others = ("1", "10", "10.0123abcd.partial", "1.partial", "1.0123abcd")
    for name in (*left, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").touch()
    remove_abandoned(tmp_path / "1")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


WRITE = """
import pathlib, sys
from sweyard_trainer.atomic_directory import new_directory

with new_directory(pathlib.Path(sys.argv[1])) as partial:
    (partial / "weights").write_text("half of them")
    print(partial, flush=True)
    input()
"""


def test_the_next_writer_removes_what_one_that_was_killed_left_and_spares_one_that_writes(tmp_path: Path) -> None:
    target = tmp_path / "model"
    command = [sys.executable, "-c", WRITE, str(target)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        partial = Path(process.stdout.readline().strip())
        with new_directory(target):
            assert (partial / "weights").exists()
        shutil.rmtree(target)
        process.send_signal(signal.SIGKILL)
    assert list(tmp_path.iterdir()) == [partial]
    with new_directory(target) as own:
        (own / "weights").write_text("all of them")
    assert list(tmp_path.iterdir()) == [target]

from pathlib import Path

import pytest

from sweyard_trainer.atomic_directory import atomic_directory, is_complete


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

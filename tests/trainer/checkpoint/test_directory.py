import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sweyard_trainer.atomic_directory import COMPLETE, atomic_directory, is_complete
from sweyard_trainer.checkpoint.directory import CheckpointState, begin, commit, find_latest, read_state
from sweyard_trainer.storage_errors import StorageFullError, full_disk_as_storage_full


def save(checkpoints: Path, step: int, keep: int = 2, size: int = 10) -> None:
    partial = begin(checkpoints, step, "token")
    with full_disk_as_storage_full(partial):
        (partial / "tensors").write_bytes(b"x" * size)
    commit(partial, checkpoints, CheckpointState(step, "rl", step, {"cursor": step}), keep)


def test_the_newest_complete_checkpoint_is_chosen_by_number_not_name(tmp_path: Path) -> None:
    for step in (9, 10):
        save(tmp_path, step)
    (tmp_path / "step-11").mkdir()
    (tmp_path / "step-12.abc.partial").mkdir()
    (tmp_path / "step-12.abc.partial" / COMPLETE).touch()
    latest = find_latest(tmp_path)
    assert latest == tmp_path / "step-10"
    assert read_state(latest) == CheckpointState(10, "rl", 10, {"cursor": 10})


def test_partial_ones_are_removed_by_the_next_save(tmp_path: Path) -> None:
    save(tmp_path, 1)
    (tmp_path / "step-2").mkdir()
    (tmp_path / "step-2" / "tensors").touch()
    (tmp_path / "step-3.abc.partial").mkdir()
    save(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-1", "step-2"]


def test_saving_a_step_again_replaces_it(tmp_path: Path) -> None:
    save(tmp_path, 1, size=10)
    save(tmp_path, 1, size=20)
    assert (tmp_path / "step-1" / "tensors").stat().st_size == 20


def test_keep_counts_complete_ones(tmp_path: Path) -> None:
    for step in range(1, 6):
        save(tmp_path, step, keep=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-3", "step-4", "step-5"]


def test_no_checkpoint_at_all(tmp_path: Path) -> None:
    assert find_latest(tmp_path / "checkpoints") is None


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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_is_a_typed_error_and_spares_the_last_checkpoint(small_disk: Path) -> None:
    save(small_disk, 1, size=100_000)
    with pytest.raises(StorageFullError, match=r"storage\.size"):
        save(small_disk, 2, size=500_000)
    assert find_latest(small_disk) == small_disk / "step-1"
    save(small_disk, 3, size=20_000)
    assert find_latest(small_disk) == small_disk / "step-3"


def test_a_disk_that_is_full_for_weights_is_a_typed_error(small_disk: Path) -> None:
    with pytest.raises(StorageFullError, match="weights"), atomic_directory(small_disk / "weights") as directory:
        save_file({"weight": torch.zeros(1_000_000)}, directory / "model.safetensors")
    assert list(small_disk.iterdir()) == []


async def test_a_full_disk_under_the_learner_is_a_typed_error(small_disk: Path, tiny_model: Path, make_spec) -> None:
    from sweyard_trainer.learner.build import make_learner

    (small_disk / "model").symlink_to(tiny_model)
    learner = make_learner(make_spec(), small_disk, num_threads=1)
    await learner.start()
    try:
        with pytest.raises(StorageFullError):
            await learner.save_checkpoint(1, {})
        with pytest.raises(StorageFullError):
            await learner.save_weights(1)
    finally:
        await learner.stop()

"""Which checkpoints count, on a volume and in object storage; what is let go; full and read-only disks."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.atomic_directory import atomic_directory
from sweyard_trainer.checkpoint.retention import superfluous
from sweyard_trainer.checkpoint.save import typed_checkpoint_errors
from sweyard_trainer.checkpoint.saved import Saved
from sweyard_trainer.checkpoint.store import CheckpointState, CheckpointStore
from sweyard_trainer.completeness import COMPLETE
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.storage_errors import StorageFullError, StorageReadOnlyError
from sweyard_trainer.trajectory import Segment, Trajectory


@pytest.fixture(params=["path", "file://", "memory://"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    """The same behaviour on a volume and behind fsspec."""
    root = {"path": str(tmp_path), "file://": f"file://{tmp_path}", "memory://": f"memory://{uuid4()}"}
    return CheckpointStore(root[request.param])


def save(store: CheckpointStore, step: int, keep: int = 2, size: int = 10, best_first: tuple[int, ...] = ()) -> str:
    with typed_checkpoint_errors(store, f"step-{step}"):
        name = store.begin(step)
        with store.open(name, "tensors", "wb") as stream:
            stream.write(b"x" * size)
        store.commit(name, CheckpointState(step, "rl", step, {"cursor": step}), keep, best_first)
    return name


def newest(store: CheckpointStore) -> str | None:
    complete = store.complete()
    return complete[-1].name if complete else None


def left(store: CheckpointStore) -> list[str]:
    return sorted(store._names())


def test_the_newest_complete_checkpoint_is_chosen_by_number_not_name(store: CheckpointStore) -> None:
    for step in (9, 10):
        save(store, step)
    with store.open(store.begin(11), "tensors", "wb") as stream:
        stream.write(b"half")
    assert newest(store) == "step-10"
    assert store.read_state("step-10") == CheckpointState(10, "rl", 10, {"cursor": 10})


def test_held_attempts_come_back_exactly_and_go_with_their_checkpoint(store: CheckpointStore) -> None:
    segment = Segment(
        np.arange(5, dtype=np.int32),
        np.array([0, 0, 1, 1, 1], np.bool_),
        np.array([0, 0, -0.1, -0.0, -1e-30], np.float32),
        np.array([-1, -1, 3, 3, 4], np.int32),
    )
    held = [
        Trajectory(f"4/t/{index}", "t", "4/t", (segment,) * index, Outcome.SOLVED, 0.1, timings={"total": 0.3})
        for index in range(3)
    ]
    name = store.begin(4)
    store.write_held(name, held)
    store.commit(name, CheckpointState(4, "rl", 4), keep=1, best_first=())
    back = store.read_held(name)
    assert [replace(attempt, segments=()) for attempt in back] == [replace(attempt, segments=()) for attempt in held]
    for ours, theirs in zip(back, held, strict=True):
        assert len(ours.segments) == len(theirs.segments)
        for one, other in zip(ours.segments, theirs.segments, strict=True):
            for column in ("token_ids", "loss_mask", "logprobs", "weight_versions"):
                assert getattr(one, column).tobytes() == getattr(other, column).tobytes()
    save(store, 5, keep=1)
    assert store.read_held("step-5") == []
    assert left(store) == ["step-5"]


def test_what_dead_writers_left_is_removed_by_the_next_save(store: CheckpointStore) -> None:
    save(store, 1)
    for name, file in (("step-2", "tensors"), ("step-3.abc.partial", COMPLETE), ("mine", "notes")):
        store._files.makedirs(f"{store._path}/{name}", exist_ok=True)
        with store.open(name, file, "wb") as stream:
            stream.write(b"x")
    save(store, 2)
    assert left(store) == ["mine", "step-1", "step-2"]


def test_a_step_saved_again_takes_the_place_of_the_first_once_it_is_complete(store: CheckpointStore) -> None:
    save(store, 1, size=10)
    again = store.begin(1)
    assert newest(store) == "step-1"
    with store.open(again, "tensors", "wb") as stream:
        stream.write(b"x" * 20)
    store.commit(again, CheckpointState(1, "rl", 1), 2, ())
    assert (newest(store), left(store)) == (again, [again])
    assert store.begin(1) == "step-1.2"
    with store.open(again, "tensors", "rb") as stream:
        assert len(stream.read()) == 20


def test_keep_counts_complete_ones_and_the_best_is_kept_beside_them(store: CheckpointStore) -> None:
    for step in range(1, 7):
        save(store, step, keep=2, best_first=(9, 2, 1))  # step 9 was evaluated, but its checkpoint got lost
    assert left(store) == ["step-2", "step-5", "step-6"]


def test_no_checkpoint_at_all(store: CheckpointStore) -> None:
    assert newest(store) is None


saved = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2)), max_size=12, unique=True)


@given(saved=saved, keep=st.integers(1, 4), best_first=st.lists(st.integers(0, 9), unique=True))
def test_the_last_ones_and_the_best_are_never_let_go(
    saved: list[tuple[int, int]], keep: int, best_first: list[int]
) -> None:
    checkpoints = [Saved(True, step, again) for step, again in saved]
    kept = set(checkpoints) - set(superfluous(checkpoints, keep, best_first))
    steps = sorted({step for step, _ in saved})
    present = [step for step in best_first if step in steps]
    assert {checkpoint.step for checkpoint in kept} == set(steps[-keep:]) | set(present[:1])
    assert all(checkpoint.again == max(a for s, a in saved if s == checkpoint.step) for checkpoint in kept)
    assert len(kept) <= keep + 1


def save_in_warmup(store: CheckpointStore, step: int) -> str:
    name = store.begin(step, in_warmup=True)
    store.commit(name, CheckpointState(step, "sft", step), keep=2, best_first=())
    return name


def test_of_the_warm_up_the_last_checkpoint_stays_until_the_main_phase_has_one(store: CheckpointStore) -> None:
    assert [save_in_warmup(store, step) for step in (9, 10, 10)] == ["warmup-9", "warmup-10", "warmup-10.1"]
    assert (newest(store), left(store)) == ("warmup-10.1", ["warmup-10.1"])
    with store.open(store.begin(0), "tensors", "wb") as stream:
        stream.write(b"half")
    assert newest(store) == "warmup-10.1"
    save(store, 0)
    assert left(store) == ["step-0"]
    save(store, 1)
    assert left(store) == ["step-0", "step-1"]


def test_half_a_checkpoint_of_the_warm_up_is_rubbish(store: CheckpointStore) -> None:
    with store.open(store.begin(3, in_warmup=True), "tensors", "wb") as stream:
        stream.write(b"half")
    assert newest(store) is None
    save_in_warmup(store, 4)
    assert left(store) == ["warmup-4"]


@pytest.mark.parametrize("url", ["nowhere://bucket/run", "no-such-kind://x"])
def test_storage_that_nobody_knows_is_the_users_to_mend(url: str) -> None:
    with pytest.raises(UnsupportedError, match=r"checkpoint\.url: .* cannot be opened"):
        CheckpointStore(url)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of 256 KiB."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(tmp_path)], check=True)
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_is_a_typed_error_and_spares_the_last_checkpoint(small_disk: Path) -> None:
    store = CheckpointStore(str(small_disk))
    save(store, 1, size=100_000)
    with pytest.raises(StorageFullError, match=r"storage\.size"):
        save(store, 2, size=500_000)
    assert newest(store) == "step-1"
    save(store, 3, size=20_000)
    assert newest(store) == "step-3"


def test_a_read_only_disk_is_a_typed_error_and_spares_the_last_checkpoint(small_disk: Path) -> None:
    store = CheckpointStore(str(small_disk))
    save(store, 1)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(StorageReadOnlyError, match="mount the run's volume for writing"):
        save(store, 2)
    assert newest(store) == "step-1"


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
        await learner.save_checkpoint(1, {})
        with pytest.raises(StorageFullError):
            await learner.settle_checkpoint()
        assert await learner.load_latest() is None
        with pytest.raises(StorageFullError):
            await learner.save_weights(1)
    finally:
        await learner.stop()

"""A checkpoint that says it is complete and is not whole is named, with what removing it would cost."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sweyard_trainer.atomic_directory import COMPLETE
from sweyard_trainer.checkpoint.damage import typed_damage
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.errors import CheckpointDamagedError, RankDiedError
from sweyard_trainer.learner.build import make_learner


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def replace(path: Path) -> None:
    path.write_text('{"a": 1}')


DAMAGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "state cut off": ("state.json", cut),
    "state zeroed": ("state.json", zero),
    "state gone": ("state.json", Path.unlink),
    "state of another program": ("state.json", replace),
    "tensors cut off": ("tensors/__0_0.distcp", cut),
    "tensors gone": ("tensors/__0_0.distcp", Path.unlink),
    "list of tensors zeroed": ("tensors/.metadata", zero),
    "list of tensors cut off": ("tensors/.metadata", cut),
    "list of tensors gone": ("tensors/.metadata", Path.unlink),
    "random state cut off": ("random-0.pt", cut),
}


async def test_a_damaged_checkpoint_is_named_with_the_one_before_it(make_spec, storage: Path, make_trajectory) -> None:
    learner = make_learner(make_spec(), storage, num_threads=1)
    await learner.start()
    checkpoints = storage / "checkpoints"
    for step in (1, 2):
        await learner.train_step([[make_trajectory(seed % 2, seed=seed) for seed in range(4)]])
        await learner.save_checkpoint(step, {"cursor": step})
    await learner.settle_checkpoint()
    whole = shutil.copytree(checkpoints, storage / "whole")
    for damage, (file, change) in DAMAGES.items():
        shutil.rmtree(checkpoints)
        shutil.copytree(whole, checkpoints)
        change(checkpoints / "step-2" / file)
        with pytest.raises(CheckpointDamagedError) as told:
            await learner.load_latest()
        assert str(checkpoints / "step-2") in str(told.value), damage
        assert str(told.value).endswith("remove it, and the run goes on from step-1"), damage
        shutil.rmtree(checkpoints / "step-2")
        assert await learner.load_latest() == (1, {"cursor": 1}), damage
    await learner.stop()


def test_without_another_checkpoint_the_run_begins_anew(tmp_path: Path) -> None:
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / COMPLETE).touch()
    store = CheckpointStore(str(tmp_path))
    with (
        pytest.raises(CheckpointDamagedError, match="remove it, and the run begins anew"),
        typed_damage(store, "step-1"),
    ):
        store.read_state("step-1")


@pytest.mark.parametrize(
    "error",
    [OSError("no answer"), torch.OutOfMemoryError("full"), RankDiedError("gone")],
    ids=["a disk", "memory", "another rank"],
)
def test_what_another_try_may_mend_is_no_damage(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as raised, typed_damage(CheckpointStore(str(tmp_path)), "step-1"):
        raise error
    assert raised.value is error

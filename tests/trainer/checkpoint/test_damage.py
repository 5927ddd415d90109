"""A checkpoint that says it is complete and is not whole: the one before it serves, and none is no beginning."""

import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import torch

from sweyard_api.constants import EXIT_CODE_USER_FAULT
from sweyard_trainer.checkpoint.damage import typed_damage
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.errors import CheckpointDamagedError, RankDiedError
from sweyard_trainer.exit_codes import exit_code_of
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.learner import Learner


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def zero(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def replace(path: Path) -> None:
    path.write_text('{"a": 1}')


def turn_a_bit(path: Path) -> None:
    """In the middle, as a disk does that says nothing of it."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


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
    "attempts under way cut off": ("held.parquet", cut),
    "a bit of the tensors turned": ("tensors/__0_0.distcp", turn_a_bit),
    "a bit of the list of tensors turned": ("tensors/.metadata", turn_a_bit),
    "a bit of the random state turned": ("random-0.pt", turn_a_bit),
    "a bit of the attempts under way turned": ("held.parquet", turn_a_bit),
    "a bit of the state turned": ("state.json", turn_a_bit),
    "a bit of the checksums turned": ("checksums.json", turn_a_bit),
}


@pytest.fixture
async def trained(make_spec, storage: Path, make_trajectory) -> AsyncIterator[Learner]:
    """Steps 1 and 2 are saved."""
    learner = make_learner(make_spec(), storage, num_threads=1)
    await learner.start()
    for step in (1, 2):
        groups = [[make_trajectory(seed % 2, seed=seed) for seed in range(4)]]
        await learner.train_step(groups)
        await learner.save_checkpoint(step, {"cursor": step}, held=groups[0])
    await learner.settle_checkpoint()
    yield learner
    await learner.stop()


async def test_a_run_goes_on_from_the_one_before_a_damaged_checkpoint_which_is_removed(
    trained: Learner, storage: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = storage / "checkpoints"
    whole = shutil.copytree(checkpoints, storage / "whole")
    for damage, (file, change) in DAMAGES.items():
        shutil.rmtree(checkpoints)
        shutil.copytree(whole, checkpoints)
        change(checkpoints / "step-2" / file)
        caplog.clear()
        assert await trained.load_latest() == (1, {"cursor": 1}), damage
        assert f"checkpoint {checkpoints / 'step-2'} is damaged (" in caplog.text, damage
        assert [path.name for path in checkpoints.iterdir()] == ["step-1"], damage


async def test_every_file_of_a_checkpoint_has_its_checksum_and_one_of_an_earlier_version_loads_without(
    trained: Learner, storage: Path
) -> None:
    newest = storage / "checkpoints" / "step-2"
    files = {str(path.relative_to(newest)) for path in newest.rglob("*") if path.is_file()}
    assert json.loads((newest / "checksums.json").read_text()).keys() == files - {"checksums.json", "COMPLETE"}
    (newest / "checksums.json").unlink()
    assert await trained.load_latest() == (2, {"cursor": 2})


async def test_a_run_whose_checkpoints_are_all_damaged_does_not_begin_anew(trained: Learner, storage: Path) -> None:
    checkpoints = storage / "checkpoints"
    for step in (1, 2):
        zero(checkpoints / f"step-{step}" / "state.json")
    with pytest.raises(CheckpointDamagedError) as told:
        await trained.load_latest()
    assert str(told.value).startswith(
        f"checkpoint {checkpoints / 'step-2'} is damaged (ChecksumError: state.json is not as it was written)"
    )
    assert str(told.value).endswith(f"none before it can be read: remove {checkpoints}, and the run begins anew")
    assert exit_code_of(told.value) == EXIT_CODE_USER_FAULT
    assert sorted(path.name for path in checkpoints.iterdir()) == ["step-1", "step-2"]


@pytest.mark.parametrize(
    "error",
    [OSError("no answer"), torch.OutOfMemoryError("full"), RankDiedError("gone")],
    ids=["a disk", "memory", "another rank"],
)
def test_what_another_try_may_mend_is_no_damage(tmp_path: Path, error: Exception) -> None:
    with pytest.raises(type(error)) as raised, typed_damage(CheckpointStore(str(tmp_path)), "step-1"):
        raise error
    assert raised.value is error

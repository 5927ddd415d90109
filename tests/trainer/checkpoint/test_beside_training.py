"""A checkpoint is written beside training, through storage that takes its time or fails."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from safetensors.torch import load_file

from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.errors import CheckpointError
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.learner import Learner


class Bucket(MemoryFileSystem):
    """Object storage that writes only while its gate is open, and says no while it is broken."""

    protocol = "bucket"
    gate = threading.Event()
    broken = False

    @classmethod
    def _strip_protocol(cls, path: Any) -> str:
        return str(super()._strip_protocol(str(path).removeprefix("bucket://")))

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        if mode == "wb":
            self.gate.wait(60)
            if Bucket.broken:
                raise PermissionError("the bucket denies access")
        return super().open(path, mode, **options)


@pytest.fixture
def bucket() -> Iterator[str]:
    fsspec.register_implementation("bucket", Bucket, clobber=True)
    Bucket.gate.set()
    Bucket.broken = False
    yield f"bucket://{uuid4()}"
    Bucket.gate.set()


@pytest.fixture
async def learner(make_spec, storage: Path, bucket: str):
    learner = make_learner(make_spec(checkpoint={"keep": 1}), storage, num_threads=1, checkpoints=bucket)
    await learner.start()
    yield learner
    await learner.stop()


async def train(learner: Learner, make_trajectory, version: int) -> dict[str, Any]:
    """One step and the weights after it."""
    await learner.train_step([[make_trajectory(seed % 2, seed=seed) for seed in range(4)]])
    return load_file(await learner.save_weights(version) / "model.safetensors")


def same(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    return all(bool((ours[name] == theirs[name]).all()) for name in theirs)


async def test_training_goes_on_while_it_is_written_and_it_holds_the_moment_of_the_save(
    learner: Learner, bucket: str, make_trajectory
) -> None:
    await train(learner, make_trajectory, 1)
    Bucket.gate.clear()
    await learner.save_checkpoint(1, {"cursor": 1})
    undisturbed = await train(learner, make_trajectory, 2)
    assert not await learner.settle_checkpoint(wait=False)
    assert not CheckpointStore(bucket).complete()
    Bucket.gate.set()
    assert await learner.settle_checkpoint()
    assert await learner.load_latest() == (1, {"cursor": 1})
    assert same(await train(learner, make_trajectory, 3), undisturbed)


async def test_the_next_save_and_the_end_wait_for_the_one_before(learner: Learner, bucket: str) -> None:
    Bucket.gate.clear()
    await learner.save_checkpoint(1, {})
    threading.Timer(0.2, Bucket.gate.set).start()
    await learner.save_checkpoint(2, {})
    assert CheckpointStore(bucket).complete()[-1].name in ("step-1", "step-2")
    await learner.stop()
    assert CheckpointStore(bucket).complete()[-1].name == "step-2"


async def test_a_write_that_fails_is_told_in_a_sentence_and_spares_the_last_checkpoint(
    learner: Learner, bucket: str
) -> None:
    await learner.save_checkpoint(1, {"of": 1})
    await learner.settle_checkpoint()
    Bucket.broken = True
    await learner.save_checkpoint(2, {})
    with pytest.raises(
        CheckpointError, match=r"step-2 could not be written, the one before it is kept: .* denies access"
    ):
        await learner.settle_checkpoint()
    Bucket.broken = False
    assert await learner.load_latest() == (1, {"of": 1})
    await learner.save_checkpoint(3, {})
    await learner.settle_checkpoint()
    assert CheckpointStore(bucket)._names() == ["step-3"]

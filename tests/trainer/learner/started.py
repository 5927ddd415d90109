"""A learner of one rank in this process, for as long as a test needs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.learner.build import make_learner
from sweyard_trainer.learner.learner import Learner


@asynccontextmanager
async def started(spec: TrainingRunSpec, storage: Path) -> AsyncIterator[Learner]:
    learner = make_learner(spec, storage, num_threads=1)
    try:
        await learner.start()
        yield learner
    finally:
        await learner.stop()

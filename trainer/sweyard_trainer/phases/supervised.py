"""Supervised learning from demonstrations: the warm-up before reinforcement learning, and the steps of mode: sft."""

import asyncio
import time

from sweyard_trainer.demonstrations.batches import draw_batch
from sweyard_trainer.metrics import prefixed
from sweyard_trainer.phases.life import Life
from sweyard_trainer.phases.saving import CheckpointKeeper
from sweyard_trainer.trajectory import Segment


class Supervised:
    """Steps on demonstrations, which are made when the first of them needs them."""

    def __init__(self, life: Life, checkpoints: CheckpointKeeper) -> None:
        self._life = life
        self._checkpoints = checkpoints
        self._demonstrations: list[Segment] | None = None

    @property
    def warms_up(self) -> bool:
        """Whether the run has a warm-up, done or not."""
        return self._life.spec.mode == "rl" and self._life.spec.warmup is not None

    async def warm_up(self) -> bool:
        """All steps of the warm-up that are left; False if it is over, or there is none."""
        life, warmup = self._life, self._life.spec.warmup
        if not self.warms_up or warmup is None or life.state.warmed_up:
            return False
        progress = life.run.progress
        progress.update(phase="warmup", message="warm-up: preparing demonstrations")
        demonstrations = await self._prepared()
        progress.update(message=f"warm-up: {warmup.steps} steps on {len(demonstrations)} demonstrations")
        for step in range(life.state.warmup_step, warmup.steps):
            began = time.monotonic()
            batch = draw_batch(demonstrations, step, warmup.batch_size, life.spec.seed)
            await life.run.weight_sync.rest()
            figures = await life.run.learner.sft_step(batch)
            life.state.warmup_step = step + 1
            life.write_metrics("warmup", step + 1, prefixed("warmup", figures))
            told = f"warm-up: step {step + 1} of {warmup.steps}, loss {figures['loss']:.3f}"
            progress.advance("warmup", 1, time.monotonic() - began, message=told)
            await self._checkpoints.after_warmup_step()
            life.stop.heed()
        life.state.warmed_up = True
        life.state.weight_version += 1
        return True

    async def step(self) -> dict[str, float]:
        """One step of mode sft; its figures. Raises DemonstrationFileError."""
        life, sft = self._life, self._life.spec.sft
        assert sft is not None, "mode sft without sft is refused when the config is resolved"
        number = life.state.step + 1
        began = time.monotonic()
        if self._demonstrations is None:
            life.run.progress.update(phase="sft", message="reading trajectories")
        demonstrations = await self._prepared()
        message = f"step {number}: training on {len(demonstrations)} trajectories"
        life.run.progress.update(phase="sft", message=message)
        batch = draw_batch(demonstrations, life.state.step, sft.batch_size, life.spec.seed)
        await life.run.weight_sync.rest()
        figures = await life.run.learner.sft_step(batch)
        return {**prefixed("train", figures), "time/train_seconds": time.monotonic() - began}

    async def _prepared(self) -> list[Segment]:
        if self._demonstrations is None:
            self._demonstrations = await asyncio.to_thread(self._life.run.demonstrations)
        return self._demonstrations

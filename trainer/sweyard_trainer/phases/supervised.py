"""Supervised learning from demonstrations: the warm-up before reinforcement learning, and the steps of mode: sft."""

import asyncio
import time

from sweyard_trainer.metrics import prefixed
from sweyard_trainer.phases.life import Life
from sweyard_trainer.trajectory import Segment
from sweyard_trainer.warmup import draw_batch


class Supervised:
    """Steps on demonstrations, which are made when the first of them needs them."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._demonstrations: list[Segment] | None = None

    @property
    def warms_up(self) -> bool:
        """Whether the run has a warm-up, done or not."""
        return self._life.spec.mode == "rl" and self._life.spec.warmup is not None

    async def warm_up(self) -> bool:
        """All steps of the warm-up; False if there is none to do."""
        life, warmup = self._life, self._life.spec.warmup
        if not self.warms_up or warmup is None or life.state.warmed_up:
            return False
        progress = life.run.progress
        progress.update(phase="warmup", message="warm-up: preparing demonstrations")
        demonstrations = await self._prepared()
        progress.update(message=f"warm-up: {warmup.steps} steps on {len(demonstrations)} demonstrations")
        for step in range(warmup.steps):
            began = time.monotonic()
            batch = draw_batch(demonstrations, step, warmup.batch_size, life.spec.seed)
            figures = await life.run.learner.sft_step(batch)
            life.write_metrics("warmup", step + 1, prefixed("warmup", figures))
            told = f"warm-up: step {step + 1} of {warmup.steps}, loss {figures['loss']:.3f}"
            progress.advance("warmup", 1, time.monotonic() - began, message=told)
            life.stop.heed()
        life.state.warmed_up = True
        life.state.weight_version += 1
        return True

    async def step(self) -> dict[str, float]:
        """One step of mode: sft; its figures."""
        spec = self._life.spec
        size = spec.warmup.batch_size if spec.warmup else spec.rollout.groups_per_step * spec.rollout.group_size
        batch = draw_batch(await self._prepared(), self._life.state.step, size, spec.seed)
        return prefixed("train", await self._life.run.learner.sft_step(batch))

    async def _prepared(self) -> list[Segment]:
        if self._demonstrations is None:
            self._demonstrations = await asyncio.to_thread(self._life.run.demonstrations)
        return self._demonstrations

"""CheckpointKeeper: loads the last checkpoint and writes new ones beside training, each step's at most once.

In the warm-up, whose steps take a second rather than minutes, time decides: one that is short costs no checkpoint, and
a crash no more than WARMUP_SECONDS_AT_STAKE of a long one.

A checkpoint is told of once it is complete. One that could not be written ends the life with its sentence, at the next
step at the latest; the next life goes on from the one before.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_trainer.phases.life import Life

logger = logging.getLogger(__name__)

WARMUP_SECONDS_AT_STAKE = 600.0


class CheckpointKeeper:
    """The checkpoints of one life."""

    def __init__(self, life: Life, warmup_seconds_at_stake: float) -> None:
        self._life = life
        self._warmup_seconds_at_stake = warmup_seconds_at_stake
        self._saved: tuple[bool, int] | None = None
        """The position last saved or loaded."""
        self._saved_warmup_seconds = 0.0
        self._begun: str | None = None
        """Where the checkpoint lies that is being written."""

    async def load(self) -> None:
        """Go on from the last complete checkpoint, if there is one."""
        found = await self._life.run.learner.load_latest()
        if found is None:
            self._life.resume(None)
            return
        _, saved = found
        self._life.resume(saved, await self._life.run.learner.load_held())
        self._note_saved()
        logger.info("going on %s from its checkpoint", self._life.position())

    async def after_step(self, last_step: int, *, wanted: bool) -> None:
        """Save where it is `wanted`, or the config wants it, after the last step, and when evaluation has never been
        better."""
        await self._settle(wait=False)
        step = self._life.state.step
        is_best = self._best_first()[:1] == [step]
        if wanted or step % self._life.spec.checkpoint.every_steps == 0 or step == last_step or is_best:
            await self.save()

    async def after_warmup_step(self) -> None:
        """Save if too much of the warm-up would be lost."""
        await self._settle(wait=False)
        if self._warmup_seconds() - self._saved_warmup_seconds >= self._warmup_seconds_at_stake:
            await self.save()

    async def save(self) -> None:
        """Save now, unless there is nothing to lose or it is saved; `finish` says when it is complete."""
        life = self._life
        state = life.state
        untrained = state.step == 0 and state.warmup_step == 0 and not state.warmed_up
        if life.spec.mode == "eval" or untrained or self._saved == self._position():
            return
        await self._settle(wait=True)
        state.cursor, state.backlog = life.cursor.state(), life.backlog.state()
        state.metrics_rows = life.metrics_rows
        state.seconds = life.run.progress.seconds()
        in_warmup, step = self._position()
        self._begun = await life.run.learner.save_checkpoint(
            step, state.to_dict(), self._best_first(), held=life.backlog.attempts, in_warmup=in_warmup
        )
        self._note_saved()

    async def finish(self) -> None:
        """Wait for the one that is being written, and say which is the best."""
        await self._settle(wait=True)
        for step in self._best_first()[:1]:
            self._life.run.progress.update(best_checkpoint_step=step)

    async def _settle(self, *, wait: bool) -> None:
        if self._begun is None or not await self._life.run.learner.settle_checkpoint(wait=wait):
            return
        name = self._begun.removeprefix(f"{self._life.run.storage}/")
        self._begun = None
        assert self._saved is not None, "noted when it was begun"
        in_warmup, step = self._saved
        self._life.run.progress.update(last_checkpoint=name, last_checkpoint_step=0 if in_warmup else step)

    def _position(self) -> tuple[bool, int]:
        """Whether it is in the warm-up, and the step of its phase."""
        state = self._life.state
        return state.in_warmup, state.warmup_step if state.in_warmup else state.step

    def _note_saved(self) -> None:
        self._saved, self._saved_warmup_seconds = self._position(), self._warmup_seconds()

    def _warmup_seconds(self) -> float:
        return self._life.run.progress.seconds()["warmup"]

    def _best_first(self) -> list[int]:
        spec = self._life.spec
        if spec.checkpoint.best_by is None:
            return []
        return steps_by_score(self._life.state.evaluations, spec.checkpoint.best_by, spec.steps)


def steps_by_score(evaluations: Mapping[str, Sequence[Mapping[str, Any]]], source: str, last_step: int) -> list[int]:
    """Steps after which `source` was evaluated and which have weights to keep, the best first; of equals the first.

    `evaluations` are LoopState's: reports by label.
    """
    scores = {
        _step_of(label, last_step): report["solved_fraction"]
        for label, reports in evaluations.items()
        for report in reports
        if label != "untrained" and report["source"] == source
    }
    return sorted(scores, key=lambda step: (-scores[step], step))


def _step_of(label: str, last_step: int) -> int:
    named = {"warmed-up": 0, "final": last_step}
    return named[label] if label in named else int(label.removeprefix("step-"))

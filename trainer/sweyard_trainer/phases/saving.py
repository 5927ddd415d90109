"""CheckpointKeeper: loads the last checkpoint and writes new ones, each step's at most once."""

import logging

from sweyard_trainer.phases.life import Life

logger = logging.getLogger(__name__)


class CheckpointKeeper:
    """The checkpoints of one life."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._saved_step = -1

    async def load(self) -> None:
        """Go on from the last complete checkpoint, if there is one."""
        found = await self._life.run.learner.load_latest()
        if found is None:
            self._life.resume(None)
            return
        self._saved_step, saved = found
        self._life.resume(saved)
        logger.info("going on after step %d from its checkpoint", self._saved_step)

    async def after_step(self, last_step: int) -> None:
        """Save where the config wants it, and after the last step."""
        step = self._life.state.step
        if step % self._life.spec.checkpoint.every_steps == 0 or step == last_step:
            await self.save()

    async def save(self) -> None:
        """Save now, unless there is nothing to lose or it is saved."""
        life = self._life
        state = life.state
        untrained = state.step == 0 and not state.warmed_up
        if life.spec.mode == "eval" or untrained or self._saved_step == state.step:
            return
        state.cursor, state.backlog = life.cursor.state(), life.backlog.state()
        state.metrics_rows = life.metrics_rows
        state.seconds = life.run.progress.seconds()
        path = await life.run.learner.save_checkpoint(state.step, state.to_dict())
        self._saved_step = state.step
        name = str(path.relative_to(life.run.storage))
        life.run.progress.update(last_checkpoint=name, last_checkpoint_step=state.step)

"""TaskVerifier: tasks are trained on once their gold patch has passed and their empty patch has failed."""

import logging

from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.rollout.plan import TaskCursor
from sweyard_trainer.rollout.pool import WorkerPool

logger = logging.getLogger(__name__)

VERIFICATION_FAILURES = 10
"""So many tasks in a row that cannot be verified for infrastructure's sake end the run's attempt."""


class TaskVerifier:
    """Judges each task once; faulty ones are set aside for ever."""

    def __init__(self, pool: WorkerPool, cursor: TaskCursor, verified: set[str]) -> None:
        """`verified`: ids of tasks known to be sound; more are added."""
        self._pool = pool
        self._cursor = cursor
        self._verified = verified
        self._failures = 0

    async def accepts(self, task: Task) -> bool:
        """Whether to train on it now. Raises InfrastructureError when too many in a row cannot be verified."""
        if task.id in self._verified:
            return True
        try:
            fault = await self._pool.verify_twice(task)
        except InfrastructureError as error:
            self._failures += 1
            if self._failures == VERIFICATION_FAILURES:
                raise
            logger.warning("task %s could not be verified now, another is drawn: %s", task.id, error)
            return False
        self._failures = 0
        if fault is None:
            self._verified.add(task.id)
            return True
        logger.warning("task %s is set aside: %s", task.id, fault)
        self._cursor.set_aside.add(task.id)
        return False

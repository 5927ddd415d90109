"""Demonstrations of an agent's scripted solver."""

import random
from collections.abc import Sequence

from sweyard_sandbox.agents.protocol import Agent
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.demonstrations.chats import chat_segment
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.rollout.plan import derive_seed
from sweyard_trainer.trajectory import Segment

DEMONSTRATIONS_PER_TASK = 8
"""Each a different draw of the script."""


def scripted_demonstrations(
    tasks: Sequence[Task], agent: Agent, renderer: ChatRenderer, *, correct_fraction: float, seed: int
) -> list[Segment]:
    """Several for each task; a share of `correct_fraction` of all solves its task.

    Raises UnsupportedError for a task that the solver has no script for.
    """
    total = len(tasks) * DEMONSTRATIONS_PER_TASK
    correct = [index < round(correct_fraction * total) for index in range(total)]
    random.Random(derive_seed(seed, "correct")).shuffle(correct)
    owners = [task for task in tasks for _ in range(DEMONSTRATIONS_PER_TASK)]
    scripts = (
        agent.scripted(task, correct=right, seed=derive_seed(seed, number))
        for number, (task, right) in enumerate(zip(owners, correct, strict=True))
    )
    try:
        return [chat_segment(messages, renderer) for messages in scripts]
    except NotImplementedError as error:
        raise UnsupportedError(
            f"warmup.demonstrations is `scripted`, but {error}: choose other tasks by warmup.tasks, set "
            "warmup.demonstrations to `dataset`, or warmup.steps to 0"
        ) from error

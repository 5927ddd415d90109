"""A user's own reward: reward(task: Task, attempt: Trajectory) -> float.

Called for every attempt that did not fail for infrastructure's sake, with outcome, patch, official verdict, grading log
and transcript filled in and the config's reward in place; one call at a time, each within reward.timeoutSeconds.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from sweyard_api.workload import MAX_REWARD, Reward
from sweyard_sandbox.custom_code import CustomCodeError, load_function, users_faults
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.daemon_thread import in_daemon_thread
from sweyard_trainer.trajectory import Trajectory

Rewarded = Callable[[Task, Trajectory], Awaitable[Trajectory]]
"""Gives an attempt its reward. Raises CustomCodeError."""


async def as_configured(task: Task, attempt: Trajectory) -> Trajectory:
    """The attempt unchanged."""
    return attempt


def load_reward(reward: Reward) -> Rewarded:
    """The user's where the config names a function, else `as_configured`.

    A function that hangs is left behind in a thread of its own, which keeps neither other attempts nor the process.
    """
    if reward.function is None:
        return as_configured
    function = load_function("reward.function", reward.function, "task, attempt")
    called, seconds, turn = f"reward.function: {reward.function!r}", reward.timeout_seconds, asyncio.Lock()

    async def rewarded(task: Task, attempt: Trajectory) -> Trajectory:
        async with turn:
            with users_faults(f"{called} failed on task {task.id!r}"):
                call = in_daemon_thread(function, task, attempt)
                done, _ = await asyncio.wait({call}, timeout=seconds)
                if not done:
                    raise CustomCodeError(
                        f"{called} took more than the {seconds:g} s of reward.timeoutSeconds on task {task.id!r}: mend "
                        "it, or raise that"
                    )
                value = call.result()
        return replace(attempt, reward=_reward(called, task, value))

    return rewarded


def _reward(called: str, task: Task, value: Any) -> float:
    try:
        number = None if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        number = None
    if number is None or not abs(number) <= MAX_REWARD:
        raise CustomCodeError(
            f"{called} returned {value!r} on task {task.id!r}; it must be a number from -{MAX_REWARD:g} to "
            f"{MAX_REWARD:g}"
        )
    return number

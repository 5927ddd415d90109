"""A user's own reward, called beside the event loop and held to a number."""

import asyncio
import math
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sweyard_api.workload import Reward
from sweyard_sandbox.custom_code import CustomCodeError
from sweyard_sandbox.errors import FailureReason, InfrastructureError
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.rollout.reward import load_reward
from sweyard_trainer.trajectory import Trajectory

ATTEMPT = Trajectory("1/t/0", "t", "1/t", (), "solved", 1.0)  # type: ignore[arg-type]
TASK = Task.model_construct(id="t")


@pytest.fixture
def rewarding() -> Iterator[Callable[..., Any]]:
    """What gives attempts the reward of a function."""
    module = ModuleType("users_reward")
    sys.modules["users_reward"] = module

    def make(function: Callable[[Any, Any], Any], seconds: float = 60) -> Any:
        module.mine = function  # type: ignore[attr-defined]
        return load_reward(Reward.model_construct(function="users_reward:mine", timeout_seconds=seconds))

    yield make
    del sys.modules["users_reward"]


@pytest.mark.parametrize("value", [0.5, 1, True, np.float32(0.5), np.array(-3.0), -1e6], ids=repr)
async def test_a_number_becomes_the_reward(rewarding: Callable[..., Any], value: Any) -> None:
    assert (await rewarding(lambda task, attempt: value)(TASK, ATTEMPT)).reward == float(value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1e7, 1e300, None, "0.5", b"1", [1.0, 2.0], {}], ids=repr)
async def test_anything_else_is_the_users_fault(rewarding: Callable[..., Any], value: Any) -> None:
    with pytest.raises(CustomCodeError) as caught:
        await rewarding(lambda task, attempt: value)(TASK, ATTEMPT)
    assert str(caught.value) == (
        f"reward.function: 'users_reward:mine' returned {value!r} on task 't'; it must be a number from -1e+06 to 1e+06"
    )


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), SystemExit(0), TimeoutError("mine"), InfrastructureError(FailureReason.ERROR, "x")],
    ids=repr,
)
async def test_what_it_raises_is_the_users_fault(rewarding: Callable[..., Any], error: BaseException) -> None:
    def raises(task: Task, attempt: Trajectory) -> float:
        raise error

    with pytest.raises(CustomCodeError, match=f"failed on task 't' by {type(error).__name__}: "):
        await rewarding(raises)(TASK, ATTEMPT)


async def test_one_that_hangs_ends_the_run_and_holds_up_nothing(rewarding: Callable[..., Any]) -> None:
    forever, threads = threading.Event(), []

    def hangs(task: Task, attempt: Trajectory) -> float:
        threads.append(threading.current_thread())
        forever.wait()
        return 0.0

    with pytest.raises(CustomCodeError, match=r"took more than the 0.01 s of reward.timeoutSeconds on task 't'"):
        await rewarding(hangs, seconds=0.01)(TASK, ATTEMPT)
    assert threads[0].daemon, "the process ends without it"
    forever.set()
    threads[0].join()


async def test_calls_come_one_after_the_other(rewarding: Callable[..., Any]) -> None:
    under_way, most = [], []

    def counts(task: Task, attempt: Trajectory) -> float:
        under_way.append(attempt.attempt_id)
        most.append(len(under_way))
        under_way.remove(attempt.attempt_id)
        return float(attempt.attempt_id)

    reward = rewarding(counts)
    attempts = [replace(ATTEMPT, attempt_id=str(number)) for number in range(20)]
    rewarded = await asyncio.gather(*(reward(TASK, attempt) for attempt in attempts))
    assert [attempt.reward for attempt in rewarded] == list(map(float, range(20)))
    assert max(most) == 1


async def test_without_a_function_the_configs_own_stays() -> None:
    assert await load_reward(Reward())(TASK, ATTEMPT) is ATTEMPT

"""A user's own reward, estimator, group filter and agent, with the example that ships."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sweyard_api.algorithm import Algorithm
from sweyard_api.workload import Agent as AgentSpec
from sweyard_api.workload import Reward
from sweyard_sandbox.agents.protocol import AgentEnd, FinishReason, Message, Reply
from sweyard_sandbox.agents.registry import make_agent
from sweyard_sandbox.custom_code import CustomCodeError, load_function
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.custom import check_custom_code, load_estimator, load_group_filter, load_reward
from sweyard_trainer.learner.batches import build_attempts

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom"
MODULE = """
import math
NUMBER = 3
def takes_nothing(): return 0.0
def infinite(task, attempt): return math.inf
def forgetful(task, attempt): return {}[task.id]
def too_few(groups): return groups[1:]
def not_finite(groups): return [rewards / rewards for rewards in groups]
async def patient(task, attempt): return 0.0
"""
TASK = Task.model_construct(id="t", problem_statement="mend it")


@pytest.fixture(autouse=True)
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "users_code.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(EXAMPLE))
    yield
    for name in ("users_code", "swe_custom"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        pytest.param("no_such_module:f", "cannot be imported", id="module"),
        pytest.param("users_code:missing", "users_code has no missing", id="name"),
        pytest.param("users_code:NUMBER", "must be a plain function", id="not-a-function"),
        pytest.param("users_code:patient", "must be a plain function", id="coroutine"),
        pytest.param("users_code:takes_nothing", "must take \\(task, attempt\\)", id="signature"),
    ],
)
def test_code_that_cannot_be_used_is_one_sentence_with_its_field(path: str, sentence: str) -> None:
    with pytest.raises(CustomCodeError, match=f"^reward.function: '{path}' .*{sentence}"):
        load_function("reward.function", path, "task, attempt")


@pytest.mark.parametrize(
    "sections",
    [
        pytest.param({"reward": {"function": "users_code:missing"}}, id="reward"),
        pytest.param({"algorithm": {"estimator": "custom", "estimatorFunction": "users_code:missing"}}, id="estimator"),
        pytest.param({"algorithm": {"groupFilter": "users_code:missing"}}, id="filter"),
        pytest.param({"agent": {"type": "custom", "factory": "users_code:missing"}}, id="agent"),
    ],
)
def test_every_kind_is_checked_at_the_start(make_spec: Any, sections: dict[str, Any]) -> None:
    with pytest.raises(CustomCodeError, match="has no missing"):
        check_custom_code(make_spec(**sections))


def test_a_run_without_custom_code_passes(make_spec: Any) -> None:
    check_custom_code(make_spec())


def test_the_examples_reward_halves_long_patches(make_trajectory: Any) -> None:
    reward = load_reward(Reward(function="swe_custom:short_patches"))
    attempt = make_trajectory(1)
    assert reward(TASK, attempt).reward == 1
    long = type(attempt)(**{name: getattr(attempt, name) for name in attempt.__slots__} | {"patch": "+\n" * 41})
    assert reward(TASK, long).reward == 0.5
    assert load_reward(Reward())(TASK, attempt) is attempt


@pytest.mark.parametrize(
    ("name", "sentence"), [("infinite", "returned inf"), ("forgetful", "failed on task 't' by KeyError: 't'")]
)
def test_a_reward_that_is_none_is_the_users_fault(make_trajectory: Any, name: str, sentence: str) -> None:
    with pytest.raises(CustomCodeError, match=f"^reward.function: 'users_code:{name}' {sentence}"):
        load_reward(Reward(function=f"users_code:{name}"))(TASK, make_trajectory(1))


def test_the_examples_estimator_gives_the_advantages(make_trajectory: Any) -> None:
    # Rewards 5, 1, 1: two below and none above; twice none below and one above; over 2 x 2.
    algorithm = Algorithm(estimator="custom", estimator_function="swe_custom:ranks")
    group = [make_trajectory(reward, seed=seed) for seed, reward in enumerate((5, 1, 1))]
    attempts = build_attempts([group], [[5.0, 1.0, 1.0]], algorithm)
    assert [attempt.advantage for attempt in attempts] == [0.5, -0.25, -0.25]
    assert load_estimator(Algorithm()) is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("too_few", "one advantage for each reward"), ("not_finite", "not finite")],
    ids=["shape", "finite"],
)
def test_an_estimators_answer_is_checked(name: str, sentence: str) -> None:
    estimate = load_estimator(Algorithm(estimator="custom", estimator_function=f"users_code:{name}"))
    assert estimate is not None
    with pytest.raises(CustomCodeError, match=sentence):
        estimate([torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])])


def test_the_examples_filter_leaves_out_groups_cut_short(make_trajectory: Any) -> None:
    cut = [make_trajectory(0, outcome=Outcome.TRUNCATED)]
    mixed = [*cut, make_trajectory(1)]
    kept = load_group_filter(Algorithm(group_filter="swe_custom:not_all_truncated"))([cut, mixed])
    assert kept == [mixed]
    assert load_group_filter(Algorithm())([cut]) == [cut]


class OneReply:
    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        assert messages == [Message("user", "mend it")]
        return Reply("done", FinishReason.STOP, 1)


def test_the_examples_agent_is_made_by_its_factory() -> None:
    agent = make_agent(AgentSpec(type="custom", factory="swe_custom:one_turn"))

    async def turns() -> list[Any]:
        return [turn async for turn in agent.run(TASK, OneReply(), None)]  # type: ignore[arg-type]

    (turn,) = asyncio.run(turns())
    assert (turn.reply.content, turn.end) == ("done", AgentEnd.FINISHED)

"""A user's own estimator, group filter and agent, with the example that ships; its reward is held to
more in rollout/test_reward.py."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
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
from sweyard_trainer.custom import check_custom_code, load_estimator, load_group_filter
from sweyard_trainer.learner.batches import build_attempts
from sweyard_trainer.rollout.reward import load_reward

EXAMPLE = Path(__file__).parents[3] / "examples" / "custom"
MODULE = """
NUMBER = 3
def takes_nothing(): return 0.0
def too_few(groups): return groups[1:]
def transposed(groups): return [rewards[None] for rewards in groups]
def whole(groups): return 0.0
def of_text(groups): return ["ab" for rewards in groups]
def forgetful(groups): return {}["mean"]
def leaving(groups): exit(0)
def not_finite(groups): return [rewards / rewards for rewards in groups]
def enormous(groups): return [rewards * 1e300 for rewards in groups]
def enormously_small(groups): return [rewards - 1e9 for rewards in groups]
def as_large_as_may_be(groups): return [rewards / rewards.abs() * 1e6 for rewards in groups]
def lists(groups): return [(rewards - 1).tolist() for rewards in groups]
def no_answer(group): return None
class Silent:
    def run(self, task, session, sandbox): ...
def silent(spec): return Silent()
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
        pytest.param("builtins:max", "must take .*no signature", id="unknown-signature"),
        pytest.param("users_code:takes_nothing", "must take \\(task, attempt\\)", id="signature"),
    ],
)
def test_code_that_cannot_be_used_is_one_sentence_with_its_field(path: str, sentence: str) -> None:
    with pytest.raises(CustomCodeError, match=f"^reward.function: '{path}' .*{sentence}"):
        load_function("reward.function", path, "task, attempt")


@pytest.mark.parametrize(
    ("code", "said"),
    [("def f(:", "SyntaxError: invalid syntax"), ("1 / 0", "ZeroDivisionError"), ("exit(0)", "SystemExit: 0")],
    ids=["syntax", "raises", "exits"],
)
def test_a_module_that_fails_on_import_is_named(tmp_path: Path, code: str, said: str) -> None:
    (tmp_path / "broken_code.py").write_text(code)
    with pytest.raises(CustomCodeError, match=f"'broken_code:f' fails when broken_code is imported, by {said}"):
        load_function("reward.function", "broken_code:f", "task, attempt")


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


SCRIPTED = {"steps": 1, "demonstrations": "scripted"}


def test_an_agent_that_shows_how_is_imitated_by_a_scripted_warm_up(make_spec: Any) -> None:
    agent = {"type": "custom", "factory": "swe_custom:one_turn"}
    check_custom_code(make_spec(agent=agent, warmup=SCRIPTED))


def test_one_that_does_not_is_refused_at_the_start(make_spec: Any) -> None:
    agent = {"type": "custom", "factory": "users_code:silent"}
    with pytest.raises(CustomCodeError, match=r"users_code:silent' returned an agent without `scripted`.*steps to 0"):
        check_custom_code(make_spec(agent=agent, warmup=SCRIPTED))
    check_custom_code(make_spec(agent=agent))


async def test_the_examples_reward_halves_long_patches(make_trajectory: Any) -> None:
    reward = load_reward(Reward(function="swe_custom:short_patches"))
    assert (await reward(TASK, make_trajectory(1))).reward == 1
    assert (await reward(TASK, replace(make_trajectory(1), patch="+\n" * 41))).reward == 0.5


def test_the_examples_estimator_gives_the_advantages(make_trajectory: Any) -> None:
    # Rewards 5, 1, 1: two below and none above; twice none below and one above; over 2 x 2.
    algorithm = Algorithm(estimator="custom", estimator_function="swe_custom:ranks")
    group = [make_trajectory(reward, seed=seed) for seed, reward in enumerate((5, 1, 1))]
    attempts = build_attempts([group], [[5.0, 1.0, 1.0]], algorithm)
    assert [attempt.advantage for attempt in attempts] == [0.5, -0.25, -0.25]
    assert load_estimator(Algorithm()) is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param(
            "too_few",
            r"returned advantages of the shapes \[\[2\]\] for rewards of \[\[2\], \[2\]\]; it must return one",
            id="group",
        ),
        pytest.param(
            "transposed",
            r"returned advantages of the shapes \[\[1, 2\], \[1, 2\]\] for rewards of \[\[2\], \[2\]\]",
            id="shape",
        ),
        pytest.param("whole", "failed by TypeError: 'float' object is not iterable", id="number"),
        pytest.param("of_text", "failed by (TypeError|ValueError)", id="text"),
        pytest.param("forgetful", "failed by KeyError: 'mean'", id="raises"),
        pytest.param("leaving", "failed by SystemExit: 0", id="exits"),
        pytest.param("not_finite", "returned an advantage that is not a number from -1e", id="not-a-number"),
        pytest.param("enormous", "returned an advantage that is not a number from -1e", id="huge"),
        pytest.param("enormously_small", "returned an advantage that is not a number from -1e", id="huge below zero"),
    ],
)
def test_an_estimators_answer_is_checked(name: str, sentence: str) -> None:
    estimate = load_estimator(Algorithm(estimator="custom", estimator_function=f"users_code:{name}"))
    assert estimate is not None
    with pytest.raises(CustomCodeError, match=f"^algorithm.estimatorFunction: 'users_code:{name}' {sentence}"):
        estimate([torch.tensor([1.0, 2.0]), torch.tensor([0.0, 1.0])])


def test_advantages_may_be_anything_that_is_a_tensor_to_torch() -> None:
    estimate = load_estimator(Algorithm(estimator="custom", estimator_function="users_code:lists"))
    assert estimate is not None
    assert [own.tolist() for own in estimate([torch.tensor([1.0, 2.0])])] == [[0.0, 1.0]]


def test_the_largest_advantages_are_taken() -> None:
    estimate = load_estimator(Algorithm(estimator="custom", estimator_function="users_code:as_large_as_may_be"))
    assert estimate is not None
    assert [own.tolist() for own in estimate([torch.tensor([1.0, -2.0])])] == [[1e6, -1e6]]


def test_custom_code_can_be_refused_without_pytorch() -> None:
    command = "import sys, sweyard_trainer.custom; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "sentence"), [("no_answer", "returned None; it must return True"), ("forgetful", "failed by KeyError")]
)
def test_a_filters_answer_is_checked(make_trajectory: Any, name: str, sentence: str) -> None:
    keep = load_group_filter(Algorithm(group_filter=f"users_code:{name}"))
    with pytest.raises(CustomCodeError, match=f"^algorithm.groupFilter: 'users_code:{name}' {sentence}"):
        keep([[make_trajectory(1)]])


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

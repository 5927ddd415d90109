import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from sweyard_operator.testing.virtual_time import run_in_virtual_time
from sweyard_sandbox.agents.protocol import AgentEnd
from sweyard_sandbox.custom_code import CustomCodeError
from sweyard_sandbox.errors import CommandMayHaveRunError, FailureReason, InfrastructureError, SandboxEndedError
from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import EngineUnfitError
from sweyard_trainer.gateway.rendering import TemplateUnfitError
from sweyard_trainer.rollout.attempt import AttemptRules, run_attempt
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.trajectory import Trajectory

RULES = AttemptRules(5, 0.2, 5, 2, True, 1.0, 0.0)
INFRA = InfrastructureError(FailureReason.NODE_LOST, "gone")
PASS, OFFICIAL_ONLY, FAIL = Grade(True, True), Grade(True, False), Grade(False, False)


@pytest.fixture
def plan(make_plan: Callable[[], AttemptPlan]) -> AttemptPlan:
    return make_plan()


@pytest.mark.parametrize(
    ("end", "grade", "outcome", "reward", "official"),
    [
        pytest.param(AgentEnd.FINISHED, PASS, Outcome.SOLVED, 1.0, True, id="solved"),
        pytest.param(AgentEnd.FINISHED, FAIL, Outcome.UNSOLVED, 0.0, False, id="unsolved"),
        pytest.param(AgentEnd.FINISHED, OFFICIAL_ONLY, Outcome.UNSOLVED, 0.0, True, id="only official"),
        pytest.param(AgentEnd.MAX_TURNS, PASS, Outcome.MAX_TURNS, 0.0, True, id="out of turns"),
        pytest.param(AgentEnd.TRUNCATED, FAIL, Outcome.TRUNCATED, 0.0, False, id="out of tokens"),
        pytest.param("hang", FAIL, Outcome.AGENT_TIMEOUT, 0.0, False, id="out of time"),
        pytest.param(AgentEnd.ERROR, PASS, Outcome.AGENT_ERROR, 0.0, None, id="agent failed"),
        pytest.param(None, PASS, Outcome.AGENT_ERROR, 0.0, None, id="agent said nothing"),
        pytest.param(INFRA, PASS, Outcome.ENV_INFRA, 0.0, None, id="sandbox died"),
        pytest.param(CommandMayHaveRunError("x"), PASS, Outcome.ENV_INFRA, 0.0, None, id="channel lost"),
        pytest.param(SandboxEndedError(), PASS, Outcome.AGENT_ERROR, 0.0, None, id="agent ended its sandbox"),
        pytest.param(KeyError("oops"), PASS, Outcome.ENV_INFRA, 0.0, None, id="bug of ours"),
        pytest.param(AgentEnd.FINISHED, INFRA, Outcome.EVAL_INFRA, 0.0, None, id="grading died"),
    ],
)
async def test_every_attempt_ends_in_one_typed_outcome(
    make_bench: Callable[..., Any],
    plan: AttemptPlan,
    end: Any,
    grade: Any,
    outcome: Outcome,
    reward: float,
    official: Any,
) -> None:
    bench = make_bench(end, grades=[grade])
    trajectory = await run_attempt(plan, bench.workbench, RULES, "n")
    assert (trajectory.outcome, trajectory.reward, trajectory.official) == (outcome, reward, official)
    assert not any(sandbox.open for sandbox in bench.runtime.sandboxes)
    assert not bench.sessions.open


async def test_time_that_runs_out_while_the_engine_is_away_is_no_failure_of_the_policy(
    make_bench: Callable[..., Any], plan: AttemptPlan
) -> None:
    bench = make_bench("hang")
    bench.sessions.failure = "http://e gave no answer: 503"
    trajectory = await run_attempt(plan, bench.workbench, RULES, "n")
    assert (trajectory.outcome, trajectory.infra_reason) == (
        Outcome.ENV_INFRA,
        "EngineUnavailable: http://e gave no answer: 503",
    )


async def test_the_data_sets_own_rule_can_be_the_reward(make_bench: Callable[..., Any], plan: AttemptPlan) -> None:
    bench = make_bench(AgentEnd.FINISHED, grades=[OFFICIAL_ONLY])
    trajectory = await run_attempt(plan, bench.workbench, replace(RULES, strict=False), "n")
    assert (trajectory.outcome, trajectory.reward) == (Outcome.SOLVED, 1.0)


async def test_infrastructure_failures_are_tried_again_on_fresh_sandboxes_and_sessions(
    make_bench: Callable[..., Any], plan: AttemptPlan
) -> None:
    bench = make_bench(AgentEnd.FINISHED, failures=2)
    assert (await run_attempt(plan, bench.workbench, RULES, "n")).outcome is Outcome.SOLVED
    assert bench.sessions.opened == ["1/t/0@n-2"]


async def test_beyond_the_retries_the_reason_is_kept(make_bench: Callable[..., Any], plan: AttemptPlan) -> None:
    bench = make_bench(AgentEnd.FINISHED, failures=3)
    trajectory = await run_attempt(plan, bench.workbench, RULES, "n")
    assert (trajectory.outcome, trajectory.infra_reason) == (Outcome.ENV_INFRA, "Evicted: node pressure")


async def test_grading_alone_is_tried_again(make_bench: Callable[..., Any], plan: AttemptPlan) -> None:
    bench = make_bench(AgentEnd.FINISHED, grades=[INFRA, INFRA, PASS])
    assert (await run_attempt(plan, bench.workbench, RULES, "n")).outcome is Outcome.SOLVED
    assert (len(bench.runtime.sandboxes), len(bench.graded)) == (1, 3)


@pytest.mark.parametrize(
    ("refusals", "outcome"),
    [
        pytest.param(3, Outcome.SOLVED, id="an engine comes back"),
        pytest.param(100, Outcome.ENV_INFRA, id="none does within the deadline"),
    ],
)
def test_an_attempt_waits_to_begin_while_no_engine_serves_and_is_never_scored_for_it(
    make_bench: Callable[..., Any], plan: AttemptPlan, refusals: int, outcome: Outcome
) -> None:
    bench = make_bench(AgentEnd.FINISHED, grades=[PASS])
    bench.sessions.refusals_left = refusals
    rules = replace(RULES, engine_deadline_seconds=60.0, infra_retries=0)
    trajectory = run_in_virtual_time(run_attempt(plan, bench.workbench, rules, "n"))
    assert trajectory.outcome is outcome
    assert not bench.sessions.open


@pytest.mark.parametrize(
    "error", [EngineUnfitError("no ids"), TemplateUnfitError("no system"), CustomCodeError("no turn")], ids=repr
)
async def test_what_would_meet_every_attempt_ends_the_run(
    make_bench: Callable[..., Any], plan: AttemptPlan, error: Exception
) -> None:
    bench = make_bench(error)
    with pytest.raises(type(error), match=str(error)):
        await run_attempt(plan, bench.workbench, RULES, "n")
    assert not bench.runtime.sandboxes[0].open


async def test_a_users_reward_that_fails_ends_the_run(make_bench: Callable[..., Any], plan: AttemptPlan) -> None:
    async def reward(task: Task, attempt: Trajectory) -> Trajectory:
        raise CustomCodeError("no reward")

    bench = make_bench(AgentEnd.FINISHED)
    with pytest.raises(CustomCodeError, match="no reward"):
        await run_attempt(plan, bench.workbench, replace(RULES, reward=reward), "n")
    assert not any(sandbox.open for sandbox in bench.runtime.sandboxes)


async def test_a_cancelled_attempt_gives_its_sandbox_and_session_back(
    make_bench: Callable[..., Any], plan: AttemptPlan
) -> None:
    bench = make_bench("hang")
    task = asyncio.create_task(run_attempt(plan, bench.workbench, replace(RULES, agent_timeout_seconds=60), "n"))
    while not bench.sessions.open:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not bench.runtime.sandboxes[0].open
    assert not bench.sessions.open


async def test_the_conversation_is_kept_for_people(make_bench: Callable[..., Any], plan: AttemptPlan) -> None:
    trajectory: Trajectory = await run_attempt(plan, make_bench(AgentEnd.FINISHED).workbench, RULES, "n")
    assert trajectory.transcript == [
        {"role": "user", "content": "broken"},
        {"role": "assistant", "content": "reply"},
    ]
    assert trajectory.timings.keys() == {"claim", "model", "sandbox", "grading", "total"}

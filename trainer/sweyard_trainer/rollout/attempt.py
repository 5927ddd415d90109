"""One attempt: claim a sandbox, let the agent work, take its patch, grade it in a fresh sandbox.

Every wait has a deadline, every sandbox is given back in a `finally`, and every attempt ends in a Trajectory with a
typed outcome. Infrastructure failures are tried again on fresh sandboxes and, beyond that, masked.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from sweyard_sandbox.agents.protocol import Agent, AgentEnd, ChatSession, Message
from sweyard_sandbox.custom_code import CustomCodeError
from sweyard_sandbox.errors import FailureReason, InfrastructureError, SandboxEndedError
from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.runtime import Runtime, Sandbox
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import EngineError, EngineUnfitError
from sweyard_trainer.gateway.client import GatewayClient
from sweyard_trainer.gateway.rendering import TemplateUnfitError
from sweyard_trainer.gateway.session import SessionRecord
from sweyard_trainer.rollout.observed import Timings, observed
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.rollout.reward import Rewarded, as_configured
from sweyard_trainer.rollout.traces import Trace, no_trace
from sweyard_trainer.trajectory import Trajectory

logger = logging.getLogger(__name__)

T = TypeVar("T")

GRADING_MARGIN_SECONDS = 60.0
"""Beyond the tests' own timeout: claiming the grading sandbox and applying the patch."""
ENGINE_RETRY_SECONDS = 5.0

OUTCOME_OF_END = {
    AgentEnd.MAX_TURNS: Outcome.MAX_TURNS,
    AgentEnd.TRUNCATED: Outcome.TRUNCATED,
    AgentEnd.TIMEOUT: Outcome.AGENT_TIMEOUT,
    AgentEnd.ERROR: Outcome.AGENT_ERROR,
}


@dataclass(frozen=True, slots=True)
class AttemptRules:
    """The numbers that bound an attempt, and what its end is worth."""

    claim_deadline_seconds: float
    agent_timeout_seconds: float
    grading_timeout_seconds: float
    infra_retries: int
    strict: bool
    reward_solved: float
    reward_unsolved: float
    engine_deadline_seconds: float = 0.0
    """How long an attempt waits to begin while no engine serves."""
    reward: Rewarded = as_configured
    """Gives an attempt that was scored the user's own reward."""


@dataclass(frozen=True, slots=True)
class Workbench:
    """What an attempt is made with. All of it is shared by the attempts of one worker."""

    runtime: Runtime
    gateway: GatewayClient
    agent: Agent
    acquire: Callable[[Task, float], Awaitable[Sandbox]]
    """A fresh sandbox in the state in which the agent finds its task, before so many seconds are over."""
    extract_patch: Callable[[Task, Sandbox], Awaitable[str]]
    """What the agent changed, as a patch."""
    grade: Callable[[Task, str], Awaitable[Grade]]
    """Grade a patch in a fresh sandbox."""
    grade_patiently: Callable[[Task, str], Awaitable[Grade]]
    """The same with a longer limit, for tasks whose verification took too long."""
    grade_regressions: Callable[[Task, str], Awaitable[Grade]]
    """The same for tasks whose failing tests were taken away; the two must not share what they remember."""
    trace: Trace = no_trace
    """Told of each attempt that has ended."""


@dataclass(slots=True)
class Work:
    """What the agent did."""

    patch: str
    end: AgentEnd | None
    record: SessionRecord
    transcript: list[Message]


async def run_attempt(plan: AttemptPlan, bench: Workbench, rules: AttemptRules, nonce: str) -> Trajectory:
    """The whole attempt. `nonce` makes its gateway sessions unique over restarts.

    Raises EngineUnfitError, TemplateUnfitError and CustomCodeError alone: they would meet every attempt.
    """
    began = time.monotonic()
    timings = Timings()
    try:
        trajectory = await _attempt(plan, bench, rules, nonce, timings)
    except (EngineUnfitError, TemplateUnfitError, CustomCodeError):
        raise
    except Exception as error:  # a bug of ours must cost one attempt, not the step, and must never be scored
        logger.exception("attempt %s failed by a bug", plan.attempt_id)
        trajectory = masked(plan, Outcome.ENV_INFRA, f"bug: {type(error).__name__}: {error}")
    timings.add("total", began)
    trajectory.timings.update(timings.seconds)
    bench.trace(trajectory, timings.intervals)
    return trajectory


async def _attempt(
    plan: AttemptPlan, bench: Workbench, rules: AttemptRules, nonce: str, timings: Timings
) -> Trajectory:
    try:
        work = await _retried(rules.infra_retries, lambda retry: _work(plan, bench, rules, f"{nonce}-{retry}", timings))
    except InfrastructureError as error:
        return masked(plan, Outcome.ENV_INFRA, str(error))
    outcome = Outcome.AGENT_ERROR if work.end is None else OUTCOME_OF_END.get(work.end)
    if outcome is Outcome.AGENT_ERROR:
        return await rules.reward(plan.task, _trajectory(plan, work, outcome, rules.reward_unsolved, None))
    try:
        grade = await _retried(rules.infra_retries, lambda retry: _grade(plan.task, work.patch, bench, rules, timings))
    except InfrastructureError as error:
        return masked(plan, Outcome.EVAL_INFRA, str(error), work)
    solved = outcome is None and (grade.strict if rules.strict else grade.official)
    outcome = outcome or (Outcome.SOLVED if solved else Outcome.UNSOLVED)
    reward = rules.reward_solved if solved else rules.reward_unsolved
    return await rules.reward(plan.task, _trajectory(plan, work, outcome, reward, grade))


async def _work(plan: AttemptPlan, bench: Workbench, rules: AttemptRules, nonce: str, timings: Timings) -> Work:
    """One try on one sandbox."""
    began = time.monotonic()
    sandbox = await bench.acquire(plan.task, rules.claim_deadline_seconds)
    timings.add("claim", began)
    try:
        began = time.monotonic()
        model_before = timings.seconds["model"]
        work = await _converse(plan, bench, rules, sandbox, nonce, timings)
        try:
            work.patch = await bench.extract_patch(plan.task, sandbox)
        except SandboxEndedError:  # by what the agent left running
            work.end = None
        timings.add("sandbox", began)
        timings.seconds["sandbox"] -= timings.seconds["model"] - model_before
        return work
    finally:
        await sandbox.close()


async def _converse(
    plan: AttemptPlan, bench: Workbench, rules: AttemptRules, sandbox: Sandbox, nonce: str, timings: Timings
) -> Work:
    """Let the agent work in a session of its own, which is finished whatever happens.

    Raises InfrastructureError also for an agent whose time ran out while its engine gave no answer.
    """
    session_id = f"{plan.attempt_id}@{nonce}"
    session = observed(await _open_session(plan, bench, rules, session_id), timings)
    end: AgentEnd | None = None
    output = ""
    try:
        async with asyncio.timeout(rules.agent_timeout_seconds):
            async for turn in bench.agent.run(plan.task, session, sandbox):
                end, output = turn.end, turn.observation
    except TimeoutError:
        end = AgentEnd.TIMEOUT
    except SandboxEndedError:
        end = None
    finally:
        record = await bench.gateway.finish_session(session_id)
    if end is AgentEnd.TIMEOUT and record.failure:
        raise InfrastructureError(FailureReason.ENGINE, record.failure)
    if session.messages or not output:
        return Work("", end, record, session.messages or list(record.messages))
    return _programs_work(end, record, output)


def _programs_work(end: AgentEnd | None, record: SessionRecord, output: str) -> Work:
    """Of an agent that is a program of its own: its session knows what it said, and why it was told no more.

    Raises InfrastructureError for one that had no engine to answer it, or ended by itself without a word to the model:
    it could not begin.
    """
    if record.failure:
        raise InfrastructureError(FailureReason.ENGINE, record.failure)
    if not record.messages and end in (AgentEnd.FINISHED, AgentEnd.ERROR) and not record.truncated:
        raise InfrastructureError(FailureReason.ERROR, f"the agent never called the model: {output[-1_000:]}")
    if record.spent:
        end = AgentEnd.MAX_TURNS if record.spent == "calls" else AgentEnd.TIMEOUT
    elif record.truncated and end is not None:
        end = AgentEnd.TRUNCATED
    return Work("", end, record, [*record.messages, Message("tool", output)])


async def _open_session(plan: AttemptPlan, bench: Workbench, rules: AttemptRules, session_id: str) -> ChatSession:
    """Waits while no engine serves: their absence is the run's to mend, and not the attempt's to fail by."""
    clock = asyncio.get_running_loop().time
    give_up_at = clock() + rules.engine_deadline_seconds
    while True:
        try:
            return await bench.gateway.open_session(session_id, temperature=plan.temperature, seed=plan.seed)
        except EngineError:
            if clock() >= give_up_at:
                raise
        await asyncio.sleep(ENGINE_RETRY_SECONDS)


async def _grade(task: Task, patch: str, bench: Workbench, rules: AttemptRules, timings: Timings) -> Grade:
    began = time.monotonic()
    deadline = rules.grading_timeout_seconds + GRADING_MARGIN_SECONDS
    try:
        async with asyncio.timeout(deadline):
            return await bench.grade(task, patch)
    except TimeoutError as error:
        raise InfrastructureError(FailureReason.ERROR, f"grading gave no verdict in {deadline:g} s") from error
    finally:
        timings.add("grading", began)


async def _retried(retries: int, work: Callable[[int], Awaitable[T]]) -> T:
    """`work` again on infrastructure failures, at most `retries` times."""
    retry = 0
    while True:
        try:
            return await work(retry)
        except InfrastructureError as error:
            if retry == retries:
                raise
            logger.warning("infrastructure failure, trying again on a fresh sandbox: %s", error)
        retry += 1


def masked(plan: AttemptPlan, outcome: Outcome, reason: str, work: Work | None = None) -> Trajectory:
    """An attempt that says nothing about the policy."""
    return _trajectory(plan, work, outcome, 0.0, None, reason)


def _trajectory(
    plan: AttemptPlan, work: Work | None, outcome: Outcome, reward: float, grade: Grade | None, reason: str = ""
) -> Trajectory:
    return Trajectory(
        attempt_id=plan.attempt_id,
        task_id=plan.task.id,
        group_id=plan.group_id,
        segments=work.record.segments if work else (),
        outcome=outcome,
        reward=reward,
        official=grade.official if grade else None,
        temperature=plan.temperature,
        transcript=[{"role": message.role, "content": message.content} for message in work.transcript] if work else [],
        patch=work.patch if work else "",
        grading_log="\n".join((*grade.reasons, grade.log)) if grade else "",
        infra_reason=reason,
    )

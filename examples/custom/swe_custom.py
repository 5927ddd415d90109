"""Your own reward, estimator, group filter and agent: copy, change, and name them in trainingrun.yaml.

The module must be importable where the trainer runs: installed in trainer.image, or on a laptop on PYTHONPATH.
"""

from collections.abc import AsyncIterator, Sequence

import torch
from torch import Tensor

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.loop import Limits
from sweyard_sandbox.agents.protocol import Agent, AgentEnd, ChatSession, Message, Turn
from sweyard_sandbox.agents.short.agent import ShortAgent
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.trajectory import Trajectory

LONG_PATCH_LINES = 40


def short_patches(task: Task, attempt: Trajectory) -> float:
    """The config's reward, halved for a patch of more than 40 lines."""
    return attempt.reward / 2 if attempt.patch.count("\n") > LONG_PATCH_LINES else attempt.reward


def ranks(groups: Sequence[Tensor]) -> list[Tensor]:
    """Each reward's centred rank in its group, from -0.5 to 0.5; equal rewards share theirs."""
    return [_centred_ranks(rewards) for rewards in groups]


def _centred_ranks(rewards: Tensor) -> Tensor:
    below = (rewards[None] < rewards[:, None]).sum(1)
    above = (rewards[None] > rewards[:, None]).sum(1)
    return (below - above).to(torch.float64) / (2 * max(1, len(rewards) - 1))


def not_all_truncated(group: Sequence[Trajectory]) -> bool:
    """True if at least one attempt came to an end of its own."""
    return any(attempt.outcome is not Outcome.TRUNCATED for attempt in group)


class OneTurnAgent:
    """The model speaks once and nothing is done: a frame to fill."""

    async def run(self, task: Task, session: ChatSession, sandbox: Sandbox) -> AsyncIterator[Turn]:
        """See Agent."""
        reply = await session.chat([Message("user", task.problem_statement)])
        yield Turn(reply, end=AgentEnd.FINISHED)

    def scripted(self, task: Task, *, correct: bool, seed: int) -> list[Message]:
        """See Agent."""
        return ShortAgent(Limits(max_turns=1, timeout_seconds=60)).scripted(task, correct=correct, seed=seed)


def one_turn(spec: AgentSpec) -> Agent:
    """What `agent: {type: custom, factory: ...}` calls with its own section."""
    return OneTurnAgent()

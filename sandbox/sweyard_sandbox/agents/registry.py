"""The agent that a run's config names."""

from collections.abc import Mapping

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.bash.agent import BashAgent
from sweyard_sandbox.agents.debugger.agent import PdbAgent
from sweyard_sandbox.agents.free import FreeAgent
from sweyard_sandbox.agents.loop import Limits
from sweyard_sandbox.agents.protocol import Agent
from sweyard_sandbox.agents.r2e.agent import R2eAgent
from sweyard_sandbox.agents.rewrite.agent import RewriteAgent
from sweyard_sandbox.agents.short.agent import ShortAgent

FREE_AGENTS: Mapping[str, type[FreeAgent]] = {kind.type: kind for kind in (R2eAgent, BashAgent, PdbAgent, RewriteAgent)}


def make_agent(spec: AgentSpec) -> Agent:
    """Build it. Raises NotImplementedError for a type that this version lacks."""
    limits = Limits(max_turns=spec.max_turns, timeout_seconds=spec.timeout_seconds)
    if spec.type == "short":
        return ShortAgent(limits)
    if (kind := FREE_AGENTS.get(spec.type)) is not None:
        return kind(limits, step_timeout_seconds=spec.step_timeout_seconds, shell=spec.shell)
    raise NotImplementedError(f"agent.type: {spec.type!r} is not part of this version; use another type of agent")

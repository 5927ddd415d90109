"""The agent that a run's config names."""

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.loop import Limits
from sweyard_sandbox.agents.protocol import Agent
from sweyard_sandbox.agents.short.agent import ShortAgent


def make_agent(spec: AgentSpec) -> Agent:
    """Build it. Raises NotImplementedError for a type that this version lacks."""
    limits = Limits(max_turns=spec.max_turns, timeout_seconds=spec.timeout_seconds)
    if spec.type == "short":
        return ShortAgent(limits)
    raise NotImplementedError(f"agent.type: {spec.type!r} is not part of this version; use `short` or `r2e`")

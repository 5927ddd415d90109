"""The agent that a run's config names."""

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.bash.agent import BashAgent
from sweyard_sandbox.agents.debugger.agent import PdbAgent
from sweyard_sandbox.agents.loop import Limits
from sweyard_sandbox.agents.protocol import Agent
from sweyard_sandbox.agents.r2e.agent import R2eAgent
from sweyard_sandbox.agents.rewrite.agent import RewriteAgent
from sweyard_sandbox.agents.short.agent import ShortAgent


def make_agent(spec: AgentSpec) -> Agent:
    """Build it. Raises NotImplementedError for a type that this version lacks."""
    limits = Limits(max_turns=spec.max_turns, timeout_seconds=spec.timeout_seconds)
    if spec.type == "short":
        return ShortAgent(limits)
    if spec.type == "r2e":
        return R2eAgent(limits, step_timeout_seconds=spec.step_timeout_seconds)
    if spec.type == "bash":
        return BashAgent(limits, step_timeout_seconds=spec.step_timeout_seconds)
    if spec.type == "pdb":
        return PdbAgent(limits, step_timeout_seconds=spec.step_timeout_seconds, shell=spec.shell)
    if spec.type == "rewrite":
        return RewriteAgent(limits, step_timeout_seconds=spec.step_timeout_seconds, shell=spec.shell)
    raise NotImplementedError(f"agent.type: {spec.type!r} is not part of this version; use another type of agent")

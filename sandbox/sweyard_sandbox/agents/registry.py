"""The agent that a run's config names."""

from collections.abc import Callable, Mapping

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.bash.agent import BashAgent
from sweyard_sandbox.agents.debugger.agent import PdbAgent
from sweyard_sandbox.agents.free import FreeAgent
from sweyard_sandbox.agents.loop import Limits
from sweyard_sandbox.agents.protocol import Agent
from sweyard_sandbox.agents.r2e.agent import R2eAgent
from sweyard_sandbox.agents.rewrite.agent import RewriteAgent
from sweyard_sandbox.agents.short.agent import ShortAgent
from sweyard_sandbox.custom_code import load_function

FREE_AGENTS: Mapping[str, type[FreeAgent]] = {kind.type: kind for kind in (R2eAgent, BashAgent, PdbAgent, RewriteAgent)}


def make_agent(spec: AgentSpec) -> Agent:
    """Build it. Raises CustomCodeError; NotImplementedError for a type that this version lacks."""
    if spec.type == "custom":
        return load_agent_factory(spec)(spec)
    limits = Limits(max_turns=spec.max_turns, timeout_seconds=spec.timeout_seconds)
    if spec.type == "short":
        return ShortAgent(limits)
    if (kind := FREE_AGENTS.get(spec.type)) is not None:
        return kind(limits, step_timeout_seconds=spec.step_timeout_seconds, shell=spec.shell)
    raise NotImplementedError(f"agent.type: {spec.type!r} is not part of this version; use another type of agent")


def load_agent_factory(spec: AgentSpec) -> Callable[[AgentSpec], Agent]:
    """The user's own. Raises CustomCodeError."""
    assert spec.factory is not None, "a custom agent without a factory is refused when the config is resolved"
    return load_function("agent.factory", spec.factory, "spec")

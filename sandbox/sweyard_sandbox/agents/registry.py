"""The agent that a run's config names."""

from collections.abc import Callable, Mapping

from sweyard_api.workload import Agent as AgentSpec
from sweyard_sandbox.agents.bash.agent import BashAgent
from sweyard_sandbox.agents.cli.agent import CliAgent
from sweyard_sandbox.agents.custom import CustomAgent
from sweyard_sandbox.agents.debugger.agent import PdbAgent
from sweyard_sandbox.agents.free import FreeAgent
from sweyard_sandbox.agents.loop import Limits
from sweyard_sandbox.agents.protocol import Agent
from sweyard_sandbox.agents.r2e.agent import R2eAgent
from sweyard_sandbox.agents.rewrite.agent import RewriteAgent
from sweyard_sandbox.agents.short.agent import ShortAgent
from sweyard_sandbox.custom_code import load_function, users_faults

FREE_AGENTS: Mapping[str, type[FreeAgent]] = {kind.type: kind for kind in (R2eAgent, BashAgent, PdbAgent, RewriteAgent)}


def make_agent(spec: AgentSpec) -> Agent:
    """Build it. Raises CustomCodeError, TemplateError."""
    if spec.type == "custom":
        factory, called = load_agent_factory(spec), f"agent.factory: {spec.factory!r}"
        with users_faults(f"{called} failed"):
            return CustomAgent(factory(spec), called)
    limits = Limits(max_turns=spec.max_turns, timeout_seconds=spec.timeout_seconds)
    if spec.type == "cli":
        return CliAgent(spec.command, float(spec.timeout_seconds), spec.environment, spec.files)
    if spec.type == "short":
        return ShortAgent(limits)
    return FREE_AGENTS[spec.type](
        limits, step_timeout_seconds=spec.step_timeout_seconds, shell=spec.shell, native_calls=spec.native_calls
    )


def load_agent_factory(spec: AgentSpec) -> Callable[[AgentSpec], Agent]:
    """The user's own. Raises CustomCodeError."""
    assert spec.factory is not None, "a custom agent without a factory is refused when the config is resolved"
    return load_function("agent.factory", spec.factory, "spec")

"""Attempts by qwen-code itself against a scripted engine, and what must be true of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.scripted_attempts import BROKEN, FIXED, TESTS, make_workbench

from sweyard_api.presets import load_preset
from sweyard_sandbox.agents.cli.agent import CliAgent
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.client import GatewayClient
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits
from sweyard_trainer.gateway.tool_calls import CoderForm, ToolCall
from sweyard_trainer.model.tokenizer import learn_tokenizer
from sweyard_trainer.rollout.attempt import AttemptRules, run_attempt
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.trajectory import Trajectory

VERSION = "0.15.10"
"""That images/qwen-code installs."""
PRESET = "qwen3-coder-30b-django"
TOOLS = "/opt/tools"
"""Where the preset's command looks for it."""
SECONDS = 300.0
TEMPLATE = (
    "{% if tools %}<|system|>{% for tool in tools %}{{ tool | tojson }}{% endfor %}"
    "<tool_call><function=x><parameter=y>z</parameter></function></tool_call><|end|>{% endif %}"
)
CALLS = (
    ToolCall("read_file", {"absolute_path": "/testbed/till.py"}),
    ToolCall("run_shell_command", {"command": "sed -i 's/-=/+=/' till.py", "is_background": False}),
)
FORM = CoderForm()


@dataclass
class ScriptedModel:
    """Both calls at once in the first reply, words in the second; remembers what it sent."""

    renderer: ChatRenderer
    sent: list[int] = field(default_factory=list)
    prompt_characters: int = 0
    """Of its first prompt: mostly the agent's own instructions."""

    def __call__(self, prompt: Sequence[int], seed: int) -> Sequence[int]:
        told = self.renderer.text(prompt)
        self.prompt_characters = self.prompt_characters or len(told)
        is_done = "<|tool|>" in told
        text = "The total is right now." if is_done else FORM.render("I look at the module, and repair it.", CALLS)
        ids = self.renderer.reply_ids(text)
        self.sent += ids
        return ids


class UntiringEngine(FakeEngine):
    """Keeps no prompts: they are long."""

    async def complete(self, prompt_ids: Sequence[int], **options: Any) -> Completion:
        completion = await super().complete(prompt_ids, **options)
        self.prompts.clear()
        return completion


def make_renderer() -> ChatRenderer:
    """Of a tokenizer that knows what is said, and a chat template that teaches the form of Qwen3-Coder's calls."""
    tokenizer = learn_tokenizer([FIXED, BROKEN, TESTS, FORM.render("", CALLS)], 2_000, 1_000_000)
    tokenizer.chat_template = TEMPLATE + str(tokenizer.chat_template)
    return ChatRenderer(tokenizer)


def make_gateway(renderer: ChatRenderer) -> Gateway:
    turns = load_preset(PRESET).spec["agent"]["maxTurns"]
    return Gateway(renderer, Limits(200_000, 400_000, 10_000, max_calls=turns, max_seconds=SECONDS))


async def attempt(task: Task, runtime: Runtime, gateway: GatewayClient, tools: str, number: int) -> Trajectory:
    """One attempt with the preset's own agent, which lies in `tools`."""
    spec = load_preset(PRESET).spec["agent"]
    command = [word.replace(TOOLS, tools) for word in spec["command"]]
    await gateway.use_weights(0)
    bench = make_workbench(runtime, gateway, CliAgent(command, SECONDS, files=spec["files"]), grading_seconds=SECONDS)
    rules = AttemptRules(SECONDS, SECONDS, SECONDS, 0, True, 1.0, 0.0)
    try:
        return await run_attempt(AttemptPlan(f"1/till/{number}", "1/till", task, 1.0, number), bench, rules, "only")
    finally:
        await gateway.close()


def is_wrong(attempt: Trajectory, model: ScriptedModel) -> bool:
    """Whether something of it is not as it must be, which is printed."""
    wrong = problems(attempt, model.sent)
    told = f"{len(model.sent)} tokens sampled, a first prompt of {model.prompt_characters} characters"
    print(f"{attempt.attempt_id}: {'; '.join(wrong) or attempt.outcome}, {told}", flush=True)
    if wrong:
        print("\n".join(f"{turn['role']}: {turn['content'][-2_000:]}" for turn in attempt.transcript[-3:]))
    return bool(wrong)


def problems(attempt: Trajectory, sent: Sequence[int]) -> list[str]:
    """What of it is not as it must be."""
    said = []
    if attempt.outcome is not Outcome.SOLVED:
        said.append(f"{attempt.outcome}: {attempt.infra_reason or attempt.grading_log}")
    if len(attempt.segments) != 1:
        said.append(f"{len(attempt.segments)} sequences: its history forked")
    recorded = [
        int(token) for segment in attempt.segments for token in segment.token_ids[np.asarray(segment.loss_mask)]
    ]
    if recorded != list(sent):
        said.append(f"{len(recorded)} sampled tokens were recorded, {len(sent)} were sent")
    return said

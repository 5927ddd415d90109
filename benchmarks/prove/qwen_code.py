"""qwen-code itself, from npm, in a sandbox without a network, against the gateway and a scripted engine.

    python -m benchmarks.prove.qwen_code [--attempts 4]

It must solve a task by its own tools, what is recorded must be what the engine sent, and nothing may fork. Needs npm.
"""

import argparse
import asyncio
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.scripted_attempts import BROKEN, FIXED, TESTS, make_task, make_workbench

from sweyard_api.cache_root import cache_root
from sweyard_api.presets import load_preset
from sweyard_sandbox.agents.cli.agent import CliAgent
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.client import InProcessGateway
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits
from sweyard_trainer.gateway.tool_calls import CoderForm, ToolCall
from sweyard_trainer.model.tokenizer import learn_tokenizer
from sweyard_trainer.rollout.attempt import AttemptRules, run_attempt
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.trajectory import Trajectory

PRESET = "qwen3-coder-30b-django"
PACKAGE = "@qwen-code/qwen-code@0.15.10"
TOOLS = "/opt/tools"
"""Where the preset's command looks for it; here it lies in the cache."""
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
    sent: list[int]
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


def install(folder: Path) -> None:
    """The package and the Node.js of this machine, as images/qwen-code has them. Kept from run to run."""
    if (folder / "bin" / "qwen").exists():
        return
    subprocess.run(
        ["npm", "install", "--global", "--prefix", str(folder), "--no-fund", "--no-audit", "--silent", PACKAGE],
        check=True,
    )


async def attempt(
    task: Task, runtime: LocalRuntime, renderer: ChatRenderer, tools: Path, number: int
) -> tuple[Trajectory, ScriptedModel]:
    """One attempt with the preset's own agent, and the model that it had."""
    model = ScriptedModel(renderer, [])
    spec = load_preset(PRESET).spec["agent"]
    command = [word.replace(TOOLS, str(tools)) for word in spec["command"]]

    limits = Limits(200_000, 400_000, 10_000, max_calls=spec["maxTurns"], max_seconds=SECONDS)
    gateway = InProcessGateway(Gateway(renderer, limits), [UntiringEngine(model)], new_token=lambda: f"token-{number}")
    await gateway.use_weights(0)
    agent = CliAgent(command, SECONDS, files=spec["files"])
    bench = make_workbench(runtime, gateway, agent, grading_seconds=SECONDS)
    rules = AttemptRules(SECONDS, SECONDS, SECONDS, 0, True, 1.0, 0.0)
    plan = AttemptPlan(f"1/till/{number}", "1/till", task, 1.0, number)
    try:
        return await run_attempt(plan, bench, rules, "only"), model
    finally:
        await gateway.close()


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


async def prove(attempts: int, tools: Path) -> int:
    """Number of attempts that are not as they must be."""
    tokenizer = learn_tokenizer([FIXED, BROKEN, TESTS, FORM.render("", CALLS)], 2_000, 1_000_000)
    tokenizer.chat_template = TEMPLATE + str(tokenizer.chat_template)
    renderer = ChatRenderer(tokenizer)
    config = LocalConfig()
    config = LocalConfig(read_only_paths=(*config.read_only_paths, str(tools)), max_sandboxes=2 * attempts)
    runtime = LocalRuntime(config)
    failed = 0
    with tempfile.TemporaryDirectory() as tree:
        task = make_task(Path(tree))
        try:
            done = await asyncio.gather(
                *(attempt(task, runtime, renderer, tools, number) for number in range(attempts))
            )
        finally:
            await runtime.close()
    for trajectory, model in done:
        wrong = problems(trajectory, model.sent)
        failed += bool(wrong)
        told = f"{len(model.sent)} tokens sampled, a first prompt of {model.prompt_characters} characters"
        print(f"{trajectory.attempt_id}: {'; '.join(wrong) or trajectory.outcome}, {told}", flush=True)
        if wrong:
            print("\n".join(f"{turn['role']}: {turn['content'][-2_000:]}" for turn in trajectory.transcript[-3:]))
    return failed


def main() -> None:
    """Install, run; exit code 1 if anything is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=4)
    arguments = parser.parse_args()
    tools = cache_root(os.environ) / "tools" / PACKAGE.rsplit("/", 1)[-1]
    install(tools)
    raise SystemExit(1 if asyncio.run(prove(arguments.attempts, tools)) else 0)


if __name__ == "__main__":
    main()

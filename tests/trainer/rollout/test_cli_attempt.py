"""A command-line agent from end to end: a program in a sandbox, the real gateway, a scripted model, the real grader."""

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest_asyncio
from benchmarks.scripted_attempts import make_workbench
from tests.sandbox.grading.conftest import BROKEN, till_task
from tests.trainer.gateway.conftest import make_tokenizer
from tests.trainer.gateway.tool_templates import CODER

from sweyard_sandbox.agents.cli.agent import CliAgent
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.runtimes.local.runtime import LocalRuntime
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.client import InProcessGateway
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits
from sweyard_trainer.gateway.tool_calls import ToolCall
from sweyard_trainer.rollout.attempt import AttemptRules, run_attempt
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.trajectory import Trajectory

PROGRAM = """\
import json, os, subprocess, sys, urllib.request

def ask(messages):
    body = {"model": os.environ["OPENAI_MODEL"], "messages": messages, "stream": True, "tools": [TOOL]}
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    message = {"role": "assistant", "content": ""}
    for line in urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), headers)):
        if line.startswith(b"data: {"):
            delta = json.loads(line[6:])["choices"][0]["delta"]
            message["content"] += delta.get("content") or ""
            if "tool_calls" in delta:
                message["tool_calls"] = delta["tool_calls"]
    return message

PARAMETERS = {"properties": {"command": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "shell", "parameters": PARAMETERS}}
messages = [{"role": "user", "content": sys.argv[1]}]
while "tool_calls" in (message := ask(messages)):
    messages.append(message)
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run(command, shell=True, capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
print("I am done:", message["content"])
"""
COMMANDS = ["cat till/sums.py", "sed -i 's/-=/+=/' till/sums.py"]


@dataclass
class Yard:
    """One worker's world."""

    runtime: LocalRuntime
    renderer: ChatRenderer
    task: Task

    def model(self, prompt: Sequence[int], seed: int) -> Sequence[int]:
        """Calls the commands in turn, then says so."""
        turn = self.renderer.text(prompt).count("<|im_start|>assistant") - 1
        form = self.renderer.call_form
        assert form is not None
        calls = [ToolCall("shell", {"command": COMMANDS[turn]})] if turn < len(COMMANDS) else []
        return self.renderer.reply_ids(form.render("Let me see.", calls) if calls else "Repaired.")

    async def attempt(self, command: list[str], *, failures: int = 0, **limits: Any) -> Trajectory:
        engine = FakeEngine(self.model)
        engine.failures_left = failures
        inner = Gateway(self.renderer, Limits(4_000, 8_000, 2_000, **limits))
        gateway = InProcessGateway(inner, [engine], new_token=lambda: "secret")
        await gateway.use_weights(0)
        agent = CliAgent(command, 120.0, files={"program.py": PROGRAM})
        bench = make_workbench(self.runtime, gateway, agent, grading_seconds=120.0)
        rules = AttemptRules(120.0, 120.0, 120.0, 1, True, 1.0, 0.0)
        try:
            return await run_attempt(AttemptPlan("1/till/0", "1/till", self.task, 1.0, 7), bench, rules, "nonce")
        finally:
            await gateway.close()


@pytest_asyncio.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    runtime = LocalRuntime()
    yield Yard(runtime, ChatRenderer(make_tokenizer(CODER)), till_task(tmp_path))
    await runtime.close()


RUN = ["python3", "{home}/program.py", "{prompt}"]


async def test_a_program_that_speaks_to_the_gateway_solves_a_task(yard: Yard) -> None:
    attempt = await yard.attempt(RUN)

    assert (attempt.outcome, attempt.reward) == (Outcome.SOLVED, 1.0), attempt.grading_log
    (segment,) = attempt.segments
    sampled = yard.renderer.text(segment.token_ids[segment.loss_mask].tolist())
    assert [sampled.count(command) for command in COMMANDS] == [1, 1]
    assert sampled.count("<|im_end|>") == len(COMMANDS)  # and the last one's, which `text` takes off
    roles = [turn["role"] for turn in attempt.transcript]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool"]
    assert BROKEN.strip() in attempt.transcript[2]["content"]
    assert attempt.transcript[-1]["content"] == "I am done: Repaired.\n[exit code 0]"


async def test_a_program_that_asks_too_often_ends_by_its_turns(yard: Yard) -> None:
    attempt = await yard.attempt(RUN, max_calls=2)

    assert (attempt.outcome, attempt.reward) == (Outcome.MAX_TURNS, 0.0)
    assert attempt.official is True  # the repair was made, but attempts that end by a limit earn nothing


async def test_a_program_that_never_asks_could_not_begin(yard: Yard) -> None:
    attempt = await yard.attempt(["sh", "-c", "echo no key >&2; exit 1"])

    assert attempt.outcome is Outcome.ENV_INFRA
    assert "the agent never called the model: no key\n[exit code 1]" in attempt.infra_reason


async def test_a_program_whose_engine_failed_is_no_failure_of_the_policy(yard: Yard) -> None:
    attempt = await yard.attempt(RUN, failures=2)  # the attempt, and its second try

    assert (attempt.outcome, attempt.reward) == (Outcome.ENV_INFRA, 0.0)
    assert "fake is down" in attempt.infra_reason
    assert (await yard.attempt(RUN, failures=1)).outcome is Outcome.SOLVED


async def test_a_program_that_gives_up_is_an_error_of_the_agent(yard: Yard) -> None:
    attempt = await yard.attempt(["sh", "-c", "python3 {home}/program.py Hello; exit 3"])

    assert (attempt.outcome, attempt.reward) == (Outcome.AGENT_ERROR, 0.0)
    assert json.dumps(attempt.transcript[-1]["content"]).endswith('[exit code 3]"')

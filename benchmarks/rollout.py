"""Scripted attempts through gateway, sandboxes and grader, all at once: what is lost, what is crossed, what it costs.

    python -m benchmarks.rollout --attempts 512

Each attempt's model makes up a secret, has its sandbox echo and keep it, sees it again two turns later, and repairs a
bug; a fresh sandbox grades the repair. Agents speak to the gateway over HTTP. The last line is JSON:

- `attempts_per_min`; `lost`: attempts that did not end as solved; `crossed`: those that saw another one's secret;
- `gateway_turn_p99_ms`: what a turn takes beside the engine, among all the others; `gateway_turn_alone_ms`: one at a
  time; `gateway_token_us`: the same for each token of a long conversation, in this process;
- `sandbox_command_ms`: one command at a time in a sandbox, beside `bare_command_ms`, the baseline: a shell of this
  machine that does the same;
- `peak_mib` of this process, and `attempts_mib`: what it grew by, an attempt.
"""

import argparse
import asyncio
import contextlib
import os
import re
import socket
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import uvicorn
from benchmarks.figures import percentile, print_figures
from benchmarks.peak_memory import peak_mib, resident_mib
from benchmarks.scripted_attempts import FIXED, TESTS, make_task, make_workbench
from starlette.applications import Starlette

from sweyard_sandbox.agents.bash.agent import BashAgent
from sweyard_sandbox.agents.bash.prompt import SENTINEL
from sweyard_sandbox.agents.loop import Limits as TurnLimits
from sweyard_sandbox.agents.protocol import ChatSession, Message, Reply
from sweyard_sandbox.outcome import Outcome
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.engine.engine import Completion
from sweyard_trainer.engine.fake import FakeEngine
from sweyard_trainer.gateway.admin_app import admin_app
from sweyard_trainer.gateway.client import HttpGateway
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.public_app import public_app
from sweyard_trainer.gateway.rendering import ChatRenderer
from sweyard_trainer.gateway.session import Limits
from sweyard_trainer.model.tokenizer import learn_tokenizer
from sweyard_trainer.rollout.attempt import AttemptRules, run_attempt
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.trajectory import Trajectory

SECRET = re.compile(r"secret-[0-9a-f]+")
REPAIR = "sed -i 's/-=/+=/' till.py"
LONG_TURNS, LONG_REPLY = 40, "word " * 400
COMMANDS = 200
WAIT_SECONDS = 1_800.0


class SecretiveModel:
    """Three turns: make a secret and keep it, look at it and repair, hand in. Its memory is the prompt alone."""

    def __init__(self, renderer: ChatRenderer) -> None:
        self._renderer = renderer

    def __call__(self, prompt: Sequence[int], seed: int) -> Sequence[int]:
        told = self._renderer.text(prompt)
        turns = told.count("<|assistant|>")
        if turns == 1:
            command = f"echo secret-{seed:x} | tee /tmp/secret"
        else:
            command = f"cat /tmp/secret && {REPAIR}" if turns == 2 else f"echo {SENTINEL}"
        return self._renderer.reply_ids(f"I go on.\n\n```bash\n{command}\n```")


class TimedEngine(FakeEngine):
    """Says how long it took itself, so that this does not count as the gateway's."""

    seconds = 0.0

    async def complete(self, prompt_ids: Sequence[int], **options: Any) -> Completion:
        began = time.perf_counter()
        completion = await super().complete(prompt_ids, **options)
        self.seconds += time.perf_counter() - began
        self.prompts.clear()
        self.salts.clear()
        return completion


@dataclass
class TimedGateway:
    """The HTTP client, and how long each of its turns took."""

    inner: HttpGateway
    seconds: list[float] = field(default_factory=list)

    async def use_weights(self, version: int, num_engines: int | None = None) -> None:
        await self.inner.use_weights(version, num_engines)

    async def open_session(self, session_id: str, *, temperature: float, seed: int) -> ChatSession:
        session = await self.inner.open_session(session_id, temperature=temperature, seed=seed)
        return TimedSession(session, self.seconds)

    async def finish_session(self, session_id: str) -> Any:
        return await self.inner.finish_session(session_id)

    async def close(self) -> None:
        await self.inner.close()


@dataclass
class TimedSession:
    """One of its sessions."""

    inner: ChatSession
    seconds: list[float]

    async def chat(self, messages: list[Message], *, max_tokens: int | None = None) -> Reply:
        began = time.perf_counter()
        reply = await self.inner.chat(messages, max_tokens=max_tokens)
        self.seconds.append(time.perf_counter() - began)
        return reply


@contextlib.asynccontextmanager
async def serving(app: Starlette) -> AsyncIterator[str]:
    """On a free port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=2_048)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", backlog=2_048))
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


async def run_all(task: Task, runtime: LocalRuntime, gateway: TimedGateway, attempts: int) -> list[Trajectory]:
    """All at the same time."""
    agent = BashAgent(TurnLimits(10, WAIT_SECONDS), step_timeout_seconds=WAIT_SECONDS)
    bench = make_workbench(runtime, gateway, agent, grading_seconds=WAIT_SECONDS)
    rules = AttemptRules(WAIT_SECONDS, WAIT_SECONDS, WAIT_SECONDS, 0, True, 1.0, 0.0)
    plans = [AttemptPlan(f"1/till/{index}", "1/till", task, 1.0, index) for index in range(attempts)]
    return list(await asyncio.gather(*(run_attempt(plan, bench, rules, "only") for plan in plans)))


def count_crossed(trajectories: Sequence[Trajectory]) -> int:
    """Attempts that saw no secret, several, fewer times than they should, or one that another attempt saw too."""
    seen = [
        Counter(SECRET.findall("\n".join(turn["content"] for turn in attempt.transcript))) for attempt in trajectories
    ]
    owners = Counter(secret for secrets in seen for secret in secrets)
    return sum(len(secrets) != 1 or max(secrets.values()) != 3 or owners[next(iter(secrets))] != 1 for secrets in seen)


async def token_us(renderer: ChatRenderer) -> float:
    """Of a long conversation in this process, with an engine that says the same at once."""
    reply_ids = renderer.reply_ids(LONG_REPLY)
    gateway = Gateway(renderer, Limits(100_000, 1_000_000, 100_000))
    await gateway.use_engines([FakeEngine(lambda prompt, seed: reply_ids)], 0)
    gateway.create_session("long", "long", temperature=1.0, seed=0)
    messages = [Message("user", "Go on.")]
    began = time.perf_counter()
    for _ in range(LONG_TURNS):
        reply = (await gateway.chat("long", messages)).reply
        messages += [Message("assistant", reply.content), Message("user", LONG_REPLY)]
    seconds = time.perf_counter() - began
    [segment] = gateway.finish_session("long").segments
    return 1e6 * seconds / len(segment.token_ids)


async def turn_alone_ms(gateway: TimedGateway) -> float:
    """Median of a short turn over HTTP, nobody else there."""
    seconds = []
    for number in range(50):
        session = await gateway.inner.open_session(f"alone-{number}", temperature=1.0, seed=0)
        began = time.perf_counter()
        await session.chat([Message("user", "Hello.")])
        seconds.append(time.perf_counter() - began)
        await gateway.inner.finish_session(f"alone-{number}")
    return 1e3 * median(seconds)


async def command_ms(task: Task, runtime: LocalRuntime) -> tuple[float, float]:
    """Medians: in a sandbox, and by a shell of this machine."""
    inside, bare = [], []
    async with await runtime.acquire(task.image, deadline_seconds=60.0) as sandbox:
        for _ in range(COMMANDS):
            began = time.perf_counter()
            await sandbox.run("echo hello", timeout_seconds=60.0)
            inside.append(time.perf_counter() - began)
    for _ in range(COMMANDS):
        began = time.perf_counter()
        subprocess.run(["/bin/sh", "-c", "echo hello"], stdin=subprocess.DEVNULL, capture_output=True, check=True)
        bare.append(time.perf_counter() - began)
    return 1e3 * median(inside), 1e3 * median(bare)


async def measure(arguments: argparse.Namespace, tree: Path) -> dict[str, object]:
    """Everything."""
    task = make_task(tree)
    texts = [FIXED, TESTS, REPAIR, LONG_REPLY, "I go on.\n\n```bash\necho secret- | tee /tmp/secret\n```"]
    renderer = ChatRenderer(learn_tokenizer(texts, 2_000, 1_000_000))
    gateway = Gateway(renderer, Limits(100_000, 1_000_000, 100_000))
    engine = TimedEngine(SecretiveModel(renderer))
    runtime = LocalRuntime(LocalConfig(max_sandboxes=arguments.at_once, memory_bytes=64 << 20))
    numbers: Callable[[], int] = iter(range(10**9)).__next__
    async with serving(public_app(gateway)) as public, serving(admin_app(gateway, lambda url: engine)) as admin:
        inner = HttpGateway(public, admin, ["engine"], new_token=lambda: f"token-{numbers()}")
        client = TimedGateway(inner)
        await client.use_weights(0)
        alone_ms = await turn_alone_ms(client)
        inside_ms, bare_ms = await command_ms(task, runtime)
        engine.seconds, before_mib = 0.0, resident_mib()
        began = time.perf_counter()
        done = await run_all(task, runtime, client, arguments.attempts)
        wall = time.perf_counter() - began
        engine_seconds = engine.seconds / max(1, len(client.seconds))
        await client.close()
    await runtime.close()
    for attempt in [attempt for attempt in done if attempt.outcome is not Outcome.SOLVED][:3]:
        print(f"lost: {attempt.attempt_id} {attempt.outcome} {attempt.infra_reason}", flush=True)
    return {
        "attempts": arguments.attempts,
        "at_once": arguments.at_once,
        "attempts_per_min": round(60 * arguments.attempts / wall),
        "gateway_turn_p99_ms": round(1e3 * (percentile(client.seconds, 0.99) - engine_seconds), 1),
        "gateway_turn_alone_ms": round(alone_ms, 2),
        "gateway_token_us": round(await token_us(renderer), 2),
        "sandbox_command_ms": round(inside_ms, 2),
        "bare_command_ms": round(bare_ms, 2),
        "lost": sum(attempt.outcome is not Outcome.SOLVED for attempt in done),
        "crossed": count_crossed(done),
        "peak_mib": round(peak_mib()),
        "attempts_mib": round((peak_mib() - before_mib) / arguments.attempts, 3),
        "cores": os.cpu_count(),
    }


def main() -> None:
    """Parse, measure, print; the last line is JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--attempts", type=int, default=512)
    parser.add_argument("--at-once", type=int, default=512, help="sandboxes; agents are always all at once")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print_figures({"benchmark": "rollout", **asyncio.run(measure(arguments, Path(folder)))})


if __name__ == "__main__":
    main()

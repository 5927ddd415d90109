"""Commands in sandboxes: latency alone, and how many a second over all of them at once.

    python -m benchmarks.exec --runtime local
    KUBECONFIG=... python -m benchmarks.exec --runtime kubernetes --image REGISTRY/IMAGE:TAG --sandboxes 32

Baseline, in the same run: on Kubernetes a new exec websocket for each command, as harnesses without a driver do it;
locally a plain `sh -c` of this machine, without any isolation.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from benchmarks.figures import print_figures, summarize_ms
from benchmarks.pods import POOL, fresh_namespace, make_pods
from benchmarks.pool_object import make_pool

from sweyard_api.constants import CONTAINER_SANDBOX
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.pool import Pool, find_credentials
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.kubernetes.exec_channel import open_exec
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime

COMMAND = "echo hi"
Run = Callable[[int], Awaitable[bytes]]
"""Runs COMMAND in sandbox number n."""


async def measure(name: str, run: Run, sandboxes: int, commands: int) -> dict[str, object]:
    """One sandbox alone, then all at once."""
    alone = [await _time(run, 0) for _ in range(commands)]
    began = time.perf_counter()
    together = await asyncio.gather(*(_time_many(run, number, commands) for number in range(sandboxes)))
    rate = sandboxes * commands / (time.perf_counter() - began)
    figures = {"alone": summarize_ms(alone), "per_second": round(rate, 1)}
    figures["together"] = summarize_ms([seconds for many in together for seconds in many])
    print(f"{name}: {figures}", flush=True)
    return figures


async def _time(run: Run, number: int) -> float:
    began = time.perf_counter()
    output = await run(number)
    if output != b"hi\n":
        raise RuntimeError(f"wrong output: {output!r}")
    return time.perf_counter() - began


async def _time_many(run: Run, number: int, commands: int) -> list[float]:
    return [await _time(run, number) for _ in range(commands)]


def run_in(sandboxes: Sequence[Sandbox]) -> Run:
    """The product's way."""

    async def run(number: int) -> bytes:
        return (await sandboxes[number].run(COMMAND, timeout_seconds=60)).output

    return run


async def run_plainly(number: int) -> bytes:
    """The local baseline."""
    process = await asyncio.create_subprocess_exec("sh", "-c", COMMAND, stdout=asyncio.subprocess.PIPE)
    return (await process.communicate())[0]


async def benchmark_local(sandboxes: int, commands: int) -> dict[str, object]:
    """Sandboxes of an empty tree."""
    runtime = LocalRuntime(LocalConfig(max_sandboxes=sandboxes))
    with tempfile.TemporaryDirectory() as tree:
        acquire_seconds, made = [], []
        for _ in range(sandboxes):
            began = time.perf_counter()
            made.append(await runtime.acquire(f"dir:{tree}", deadline_seconds=60))
            acquire_seconds.append(time.perf_counter() - began)
        baseline = await measure("plain processes", run_plainly, sandboxes, commands)
        ours = await measure("sandboxes", run_in(made), sandboxes, commands)
        await runtime.close()
    return {"acquire": summarize_ms(acquire_seconds), "baseline": baseline, "ours": ours}


async def benchmark_kubernetes(image: str, sandboxes: int, commands: int) -> dict[str, object]:
    """Pods made for this."""
    credentials = find_credentials(os.environ)
    api = ApiClient(credentials)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(api.close)
        namespace = await stack.enter_async_context(fresh_namespace(api))
        await make_pool(api, namespace)
        await make_pods(api, namespace, image, sandboxes, pretend_ready=False)
        pool = await stack.enter_async_context(await Pool.connect(namespace=namespace, name=POOL))
        made = await stack.enter_async_context(pool.claim_many([image] * sandboxes))

        async def run_anew(number: int) -> bytes:
            channel = await open_exec(
                api, namespace, made[number].id, CONTAINER_SANDBOX, ["sh", "-c", COMMAND], heartbeat_seconds=20
            )
            output = b""
            while data := await channel.receive():
                output += data
            await channel.close()
            return output

        baseline = await measure("a websocket for each command", run_anew, sandboxes, commands)
        ours = await measure("one open stream", run_in(made), sandboxes, commands)
    return {"baseline": baseline, "ours": ours}


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=["local", "kubernetes"], default="local")
    parser.add_argument("--image", help="with /bin/sh; needed for kubernetes")
    parser.add_argument("--sandboxes", type=int, default=8)
    parser.add_argument("--commands", type=int, default=100, help="in each sandbox")
    arguments = parser.parse_args()
    if arguments.runtime == "local":
        work = benchmark_local(arguments.sandboxes, arguments.commands)
    elif arguments.image:
        work = benchmark_kubernetes(arguments.image, arguments.sandboxes, arguments.commands)
    else:
        parser.error("--runtime kubernetes needs --image")
    print_figures(
        {"benchmark": "exec", "runtime": arguments.runtime, "sandboxes": arguments.sandboxes} | asyncio.run(work)
    )


if __name__ == "__main__":
    main()

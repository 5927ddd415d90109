"""Commands in sandboxes: latency of one alone, and how many a second over all sandboxes at once.

    python -m benchmarks.exec --sandboxes 32          # pods on a cluster of its own (one real node; Linux, root)
    KUBECONFIG=... python -m benchmarks.exec --sandboxes 32 --image REGISTRY/IMAGE:TAG
    python -m benchmarks.exec --runtime local

The command is a program, not a builtin of the shell. Baseline, in turns with ours: on Kubernetes a new exec websocket
for each command, as harnesses without a driver do it; locally a plain `sh -c` of this machine, without any isolation.
The last line is JSON; `ratio` and `throughput_ratio` say how many times better than the baseline.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from benchmarks.figures import percentile, print_figures, summarize_ms
from benchmarks.own_cluster import load_small_image, own_cluster
from benchmarks.pods import POOL, fresh_namespace, make_pods
from benchmarks.pool_object import make_pool

from sweyard_api.constants import CONTAINER_SANDBOX
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import find_credentials
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtime import Sandbox
from sweyard_sandbox.runtimes.kubernetes.exec_channel import open_exec
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime

COMMAND = "/bin/echo hi"
_HEARTBEAT_SECONDS = 20.0
Run = Callable[[int], Awaitable[bytes]]
"""Runs COMMAND in sandbox number n."""


@dataclass(slots=True)
class Side:
    """What is measured: ours, or the baseline."""

    name: str
    run: Run
    commands: int
    """In each sandbox and round; ten times as many in the first one alone."""
    alone_seconds: list[float] = field(default_factory=list)
    together_seconds: list[float] = field(default_factory=list)
    elapsed_seconds: float = 0.0

    @property
    def per_second(self) -> float:
        """Over all sandboxes at once."""
        return len(self.together_seconds) / self.elapsed_seconds

    async def measure(self, sandboxes: int) -> None:
        """One round: one sandbox alone, then all at once."""
        self.alone_seconds += await self._time(0, 10 * self.commands)
        began = time.perf_counter()
        together = await asyncio.gather(*(self._time(number, self.commands) for number in range(sandboxes)))
        self.elapsed_seconds += time.perf_counter() - began
        self.together_seconds += [seconds for many in together for seconds in many]
        print(f"{self.name}: alone {summarize_ms(self.alone_seconds)}, {self.per_second:.1f}/s together", flush=True)

    async def _time(self, number: int, count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            began = time.perf_counter()
            output = await self.run(number)
            seconds.append(time.perf_counter() - began)
            if output != b"hi\n":
                raise RuntimeError(f"{self.name}: wrong output {output!r}")
        return seconds


@asynccontextmanager
async def local_sides(arguments: argparse.Namespace) -> AsyncIterator[list[Side]]:
    """Sandboxes of an empty tree."""
    runtime = LocalRuntime(LocalConfig(max_sandboxes=arguments.sandboxes))

    async def run_plainly(number: int) -> bytes:
        process = await asyncio.create_subprocess_exec("sh", "-c", COMMAND, stdout=asyncio.subprocess.PIPE)
        return (await process.communicate())[0]

    with tempfile.TemporaryDirectory() as tree:
        made = [await runtime.acquire(f"dir:{tree}", deadline_seconds=60) for _ in range(arguments.sandboxes)]
        yield [
            Side("plain processes", run_plainly, arguments.commands),
            Side("sandboxes", run_in(made), arguments.commands),
        ]
        await runtime.close()


@asynccontextmanager
async def kubernetes_sides(arguments: argparse.Namespace) -> AsyncIterator[list[Side]]:
    """Pods of a namespace made for this, on the cluster of $KUBECONFIG."""
    async with AsyncExitStack() as stack:
        api = ApiClient(find_credentials(os.environ))
        stack.push_async_callback(api.close)
        namespace = await stack.enter_async_context(fresh_namespace(api))
        await make_pool(api, namespace)
        await make_pods(api, namespace, arguments.image, arguments.sandboxes, pretend_ready=False)
        pool = await stack.enter_async_context(await Pool.connect(namespace=namespace, name=POOL))
        made = await stack.enter_async_context(pool.claim_many([arguments.image] * arguments.sandboxes))

        async def run_anew(number: int) -> bytes:
            command = ["sh", "-c", COMMAND]
            channel = await open_exec(
                api, namespace, made[number].id, CONTAINER_SANDBOX, command, heartbeat_seconds=_HEARTBEAT_SECONDS
            )
            output = b""
            while data := await channel.receive():
                output += data
            await channel.close()
            return output

        yield [
            Side("a websocket for each command", run_anew, max(1, arguments.commands // 10)),
            Side("one open stream", run_in(made), arguments.commands),
        ]


def run_in(sandboxes: Sequence[Sandbox]) -> Run:
    """The product's way."""

    async def run(number: int) -> bytes:
        return (await sandboxes[number].run(COMMAND, timeout_seconds=60)).output

    return run


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    """All rounds of both sides, in turns."""
    sides = local_sides if arguments.runtime == "local" else kubernetes_sides
    async with sides(arguments) as (baseline, ours):
        for side in (baseline, ours):
            await side.run(0)
        for _ in range(arguments.rounds):
            await baseline.measure(arguments.sandboxes)
            await ours.measure(arguments.sandboxes)
    return {
        "p50_ms": round(1e3 * percentile(ours.alone_seconds, 0.5), 2),
        "p99_ms": round(1e3 * percentile(ours.alone_seconds, 0.99), 2),
        "commands_per_s": round(ours.per_second, 1),
        "ratio": round(percentile(baseline.alone_seconds, 0.5) / percentile(ours.alone_seconds, 0.5), 1),
        "throughput_ratio": round(ours.per_second / baseline.per_second, 1),
        "together": summarize_ms(ours.together_seconds),
        "baseline": {
            "alone": summarize_ms(baseline.alone_seconds),
            "together": summarize_ms(baseline.together_seconds),
            "commands_per_s": round(baseline.per_second, 1),
        },
    }


@contextmanager
def surroundings(arguments: argparse.Namespace) -> Iterator[None]:
    """$KUBECONFIG as it is; else a cluster made for this. Sets `arguments.image`."""
    if arguments.runtime == "local":
        yield
    elif os.environ.get("KUBECONFIG"):
        if not arguments.image:
            raise SystemExit("--image is needed with $KUBECONFIG: name one with /bin/sh that the cluster can pull")
        yield
    else:
        with own_cluster(nodes=1) as cluster:
            arguments.image = arguments.image or load_small_image(cluster)
            os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
            yield


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", choices=["kubernetes", "local"], default="kubernetes")
    parser.add_argument("--image", default="", help="with $KUBECONFIG: an image with /bin/sh")
    parser.add_argument("--sandboxes", type=int, default=32)
    parser.add_argument("--commands", type=int, default=30, help="in each sandbox and round")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with surroundings(arguments):
        figures = asyncio.run(measure(arguments))
    name = {"benchmark": "exec", "runtime": arguments.runtime, "sandboxes": arguments.sandboxes}
    print_figures(name | {"cpus": os.cpu_count()} | figures)


if __name__ == "__main__":
    main()

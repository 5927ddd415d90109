"""What becomes of hundreds of real sandboxes: `python -m benchmarks.prove.lives [--sandboxes 512]` (Linux, root).

On a cluster of its own with one real node:

1. all sandboxes are claimed and held at the same time, each runs commands, all are given back; then as many repairs are
   graded, each in a fresh sandbox; the pool is scaled to zero and no pod is left;
2. a client that holds all of them gets kill -9: nothing of it is left when its Lease has lapsed;
3. containerd and kubelet get kill -9 in the middle of a wave and are started again: the wave is completed;
4. a command uses too much memory, one sandbox too much disk, one is evicted, the first process of one ends: the holder
   is told why, and what died is counted under its reason and replaced.

The results go into docs/performance.md. The last line is JSON.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.operator_process import running_operator
from benchmarks.own_cluster import load_task_images, own_cluster
from benchmarks.pods import POOL
from benchmarks.prove.report import Section, write_section
from benchmarks.prove.yard import DEADLINE_SECONDS, Yard, yard_for

from sweyard_api.cache_root import cache_root
from sweyard_api.constants import ANNOTATION_HOLDER
from sweyard_api.workload import TaskSource
from sweyard_cluster import lifecycle
from sweyard_cluster.spec import ClusterRequest
from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.grading.grade import Grade
from sweyard_sandbox.grading.registry import grade
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.pool import LEASE_SECONDS, find_credentials
from sweyard_sandbox.runtime import Result, Sandbox
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime
from sweyard_sandbox.tasks.load import load_tasks
from sweyard_sandbox.tasks.make import Options, Quotas
from sweyard_sandbox.tasks.making import Making
from sweyard_sandbox.tasks.making import run as make_tasks
from sweyard_sandbox.tasks.task import Task

GRADINGS_AT_ONCE = 64
"""A grader waits so long for its sandbox and no longer; hundreds would outwait what a node starts in that time."""
_REAPING_SECONDS = 60.0
"""Longest that the deletion of a dead client's pods may take after its Lease has lapsed; their end is the node's."""


async def live(yard: Yard, count: int) -> dict[str, Any]:
    """All held at once, each at work; then as many gradings, each in a fresh sandbox; then nothing."""
    await yard.make_pool(count, count)
    ready = await yard.until_ready(count)
    async with await yard.connect() as pool:
        began = time.monotonic()
        async with pool.claim_many([yard.image] * count, deadline_seconds=DEADLINE_SECONDS) as sandboxes:
            claimed = time.monotonic() - began
            held = len({sandbox.id for sandbox in sandboxes})
            began = time.monotonic()
            said = await asyncio.gather(
                *(box.run(f"echo {n}; id -u", timeout_seconds=300) for n, box in enumerate(sandboxes))
            )
            commands = time.monotonic() - began
            wrong = [n for n, result in enumerate(said) if result.output.split()[:1] != [str(n).encode()]]
    print(f"{held} held, commands {commands:.1f} s, {len(wrong)} wrong answers", flush=True)
    runtime = KubernetesRuntime(await yard.connect())
    try:
        began = time.monotonic()
        work = [yard.tasks[number % len(yard.tasks)] for number in range(count)]
        await runtime.announce([task.image for task in work])
        turns = asyncio.Semaphore(GRADINGS_AT_ONCE)

        async def grade_in_turn(task: Task) -> Grade:
            async with turns:
                return await grade(task, task.gold_patch, runtime, timeout_seconds=600)

        grades = await asyncio.gather(*map(grade_in_turn, work))
        graded = time.monotonic() - began
    finally:
        await runtime.close()
    solved = sum(verdict.strict for verdict in grades)
    print(f"{solved} of {len(grades)} repairs graded as right in {graded:.0f} s", flush=True)
    await yard.edit_pool(replicas=0, warm=[])
    return {
        "seconds_to_ready": round(ready, 1),
        "held_at_once": held,
        "seconds_to_claim_and_connect_all": round(claimed, 1),
        "seconds_for_a_command_in_each": round(commands, 1),
        "wrong_answers": len(wrong),
        "right_repairs_graded_right": f"{solved} of {len(grades)}",
        "seconds_to_grade_all": round(graded, 1),
        "seconds_to_none_left": round(await yard.until_empty(), 1),
    }


async def kill_client(yard: Yard, count: int) -> dict[str, Any]:
    """kill -9 for a client that holds all there is."""
    await yard.make_pool(count, count)
    await yard.until_ready(count)
    command = ["-m", "benchmarks.prove.holder", yard.namespace, POOL, yard.image, str(count)]
    client = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
    assert client.stdout is not None
    assert (await client.stdout.readline()).strip() == b"holding"
    await yard.edit_pool(warm=[])

    async def held() -> list[dict[str, Any]]:
        metadata = [pod["metadata"] for pod in await yard.pods()]
        return [each for each in metadata if each["annotations"].get(ANNOTATION_HOLDER)]

    async def all_deleted() -> bool:
        return all("deletionTimestamp" in each for each in await held())

    async def none_left() -> bool:
        return not await held()

    assert len(await held()) == count
    assert not await all_deleted()
    client.send_signal(signal.SIGKILL)
    await client.wait()
    deleted = await yard.until(all_deleted, "all of the dead client's deleted", LEASE_SECONDS + _REAPING_SECONDS)
    ended = await yard.until(none_left, "none of them left on the node")
    await yard.edit_pool(replicas=0)
    await yard.until_empty()
    return {
        "held_when_killed": count,
        "lease_seconds": LEASE_SECONDS,
        "seconds_to_all_deleted": round(deleted, 1),
        "seconds_more_until_the_node_had_ended_them": round(ended, 1),
    }


async def kill_node_daemons(yard: Yard, count: int, cluster: TestCluster) -> dict[str, Any]:
    """kill -9 for kubelet and containerd in the middle of a wave."""
    await yard.make_pool(count, count)
    await yard.until_ready(count // 4)
    victims = _daemons(cluster, ("kubelet", "containerd"))
    for pid in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await asyncio.sleep(5)
    await asyncio.to_thread(lifecycle.up, cluster.tool, cluster.name, ClusterRequest(nodes=1))
    seconds = await yard.until_ready(count)
    names = {pod["metadata"]["name"] for pod in await yard.pods()}
    await yard.edit_pool(replicas=0, warm=[])
    await yard.until_empty()
    return {"killed_processes": len(victims), "pods": len(names), "seconds_from_restart_to_ready": round(seconds, 1)}


def _daemons(cluster: TestCluster, names: tuple[str, ...]) -> list[int]:
    """Of this cluster: by the path of its files in their command lines."""
    home, found = str(cluster.tool.cache.cluster(cluster.name).root), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_text().split("\0")
                if Path(words[0]).name in names and any(home in word for word in words):
                    found.append(int(entry.name))
    return found


async def break_sandboxes(yard: Yard) -> dict[str, Any]:
    """Memory, disk and eviction: each reported with its reason to its holder and to the pool, and replaced."""
    await yard.make_pool(8, 4)
    await yard.until_ready(4)
    said = {}
    async with await yard.connect() as pool:
        acts = {"memory": _eat_memory, "disk": _fill_disk, "eviction": _evict, "first process": _end_first_process}
        for name, act in acts.items():
            sandbox = await pool.acquire(yard.image, deadline_seconds=120)
            try:
                result = await act(yard, sandbox)
                said[name] = "oom_killed" if result.oom_killed else f"exit code {result.exit_code}"
            except InfrastructureError as error:
                said[name] = str(error.reason)
            print(f"{name}: {said[name]}", flush=True)
            await sandbox.close()
    await yard.until_ready(4)
    failures = (await yard.status()).get("failures", {})
    await yard.edit_pool(replicas=0, warm=[])
    await yard.until_empty()
    return {**{f"told the holder after {name}": told for name, told in said.items()}, "counted": failures}


async def _eat_memory(yard: Yard, sandbox: Sandbox) -> Result:
    """The kernel kills the command; the sandbox lives on."""
    program = "kept = [bytearray(1 << 20) for _ in range(4096)]"
    return await sandbox.run(f"python3 -c '{program}'", timeout_seconds=120)


async def _end_first_process(yard: Yard, sandbox: Sandbox) -> Result:
    return await sandbox.run("kill -TERM 1; sleep 100", timeout_seconds=120)


async def _fill_disk(yard: Yard, sandbox: Sandbox) -> Result:
    return await sandbox.run("head -c 200000000 /dev/zero > /tmp/full; sleep 150", timeout_seconds=180)


async def _evict(yard: Yard, sandbox: Sandbox) -> Result:
    path = f"/api/v1/namespaces/{yard.namespace}/pods/{sandbox.id}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": sandbox.id}}
    asyncio.get_running_loop().call_later(3, lambda: asyncio.ensure_future(yard.api.request("POST", path, body=body)))
    return await sandbox.run("sleep 100", timeout_seconds=120)


async def measure(cluster: TestCluster, tasks: Sequence[Task], count: int, only: Sequence[str]) -> dict[str, Any]:
    """Every part in a namespace of its own."""
    parts: dict[str, Callable[[Yard], Awaitable[dict[str, Any]]]] = {
        "lives": lambda yard: live(yard, count),
        "broken": break_sandboxes,
        "killed_client": lambda yard: kill_client(yard, count),
        "killed_daemons": lambda yard: kill_node_daemons(yard, min(count, 128), cluster),
    }
    api, figures = ApiClient(find_credentials(os.environ)), {}
    try:
        for name in only or parts:
            print(f"== {name}", flush=True)
            async with yard_for(api, tasks) as yard:
                figures[name] = await parts[name](yard)
            print(f"{name}: {figures[name]}", flush=True)
    finally:
        await api.close()
    return figures


def prepare_tasks(cluster: TestCluster) -> list[Task]:
    """Tasks of a real package, with images that the cluster has."""
    options = Options(quotas=Quotas(train=8, heldout=2))
    packages = ["mistune==3.1.0"]
    made = make_tasks(Making(name="lives", packages=packages, cache=cache_root(os.environ), options=options))
    images = load_task_images(cluster, made)
    tasks = load_tasks(TaskSource(dataset=str(made), split="train"), [])
    return [task.model_copy(update={"image": images[task.repository]}) for task in tasks]


def main() -> None:
    """Measure, write docs/performance.md, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sandboxes", type=int, default=512)
    parser.add_argument("--only", nargs="*", default=[], help="lives, broken, killed_client, killed_daemons")
    arguments = parser.parse_args()
    with own_cluster(nodes=1) as cluster, tempfile.TemporaryDirectory() as folder:
        os.environ["KUBECONFIG"] = str(cluster.kubeconfig)
        tasks = prepare_tasks(cluster)
        with running_operator(cluster.kubeconfig, Path(folder) / "operator.log"):
            figures = asyncio.run(measure(cluster, tasks, arguments.sandboxes, arguments.only))
    lines = ["| part | what | figure |", "|---|---|---|"]
    for part, values in figures.items():
        lines += [
            f"| {part.replace('_', ' ')} | {name.replace('_', ' ')} | {value} |" for name, value in values.items()
        ]
    if not arguments.only:
        title = f"{arguments.sandboxes} real sandboxes"
        write_section(Section(title, "python -m benchmarks.prove.lives", lines))
    print_figures({"benchmark": "prove.lives", **figures})


if __name__ == "__main__":
    main()

"""A pool whose operator, API server and etcd fail in mid-wave: `python -m benchmarks.prove.churn [--sandboxes N ...]`.

On a control plane of its own with 100 simulated nodes. etcd's own record of pods is the witness that for a target of N
exactly N are created, never more are there at any moment, and bystanders that look like pods of the pool live on. The
last line is JSON.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import print_figures
from benchmarks.operator_process import OperatorProcess
from benchmarks.own_cluster import own_cluster
from benchmarks.prove.churn_world import BLOCKED_SLOT, POOL, World
from benchmarks.prove.pod_record import PodRecord, follow
from benchmarks.prove.report import Section, write_section
from benchmarks.warm_pool import IMAGE

from sweyard_cluster.testing import TestCluster
from sweyard_sandbox.pool.api import ApiClient
from sweyard_sandbox.pool.credentials import load_kubeconfig
from sweyard_sandbox.pool.pool import Pool

NODES = 100
KILLS = 5
PAUSE_SECONDS = 20.0

Trouble = Callable[[World, int], Coroutine[Any, Any, None]]
"""What happens in a wave that is to create so many pods."""


async def until_created(world: World, count: int) -> None:
    """So many pods of the pool were created so far."""
    await world.until(lambda: world.num_created >= count)


async def kill_operator_often(world: World, creations: int) -> None:
    """Five times, at even parts of the wave."""
    before = world.num_created
    for kill in range(1, KILLS + 1):
        await until_created(world, before + creations * kill // (KILLS + 1))
        world.kill_operator()


async def kill_api_server(world: World, creations: int) -> None:
    """Half way."""
    await until_created(world, world.num_created + creations // 2)
    await world.kill_api_server()


async def pause_etcd(world: World, creations: int) -> None:
    """Half way."""
    await until_created(world, world.num_created + creations // 2)
    await world.pause_etcd(PAUSE_SECONDS)


async def ride(world: World, trouble: Trouble, *, held: int) -> dict[str, Any]:
    """From zero to the target through a trouble: how many pods were created, in what time."""
    creations, before, began = world.sandboxes - held, world.num_created, time.monotonic()
    happens = asyncio.create_task(trouble(world, creations))
    await world.scale(world.sandboxes + 1, warm=creations)
    await happens
    await world.until_settled(ready=creations, claimed=held)
    figures = {"wanted": creations, "created": world.num_created - before}
    return {**figures, "seconds": round(time.monotonic() - began, 1)}


async def empty(world: World, *, held: int) -> None:
    """Scale to zero, with the operator killed half way; what is claimed stays."""
    half = (world.num_own + held) // 2
    await world.scale(0, warm=0)
    await world.until(lambda: world.num_own <= half)
    world.kill_operator()
    await world.until_settled(ready=0, claimed=held)


async def play(world: World, kubeconfig: Path) -> dict[str, Any]:
    """All waves on one pool. Some sandboxes stay claimed through the second and the third."""
    held = min(64, world.sandboxes // 8)
    waves = {"operator killed five times": await ride(world, kill_operator_often, held=0)}
    await world.scale(world.sandboxes + 1, warm=world.sandboxes - held)
    credentials = load_kubeconfig(kubeconfig)
    async with await Pool.connect(namespace=world.namespace, name=POOL, credentials=credentials) as pool:
        claims = (pool.acquire_pod(IMAGE, deadline_seconds=60.0) for _ in range(held))
        pods = await asyncio.gather(*claims)
        await empty(world, held=held)
        waves["API server killed"] = await ride(world, kill_api_server, held=held)
        await empty(world, held=held)
        waves[f"etcd paused for {PAUSE_SECONDS:.0f} s"] = await ride(world, pause_etcd, held=held)
        await empty(world, held=held)
        reaped = [pod.name for pod in pods if f"{world.namespace}/{pod.name}" not in world.record.alive]
    await world.until_settled(ready=0, claimed=0)
    await world.delete_pool()
    return {"waves": waves, "held": held, "reaped": len(reaped), **judge(world)}


def judge(world: World) -> dict[str, Any]:
    """What etcd's record says of the whole play."""
    slots = {f"{world.namespace}/{POOL}-{slot}" for slot in range(world.sandboxes + 1) if slot != BLOCKED_SLOT}
    strays = [pod for pod, _ in world.record.created if pod.startswith(f"{world.namespace}/") and pod not in slots]
    return {
        "most_at_once": world.record.most[world.namespace] - world.num_near,
        "outside_of_slots": len(set(strays) - world.bystanders.keys()),
        "bystanders": len(world.bystanders),
        "bystanders_lost": sum(world.record.alive.get(pod) != born for pod, born in world.bystanders.items()),
        "operator_restarts": world.num_restarts,
    }


def find_breaches(sandboxes: int, figures: Mapping[str, Any]) -> list[str]:
    """Invariants that do not hold."""
    found = [
        f"{name}: {wave['created']} pods created for {wave['wanted']}"
        for name, wave in figures["waves"].items()
        if wave["created"] != wave["wanted"]
    ]
    if figures["most_at_once"] > sandboxes:
        found.append(f"{figures['most_at_once']} pods at once, {sandboxes} allowed")
    counts = Counter({name: figures[name] for name in ("outside_of_slots", "bystanders_lost", "reaped")})
    return found + [f"{name}: {count}" for name, count in counts.items() if count]


async def prove(cluster: TestCluster, log: Path, sandboxes: int) -> dict[str, Any]:
    """One size."""
    api, record = ApiClient(load_kubeconfig(cluster.kubeconfig)), PodRecord()
    operator = OperatorProcess(cluster.kubeconfig, log)
    port = cluster.tool.spec(cluster.name).addresses.etcd_port
    world = World(cluster, operator, api, record, sandboxes)
    tasks = [asyncio.create_task(follow(record, port)), asyncio.create_task(world.keep_operator())]
    try:
        await world.prepare()
        playing = asyncio.create_task(play(world, cluster.kubeconfig))
        await asyncio.wait([playing, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
        return await playing
    finally:
        for task in tasks:
            task.cancel()
        operator.end()
        await api.close()


def table(figures: Mapping[int, Mapping[str, Any]]) -> Iterable[str]:
    """Markdown."""
    yield f"{NODES} simulated nodes. In each wave a pool goes from nothing to its target; etcd's record is the witness."
    yield ""
    yield "| target | in mid-wave | pods wanted | created | seconds |"
    yield "|---|---|---|---|---|"
    for sandboxes, found in figures.items():
        for name, wave in found["waves"].items():
            yield f"| {sandboxes} | {name} | {wave['wanted']} | {wave['created']} | {wave['seconds']} |"
    for sandboxes, found in figures.items():
        yield ""
        yield (
            f"At {sandboxes}: at most {found['most_at_once']} pods at once; {found['held']} claimed sandboxes lived "
            f"through API server and etcd, {found['reaped']} were lost; of {found['bystanders']} bystanders with "
            f"look-alike names and labels {found['bystanders_lost']} were lost; the operator was started "
            f"{found['operator_restarts']} times."
        )


def main() -> None:
    """Prove, write docs/performance.md, print; exit code 1 if an invariant does not hold."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prove.churn", description=__doc__)
    parser.add_argument("--sandboxes", type=int, nargs="+", default=[512, 5_000])
    arguments = parser.parse_args()
    figures: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as directory, own_cluster(fake_nodes=NODES) as cluster:
        for sandboxes in arguments.sandboxes:
            figures[sandboxes] = asyncio.run(prove(cluster, Path(directory) / "operator.log", sandboxes))
            print(f"{sandboxes}: {figures[sandboxes]}", flush=True)
    breaches = [breach for sandboxes, found in figures.items() for breach in find_breaches(sandboxes, found)]
    if breaches:
        raise SystemExit("\n".join(breaches))
    command = "python -m benchmarks.prove.churn --sandboxes " + " ".join(map(str, arguments.sandboxes))
    write_section(Section("Churn", command, table(figures)))
    print_figures({"benchmark": "prove.churn", **{str(size): found for size, found in figures.items()}})


if __name__ == "__main__":
    main()

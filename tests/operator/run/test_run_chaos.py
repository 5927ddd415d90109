"""Whole runs on an API server that lies, under an operator that is killed: one gang at a time, and an end."""

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sweyard_api.constants import API_VERSION, LABEL_COMPONENT
from sweyard_operator.conditions import rfc3339
from sweyard_operator.handlers.training_run import TrainingRunController
from sweyard_operator.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    ROLLOUT_POOLS,
    SERVICES,
    STATEFUL_SETS,
    TRAINING_RUNS,
    WORKLOADS,
    Resource,
)
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.fake_controllers import Ending, FakeControllers
from sweyard_operator.testing.fake_nodes import FakeNodes
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.operator_process import OperatorProcess
from sweyard_operator.testing.virtual_time import run_in_virtual_time

NAMESPACE = "team"
LIMIT = 3
LIES: dict[str, dict[str, float]] = {
    "requests": {"throttle_rate": 0.2, "error_rate": 0.2, "lost_request_rate": 0.2, "conflict_rate": 0.3},
    "replies": {"lost_reply_rate": 0.3, "latency_seconds": 2.0},
    "events": {"duplicate_event_rate": 0.5, "lost_event_rate": 0.3, "swapped_event_rate": 0.5},
    "watches": {"broken_watch_rate": 0.1, "gone_rate": 0.3, "stale_revisions": 30},
}


class World:
    """A run `demo` whose trainer fails as it is told."""

    def __init__(self, endings: list[Ending]) -> None:
        self.api = FakeApiServer(Lies())
        self.nodes = FakeNodes(self.api, collects_at_once=False)
        self.controllers = FakeControllers(self.api, endings)
        self.process = OperatorProcess(self.api, lambda operator: [TrainingRunController(operator)])
        self.run_uid = ""

    def create(self, resource: Resource, name: str, namespace: str = NAMESPACE, **parts: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": namespace}
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **parts}
        return self.api.store.create(resource, manifest)

    def begin(self, **changes: Any) -> None:
        self.nodes.register()
        ports = [{"port": 443}]
        self.create(SERVICES, "kubernetes", "default", spec={"clusterIP": "10.96.0.1", "ports": ports})
        self.create(CONFIG_MAPS, "tiny", data={})
        trainer = {"device": "cpu", "dtype": "float32", "replicas": 2}
        spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, "trainer": trainer}
        spec |= {"restart": {"limit": LIMIT, "backoffSeconds": 5}, **changes}
        assert TRAINING_RUNS.api_version == API_VERSION
        self.run_uid = str(self.create(TRAINING_RUNS, "demo", spec=spec)["metadata"]["uid"])
        self.api.touch()

    def status(self) -> dict[str, Any]:
        run = self.api.store.get((TRAINING_RUNS, NAMESPACE, "demo"))
        return {} if run is None else dict(run.get("status") or {})

    def admit(self) -> None:
        """Kueue admits the run."""
        workload = self.api.store.get((WORKLOADS, NAMESPACE, "demo"))
        assert workload is not None
        said = {"status": "True", "reason": "Test", "message": ""}
        workload["status"] = {"conditions": [{"type": kind, **said} for kind in ("QuotaReserved", "Admitted")]}
        self.api.store.put(WORKLOADS, workload)

    def lose(self, node: str) -> list[str]:
        """A node falls silent, and the node controller asks for the end of its pods: their names."""
        self.nodes.lost.add(node)
        pods = [item for (resource, _, _), item in self.api.store.objects.items() if resource == PODS]
        lost = [copy.deepcopy(pod) for pod in pods if pod["spec"].get("nodeName") == node]
        told = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": ""}
        for pod in lost:
            pod["status"]["conditions"].append(told)
            self.api.delete_pod(self.api.store.put(PODS, pod))
        return [str(pod["metadata"]["name"]) for pod in lost]

    def report(self, attempt: int) -> None:
        """The trainer says that it lives."""
        run = self.api.store.get((TRAINING_RUNS, NAMESPACE, "demo"))
        assert run is not None
        report = {"attempt": attempt, "phase": "rl", "step": 2, "reportEverySeconds": 30}
        run["status"]["trainer"] = report | {"updatedAt": rfc3339(self.api.now())}
        self.api.store.put(TRAINING_RUNS, run)
        self.api.touch()

    def suspend(self, wish: bool) -> None:
        run = self.api.store.get((TRAINING_RUNS, NAMESPACE, "demo"))
        assert run is not None
        run["spec"]["suspend"] = wish
        self.api.store.put(TRAINING_RUNS, run)
        self.api.touch()

    def names(self, *resources: Resource) -> list[str]:
        return sorted(name for resource, _, name in self.api.store.objects if resource in resources)

    def live_attempts(self) -> set[str]:
        """Attempts of the trainer of which a pod may still run."""
        pods = [item for (resource, _, _), item in self.api.store.objects.items() if resource == PODS]
        return {
            pod["metadata"]["labels"]["sweyard.dev/attempt"]
            for pod in pods
            if pod["metadata"]["labels"][LABEL_COMPONENT] == "trainer"
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
        }

    def check(self) -> None:
        """What must hold at every moment."""
        self.process.check_alive()
        assert len(self.live_attempts()) <= 1
        made = Counter(
            change.object["metadata"]["name"]
            for change in self.api.store.history
            if change.resource == JOBS and change.type == "ADDED"
        )
        assert set(made.values()) <= {1}, "an attempt was made twice"
        assert self.status().get("restarts", 0) <= LIMIT

    async def pass_time(self, seconds: float) -> None:
        for _ in range(max(1, int(seconds))):
            await asyncio.sleep(1.0)
            self.check()

    def lie(self, about: str) -> None:
        for name, rate in LIES[about].items():
            setattr(self.api.lies, name, rate)

    async def until(self, holds: Callable[[], bool], seconds: float = 3_600.0) -> None:
        for _ in range(int(seconds)):
            if holds():
                return
            await self.pass_time(1.0)
        raise AssertionError(f"not within {seconds:g} s: {self.names(JOBS, PODS)} {self.status()}")

    async def restart_operator(self) -> None:
        await self.process.kill()
        await self.process.start()


Story = Callable[[World], Coroutine[Any, Any, None]]


def play(story: Story, endings: list[Ending], **spec: Any) -> None:
    async def main() -> None:
        world = World(endings)
        world.begin(**spec)
        await world.process.start()
        try:
            async with asyncio.TaskGroup() as group:
                playing = [group.create_task(world.nodes.run(1.0)), group.create_task(world.controllers.run(1.0))]
                await story(world)
                for task in playing:
                    task.cancel()
        finally:
            await world.process.kill()

    run_in_virtual_time(main())


def is_over(world: World) -> bool:
    return world.status().get("phase") in ("Succeeded", "Failed")


def test_each_phase_of_a_run_is_a_line_of_the_log_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await world.until(lambda: is_over(world))

    with caplog.at_level("INFO", logger="sweyard_operator.handlers.training_run"):
        play(story, [])
    lines = [record for record in caplog.records if record.name == "sweyard_operator.handlers.training_run"]
    assert {getattr(record, "object", None) for record in lines} == {"TrainingRun/team/demo"}
    phases = [record.getMessage().partition(":")[0] for record in lines]
    assert (phases[0], phases[-2:]) == ("Pending", ["Running", "Succeeded"])


def test_a_queued_run_begins_when_it_is_admitted_and_gives_its_quota_back_at_the_end() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: bool(world.names(WORKLOADS)))
        await world.pass_time(30)
        assert not world.names(PODS, STATEFUL_SETS, ROLLOUT_POOLS)
        world.admit()
        await world.until(lambda: is_over(world))
        assert world.status()["phase"] == "Succeeded"
        await world.until(lambda: not world.names(WORKLOADS))

    play(story, [], queueName="team")


def test_a_trainer_that_hangs_is_started_again_and_one_that_cannot_be_heard_is_not() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: world.status().get("phase") == "Running")
        for _ in range(10):
            world.report(0)
            await world.pass_time(30)
        world.api.lies.is_down = True
        await world.pass_time(600)
        world.api.lies.is_down = False
        await world.pass_time(110)
        await world.restart_operator()
        await world.pass_time(110)
        assert world.live_attempts() == {"0"}
        await world.until(lambda: world.live_attempts() == {"1"}, seconds=60)
        await world.until(lambda: is_over(world))
        status = world.status()
        assert (status["phase"], status["restarts"], status["lastFailure"]["reason"]) == ("Succeeded", 1, "Stalled")

    play(story, [Ending(1e9, 1)], restart={"backoffSeconds": 0, "stallDeadlineSeconds": 120})


@pytest.mark.slow
def test_a_lost_node_costs_its_pods_and_neither_the_run_nor_a_restart() -> None:
    async def story(world: World) -> None:
        await world.until(lambda: world.status().get("phase") == "Running")
        lost = world.lose("node-b")
        assert any(name.startswith("demo-trainer-0") for name in lost)
        await world.until(lambda: is_over(world))
        status = world.status()
        assert (status["phase"], status["attempts"], status["restarts"]) == ("Succeeded", 2, 0)

    play(story, [Ending(3_000, 0)])


@pytest.mark.parametrize(
    "lie",
    [
        "requests",
        pytest.param("replies", marks=pytest.mark.slow),
        pytest.param("events", marks=pytest.mark.slow),
        pytest.param("watches", marks=pytest.mark.slow),
    ],
)
def test_a_run_that_fails_twice_ends_well_in_spite_of(lie: str) -> None:
    async def story(world: World) -> None:
        world.api.lies.randomness = random.Random(7)
        world.lie(lie)
        for seconds in (1.0, 5.0, 20.0, 60.0):
            await world.pass_time(seconds)
            await world.restart_operator()
        await world.pass_time(120)
        world.api.lies.stop()
        await world.until(lambda: is_over(world))
        status = world.status()
        assert (status["phase"], status["restarts"], status["attempts"]) == ("Succeeded", 2, 3)
        await world.until(lambda: not world.names(STATEFUL_SETS, DEPLOYMENTS, ROLLOUT_POOLS))
        assert world.names(JOBS) == ["demo-trainer-1", "demo-trainer-2"]

    play(story, [Ending(5, 1), Ending(30, 137)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_suspensions_outages_and_kills_at_any_moment_cost_no_second_gang(seed: int) -> None:
    rng = random.Random(seed)

    async def story(world: World) -> None:
        world.api.lies.randomness = rng
        for _ in range(12):
            match rng.choice(["suspend", "resume", "down", "deaf", "kill", "lie", "wait"]):
                case "suspend":
                    world.suspend(True)
                case "resume":
                    world.suspend(False)
                case "down":
                    world.api.lies.is_down = True
                    await world.pass_time(rng.uniform(1, 60))
                    world.api.lies.is_down = False
                case "deaf":
                    world.api.lies.deaf_watches = True
                    await world.pass_time(rng.uniform(1, 60))
                    world.api.lies.deaf_watches = False
                case "kill":
                    await world.restart_operator()
                case "lie":
                    world.lie(rng.choice(sorted(LIES)))
                case _:
                    await world.pass_time(rng.uniform(1, 90))
            await world.pass_time(rng.uniform(0.5, 10))
        world.api.lies.stop()
        if not is_over(world):
            world.suspend(False)
        await world.until(lambda: is_over(world))
        assert world.status()["phase"] == "Succeeded"
        await world.until(lambda: not world.names(STATEFUL_SETS, DEPLOYMENTS, ROLLOUT_POOLS))

    play(story, [Ending(20, 1)])

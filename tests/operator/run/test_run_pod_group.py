"""`trainer.podGroup`: the scheduler of Kubernetes places the trainer's pods whole or not at all, where it can."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.operator.run.test_run_chaos import World, is_over, play

from sweyard_api.resolve import resolve
from sweyard_cluster.lifecycle import Tool
from sweyard_cluster.spec import ClusterRequest
from sweyard_cluster.testing import TestCluster, shared_cluster
from sweyard_operator.build.pod_group import build_pod_group, build_scheduling_group
from sweyard_operator.build.run_context import RunContext
from sweyard_operator.resources import DEPLOYMENTS, JOBS, POD_GROUPS, PODS, STATEFUL_SETS
from sweyard_operator.testing.run_world import RunWorld

GANG = {"device": "cpu", "dtype": "float32", "replicas": 2, "podGroup": True}
SIZE = 3
GPU = "nvidia.com/gpu"


@pytest.mark.parametrize("asks", [True, False], ids=["asked for", "not asked for"])
def test_a_gang_is_a_pod_group_where_the_run_asks_for_it(running: Callable[..., RunWorld], asks: bool) -> None:
    world = running(trainer={**GANG, "podGroup": asks})
    pods = world.objects[JOBS, "demo-trainer-0"]["spec"]["template"]["spec"]
    assert world.names(POD_GROUPS) == (["demo-trainer"] if asks else [])
    assert pods.get("schedulingGroup") == ({"podGroupName": "demo-trainer"} if asks else None)
    if asks:
        assert world.objects[POD_GROUPS, "demo-trainer"]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}


def test_where_pod_groups_are_not_served_that_is_told_and_neither_engine_nor_trainer_starts() -> None:
    async def story(world: World) -> None:
        world.api.lies.unserved = frozenset({POD_GROUPS.plural})
        await world.until(lambda: told(world).get("Progressing") == "PodGroupMissing")
        await world.pass_time(60)
        assert not world.names(PODS, JOBS, STATEFUL_SETS, DEPLOYMENTS)
        world.api.lies.unserved = frozenset()
        await world.until(lambda: is_over(world))
        assert world.status()["phase"] == "Succeeded"
        made = [change for change in world.api.store.history if change.resource == POD_GROUPS]
        assert [change.type for change in made] == ["ADDED"]

    play(story, [], trainer=GANG)


def told(world: World) -> dict[str, str]:
    return {entry["type"]: entry["reason"] for entry in world.status().get("conditions", ())}


@pytest.fixture(scope="module")
def gangs(cluster_tool: Tool, session_id: str) -> Iterator[TestCluster]:
    """A control plane that serves PodGroups, and two simulated nodes with two GPUs each."""
    with shared_cluster(cluster_tool, f"{session_id}-gangs", ClusterRequest(fake_nodes=2, gangs=True)) as cluster:
        amounts = {**dict.fromkeys(("cpu", "pods"), "100"), "memory": "1Ti", GPU: "2"}
        for node in cluster.api.get("/api/v1/nodes")["items"]:
            path = f"/api/v1/nodes/{node['metadata']['name']}/status"
            body = {"status": {"capacity": amounts, "allocatable": amounts}}
            cluster.api.call("PATCH", path, body, "merge-patch+json")
        cluster.make_namespace("team")
        yield cluster


@pytest.mark.apiserver
@pytest.mark.slow
def test_of_two_gangs_for_which_there_is_no_room_one_is_placed_whole_and_the_other_not_at_all(
    gangs: TestCluster,
) -> None:
    for name in ("a", "b"):
        make_gang(gangs, name)
    gangs.wait_for(groups_path(), lambda found: {scheduled(group) for group in found["items"]} == {"True", "False"})
    gangs.wait_for(pods_path(), lambda found: any(bound(found, name) == SIZE for name in ("a", "b")))
    placed = {name: bound(gangs.api.get(pods_path()), name) for name in ("a", "b")}
    assert sorted(placed.values()) == [0, SIZE]

    first, second = sorted(placed, key=lambda name: -placed[name])
    gangs.kubectl("-n", "team", "delete", "pods", "-l", f"gang={first}", "--grace-period=0", "--force")
    gangs.wait_for(pods_path(), lambda found: bound(found, second) == SIZE, seconds=120.0)


def make_gang(cluster: TestCluster, name: str) -> None:
    """PodGroup and pods as the operator makes them, as far as the scheduler reads them."""
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, "trainer": {**GANG, "replicas": SIZE}}
    run = RunContext(name, "team", f"uid-{name}", resolve(spec))
    group = build_pod_group(run)
    assert group is not None
    # Nobody of that UID is there to own it.
    metadata = {key: value for key, value in group["metadata"].items() if key != "ownerReferences"}
    cluster.api.call("POST", groups_path(), {**group, "metadata": metadata})
    container = {"name": "trainer", "image": "none", "resources": {"limits": {GPU: "1"}}}
    for rank in range(SIZE):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{rank}", "labels": {"gang": name}},
            "spec": {"containers": [container], **build_scheduling_group(run)},
        }
        cluster.api.call("POST", pods_path(), pod)


def groups_path() -> str:
    return POD_GROUPS.path("team")


def pods_path() -> str:
    return PODS.path("team")


def scheduled(group: Any) -> str:
    conditions = (group.get("status") or {}).get("conditions") or ()
    return next((str(entry["status"]) for entry in conditions if entry["type"] == "PodGroupScheduled"), "")


def bound(pods: Any, gang: str) -> int:
    mine = [pod for pod in pods["items"] if pod["metadata"]["labels"]["gang"] == gang]
    return sum("nodeName" in pod["spec"] for pod in mine)

"""Sandboxes prefer nodes that hold their image, are never bound to them, and are counted by whether they got one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from sweyard_api.constants import API_VERSION, LABEL_CACHE
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.build.cache_pods import build_holding_pods
from sweyard_operator.cache_agent.protocol import REPORT_KEY, ImageReport, ImageState, NodeReport, report_name
from sweyard_operator.handlers.rollout_pool import RolloutPoolController
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_operator.plan.image_reports import reports_of_pods
from sweyard_operator.plan.preferred_nodes import good_nodes, preferred_nodes
from sweyard_operator.resources import CONFIG_MAPS, PODS, ROLLOUT_POOLS
from sweyard_operator.testing.fake_api import FakeApiServer
from sweyard_operator.testing.fake_nodes import FakeNodes
from sweyard_operator.testing.lies import Lies
from sweyard_operator.testing.operator_process import OperatorProcess
from sweyard_operator.testing.virtual_time import run_in_virtual_time

NODES = ("node-a", "node-b", "node-c")


def report(node: str, **states: str) -> NodeReport:
    images = {f"{name}:1": ImageReport(state=ImageState(state)) for name, state in states.items()}
    return NodeReport(node=node, images=images)


REPORTS = {"node-a": report("node-a"), "node-b": report("node-b", a="cached"), "node-c": report("node-c", a="pulling")}


@pytest.mark.parametrize(
    ("image", "avoided", "good"),
    [
        ("a:1", (), ("node-b",)),
        ("a:1", ("node-b",), ()),
        ("b:1", (), ()),
    ],
    ids=["held-by-one-pulled-by-another", "at-fault-lately", "held-by-none"],
)
def test_good_nodes_hold_the_image_and_did_no_harm(image: str, avoided: tuple[str, ...], good: tuple[str, ...]) -> None:
    assert good_nodes(image, REPORTS, avoided) == good


def test_where_every_node_holds_an_image_none_is_preferred() -> None:
    assert good_nodes("a:1", {node: report(node, a="cached") for node in NODES}, ()) == ()


def test_of_many_nodes_each_slot_is_told_others() -> None:
    good = [f"n{number:02}" for number in range(40)]
    told = [preferred_nodes(good, slot) for slot in range(40)]
    assert {len(nodes) for nodes in told} == {16}
    assert {nodes[0] for nodes in told} == set(good)


def test_pods_that_hold_images_tell_what_their_nodes_hold() -> None:
    cache = {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": {"name": "c", "namespace": "ns", "uid": "u"}}
    (pod,) = build_holding_pods(cache, ImageCacheSpec(images=["a:1"], mode="pods"), "node-b", ["a:1"])
    pod["status"] = {"containerStatuses": [{"name": "image-0", "imageID": "sha256:1"}]}
    agent = {"metadata": {"labels": {LABEL_CACHE: "c"}}, "spec": {"containers": []}}
    assert good_nodes("a:1", {**reports_of_pods([pod, agent]), "node-a": REPORTS["node-a"]}, ()) == ("node-b",)
    assert "" not in reports_of_pods([pod, agent])


def tell(api: FakeApiServer, said: NodeReport) -> None:
    """As the agent of a node writes it."""
    metadata = {
        "name": report_name("cache", said.node),
        "namespace": "team",
        "labels": {LABEL_CACHE: "cache", LABEL_ROLE: ROLE_REPORT},
    }
    data = {REPORT_KEY: said.model_dump_json(exclude_defaults=True)}
    api.store.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def play(story: Callable[[FakeApiServer, FakeNodes], Coroutine[Any, Any, None]]) -> OperatorProcess:
    api = FakeApiServer(Lies())
    nodes = FakeNodes(api, names=NODES)
    process = OperatorProcess(api, lambda operator: [RolloutPoolController(operator)])

    async def main() -> None:
        nodes.register()
        stepping = asyncio.create_task(nodes.run())
        await process.start()
        try:
            await story(api, nodes)
        finally:
            stepping.cancel()
            await process.kill()

    run_in_virtual_time(main())
    return process


def make_pool(api: FakeApiServer, **images: int) -> None:
    warm = [{"image": f"{name}:1", "replicas": count} for name, count in images.items()]
    spec = {"replicas": 10, "warm": warm, "imageCacheRef": "cache"}
    metadata = {"name": "pool", "namespace": "team"}
    api.store.create(
        ROLLOUT_POOLS, {"apiVersion": API_VERSION, "kind": "RolloutPool", "metadata": metadata, "spec": spec}
    )
    api.touch()


def places(api: FakeApiServer) -> list[tuple[str, str]]:
    """Image and node of each sandbox."""
    pods = [item for (resource, _, _), item in api.store.objects.items() if resource == PODS]
    return sorted((pod["spec"]["containers"][0]["image"], pod["spec"].get("nodeName", "")) for pod in pods)


def status(api: FakeApiServer) -> dict[str, Any]:
    pool = api.store.get((ROLLOUT_POOLS, "team", "pool"))
    assert pool is not None
    return dict(pool.get("status") or {})


def test_sandboxes_go_where_their_image_is_and_the_share_of_those_is_told() -> None:
    async def story(api: FakeApiServer, nodes: FakeNodes) -> None:
        for said in (report("node-a"), report("node-b", a="cached"), report("node-c", b="cached")):
            tell(api, said)
        make_pool(api, a=3, b=2)
        await asyncio.sleep(20)
        assert places(api) == [("a:1", "node-b")] * 3 + [("b:1", "node-c")] * 2
        assert status(api)["warmStartFraction"] == 1.0

    play(story)


def test_where_the_good_nodes_are_full_sandboxes_start_elsewhere_and_count_as_cold() -> None:
    async def story(api: FakeApiServer, nodes: FakeNodes) -> None:
        nodes.capacity = 3
        for said in (report("node-a"), report("node-b", a="cached"), report("node-c")):
            tell(api, said)
        make_pool(api, a=4)
        await asyncio.sleep(20)
        assert [node for _, node in places(api)].count("node-b") == 3
        assert status(api)["ready"] == 4
        assert status(api)["warmStartFraction"] == 0.75

    play(story)

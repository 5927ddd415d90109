"""Sandboxes prefer nodes that hold their image, and are counted by whether they got one."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any

import pytest

from sweyard_api.constants import API_VERSION, LABEL_CACHE
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.build.cache_pods import build_holding_pods
from sweyard_operator.cache_agent.protocol import (
    REPORT_KEY,
    ImageReport,
    ImageState,
    NodeReport,
    PullFailure,
    report_name,
)
from sweyard_operator.handlers.rollout_pool import RolloutPoolController
from sweyard_operator.observe.image_cache import LABEL_ROLE, ROLE_REPORT
from sweyard_operator.plan.image_binding import Binding, required_nodes
from sweyard_operator.plan.image_reports import reports_of_pods
from sweyard_operator.plan.preferred_nodes import MAX_PREFERRED, good_nodes, some_nodes
from sweyard_operator.resources import CONFIG_MAPS, IMAGE_CACHES, PODS, ROLLOUT_POOLS
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
    told = [some_nodes(good, slot, MAX_PREFERRED) for slot in range(40)]
    assert {len(nodes) for nodes in told} == {16}
    assert {nodes[0] for nodes in told} == set(good)


def test_pods_that_hold_images_tell_what_their_nodes_hold() -> None:
    cache = {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": {"name": "c", "namespace": "ns", "uid": "u"}}
    (pod,) = build_holding_pods(cache, ImageCacheSpec(images=["a:1"], mode="pods"), "node-b", ["a:1"])
    pod["status"] = {"containerStatuses": [{"name": "image-0", "imageID": "sha256:1"}]}
    agent = {"metadata": {"labels": {LABEL_CACHE: "c"}}, "spec": {"containers": []}}
    assert good_nodes("a:1", {**reports_of_pods([pod, agent]), "node-a": REPORTS["node-a"]}, ()) == ("node-b",)
    assert "" not in reports_of_pods([pod, agent])


@pytest.mark.parametrize(
    ("waits_for", "message", "reason"),
    [
        ("ErrImagePull", "rpc error: code = NotFound desc = reg.io/a:1: not found", PullFailure.NOT_FOUND),
        ("ImagePullBackOff", "ErrImagePull: dial tcp: connect: connection refused", PullFailure.REGISTRY_UNREACHABLE),
        ("ImagePullBackOff", "ErrImagePull: unexpected status: 429 Too Many Requests", PullFailure.RATE_LIMITED),
        ("InvalidImageName", "couldn't parse image name", PullFailure.NOT_FOUND),
        ("ErrImagePull", "tls: failed to verify certificate: x509: unknown", PullFailure.CERTIFICATE_UNKNOWN),
    ],
)
def test_what_a_holding_pod_cannot_pull_has_the_reason_that_an_agent_would_give(
    waits_for: str, message: str, reason: PullFailure
) -> None:
    cache = {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": {"name": "c", "namespace": "ns", "uid": "u"}}
    (pod,) = build_holding_pods(cache, ImageCacheSpec(images=["a:1"], mode="pods"), "node-b", ["a:1"])
    waiting = {"waiting": {"reason": waits_for, "message": message}}
    pod["status"] = {"containerStatuses": [{"name": "image-0", "state": waiting}]}
    said = reports_of_pods([pod])["node-b"].images["a:1"]
    assert (said.state, said.reason) == (ImageState.FAILED, reason)


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


def make_pool(api: FakeApiServer, *, more: Mapping[str, Any] = MappingProxyType({}), **images: int) -> None:
    warm = [{"image": f"{name}:1", "replicas": count} for name, count in images.items()]
    spec = {"replicas": 10, "warm": warm, "imageCacheRef": "cache", **more}
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


ALL = frozenset(NODES)


@pytest.mark.parametrize(
    ("reports", "binding", "nodes"),
    [
        (("cached", "cached", None), Binding(ALL), ("node-a", "node-b")),
        (("cached", "pulling", None), Binding(ALL), ()),
        (("cached", "pulling", None), Binding(ALL, late_images={"a:1"}), ("node-a",)),
        (("waiting", "failed", None), Binding(ALL, late_images={"a:1"}), ()),
        (("cached", "cached", None), Binding(ALL - {"node-a"}), ("node-b",)),
        (("cached", None, None), Binding(ALL - {"node-a"}), ()),
        (("cached", None, None), Binding(ALL, unplaced_images={"a:1"}, late_images={"a:1"}), ()),
        (("cached", "cached", "cached"), Binding(ALL), ()),
        (("cached", None, None), Binding(), ()),
    ],
    ids=[
        "on-all-that-are-to-hold-it",
        "not-yet-on-all",
        "a-sandbox-was-late",
        "late-but-held-by-none",
        "a-holder-is-cordoned",
        "the-only-holder-is-cordoned",
        "waited-for-a-place-in-vain",
        "held-by-all",
        "not-asked-for",
    ],
)
def test_a_sandbox_is_bound_to_holders_once_they_are_there(
    reports: tuple[str | None, ...], binding: Binding, nodes: tuple[str, ...]
) -> None:
    said = {node: report(node, a=state) if state else report(node) for node, state in zip(NODES, reports, strict=True)}
    assert required_nodes("a:1", "a:1", said, binding) == nodes


def make_cache(api: FakeApiServer, **spec: Any) -> None:
    metadata = {"name": "cache", "namespace": "team"}
    api.store.create(
        IMAGE_CACHES, {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": metadata, "spec": spec}
    )


REQUIRED = {"imageAffinity": "required", "startupDeadlineSeconds": 30}


def test_where_required_sandboxes_wait_for_the_nodes_that_hold_their_image_up_to_the_deadline() -> None:
    async def story(api: FakeApiServer, nodes: FakeNodes) -> None:
        nodes.capacity = 3
        make_cache(api, images=["a:1"], copies=1)
        for said in (report("node-a"), report("node-b", a="cached"), report("node-c")):
            tell(api, said)
        make_pool(api, a=4, more=REQUIRED)
        await asyncio.sleep(20)
        assert places(api) == [("a:1", "")] + [("a:1", "node-b")] * 3
        await asyncio.sleep(40)
        assert [node for _, node in places(api)].count("node-b") == 3
        assert status(api)["ready"] == 4, "no sandbox waits for ever"

    play(story)


def test_without_copies_that_are_pulled_ahead_nobody_is_bound() -> None:
    async def story(api: FakeApiServer, nodes: FakeNodes) -> None:
        nodes.capacity = 3
        make_cache(api, images=["a:1"], copies=0)
        for said in (report("node-a"), report("node-b", a="cached"), report("node-c")):
            tell(api, said)
        make_pool(api, a=4, more=REQUIRED)
        await asyncio.sleep(20)
        assert status(api)["ready"] == 4

    play(story)

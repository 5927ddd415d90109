"""ImageCache: where images go, what is said of them, and what is removed. All pure."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.cache_agent.protocol import ImageReport, ImageState, NodeReport, PullFailure, assignment_name
from sweyard_operator.observe.image_cache import ObservedCache, usable_nodes, wanted_images
from sweyard_operator.plan.image_cache import plan_image_cache
from sweyard_operator.plan.placement import place
from sweyard_operator.plan.plan import Plan

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CACHED = ImageReport(state=ImageState.CACHED)
CACHE = {
    "apiVersion": "sweyard.dev/v1alpha1",
    "kind": "ImageCache",
    "metadata": {"name": "c", "namespace": "ns", "uid": "u", "generation": 3},
}
NAMES = st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, max_size=12)


def plan(
    *images: str, nodes: tuple[str, ...] = ("n1", "n2"), reports: dict[str, NodeReport] | None = None, **spec: Any
) -> Plan:
    observed = ObservedCache(images, None, nodes, reports or {}, spec.pop("config_maps", ()), spec.pop("pods", ()))
    parsed = ImageCacheSpec.model_validate(spec)
    return plan_image_cache(CACHE, parsed, observed, agent_image="agent:1", now=NOW)


def report(node: str, **images: ImageReport) -> NodeReport:
    return NodeReport(node=node, images={f"{name}:1": said for name, said in images.items()}, used_bytes=100)


def conditions(made: Plan) -> dict[str, tuple[str, str]]:
    assert made.status is not None
    return {c["type"]: (c["status"], c["reason"]) for c in made.status["conditions"]}


@given(images=NAMES, nodes=NAMES, copies=st.integers(0, 15))
def test_each_image_is_on_as_many_nodes_as_asked_for(images: list[str], nodes: list[str], copies: int) -> None:
    placed = place(images, nodes, copies)
    for image in images:
        assert sum(image in held for held in placed.values()) == min(copies, len(nodes))


@given(images=NAMES, nodes=NAMES)
def test_a_node_keeps_the_order_of_need(images: list[str], nodes: list[str]) -> None:
    for held in place(images, nodes, 2).values():
        assert list(held) == [image for image in images if image in held]


def test_load_is_bounded_and_a_node_that_leaves_moves_little() -> None:
    images, nodes = [f"image-{i}:1" for i in range(2_000)], [f"node-{i}" for i in range(20)]
    before, after = place(images, nodes, 2), place(images, nodes[:-1], 2)
    assert max(len(held) for held in before.values()) <= 1.1 * 2_000 * 2 / 20 + 1
    moved = sum(len(set(after[node]) - set(before[node])) for node in after)
    assert moved <= 3 * len(before["node-19"])


def test_an_agent_finds_its_assignment_before_it_starts() -> None:
    kinds = [manifest["kind"] for manifest in plan("a:1", images=["a:1"]).apply]
    assert kinds == ["ConfigMap", "ConfigMap", "ServiceAccount", "RoleBinding", "DaemonSet"]


def test_no_copies_means_no_agent() -> None:
    assert plan("a:1", images=["a:1"], copies=0).apply == ()


@pytest.mark.parametrize(
    ("nodes", "reports", "ready", "degraded"),
    [
        (("n1",), {"n1": report("n1", a=CACHED)}, ("True", "Cached"), ("False", "AllPullsSucceed")),
        (("n1", "n2"), {"n1": report("n1", a=CACHED)}, ("False", "Pulling"), ("False", "AllPullsSucceed")),
        (
            ("n1",),
            {"n1": report("n1", a=ImageReport(state=ImageState.FAILED, reason=PullFailure.NOT_FOUND))},
            ("False", "PullsFailed"),
            ("True", "NotFound"),
        ),
        ((), {}, ("False", "NoNodes"), ("False", "AllPullsSucceed")),
    ],
    ids=["cached", "one-node-silent", "missing-tag", "no-node"],
)
def test_conditions_say_what_the_nodes_say(
    nodes: tuple[str, ...], reports: dict[str, NodeReport], ready: tuple[str, str], degraded: tuple[str, str]
) -> None:
    found = conditions(plan("a:1", nodes=nodes, reports=reports, images=["a:1"]))
    assert (found["Ready"], found["Degraded"]) == (ready, degraded)


def test_a_used_up_budget_is_disk_pressure() -> None:
    failed = ImageReport(state=ImageState.FAILED, reason=PullFailure.DISK_BUDGET)
    made = plan("a:1", nodes=("n1",), reports={"n1": report("n1", a=failed)}, images=["a:1"], diskBudget="1Gi")
    assert conditions(made)["DiskPressure"] == ("True", "DiskBudget")


def test_objects_of_a_node_that_is_gone_are_deleted() -> None:
    def config_map(node: str) -> dict[str, Any]:
        return {"metadata": {"name": assignment_name("c", node), "namespace": "ns", "uid": node}}

    made = plan("a:1", nodes=("n1",), images=["a:1"], config_maps=(config_map("n1"), config_map("gone")))
    assert [deletion.uid for deletion in made.delete] == ["gone"]


def test_mode_pods_holds_images_without_privilege_and_reads_its_pods() -> None:
    created = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods").create
    assert "hostPath" not in str(created)
    assert created[0]["spec"]["automountServiceAccountToken"] is False
    pod = {**created[0], "status": {"containerStatuses": [{"name": "image-0", "imageID": "sha256:1"}]}}
    made = plan("a:1", nodes=("n1",), images=["a:1"], mode="pods", pods=(pod,))
    assert conditions(made)["Ready"] == ("True", "Cached")
    assert made.delete == ()


@pytest.mark.parametrize(
    ("spec", "ready", "usable"),
    [({}, "True", True), ({"unschedulable": True}, "True", False), ({}, "False", False)],
    ids=["ready", "cordoned", "not-ready"],
)
def test_a_cordoned_or_lost_node_is_not_waited_for(spec: dict[str, Any], ready: str, usable: bool) -> None:
    node = {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
    assert (usable_nodes([node], {}) == ("n",)) is usable


def test_images_come_once_inline_first() -> None:
    assert wanted_images(["a:1"], {"data": {"images": "b:1\n\na:1\n"}}) == ("a:1", "b:1")

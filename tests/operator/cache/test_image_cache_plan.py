"""ImageCache: where images go, what is said of them, and what is removed. All pure."""

from typing import Any

import pytest
from tests.operator.cache.planned_cache import CACHE, HOST, NOW, conditions, plan

from sweyard_api.image_cache import ImageCacheSpec
from sweyard_operator.build.cache_agent import build_assignment
from sweyard_operator.cache_agent.protocol import (
    Assignment,
    ImageReport,
    ImageState,
    NodeReport,
    PullFailure,
    assignment_name,
    report_name,
)
from sweyard_operator.observe.image_cache import (
    ObservedCache,
    absent_nodes,
    disk_bytes_of,
    read_assigned,
    usable_nodes,
    wanted_images,
)
from sweyard_operator.observe.listed_images import listed_images, listed_sizes
from sweyard_operator.plan.image_cache import plan_image_cache
from sweyard_operator.plan.image_inputs import placement_inputs
from sweyard_operator.plan.plan import Plan

CACHED = ImageReport(state=ImageState.CACHED)


def report(node: str, **images: ImageReport) -> NodeReport:
    return NodeReport(node=node, images={f"{name}:1": said for name, said in images.items()}, used_bytes=100)


def test_an_agent_finds_its_assignment_before_it_starts() -> None:
    kinds = [manifest["kind"] for manifest in plan("a:1", images=["a:1"]).apply]
    assert kinds == ["ConfigMap", "ConfigMap", "ServiceAccount", "RoleBinding", "DaemonSet"]


def test_agents_reach_the_runtime_where_the_installation_says_that_it_is() -> None:
    (daemon_set,) = [manifest for manifest in plan("a:1", images=["a:1"]).apply if manifest["kind"] == "DaemonSet"]
    pod = daemon_set["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {"name": "SWEYARD_CRI_SOCKET", "value": HOST.runtime_socket} in container["env"]
    directory = "/run/k3s/containerd"
    assert pod["volumes"] == [{"name": "runtime", "hostPath": {"path": directory, "type": "Directory"}}]
    assert container["volumeMounts"] == [{"name": "runtime", "mountPath": directory}]


def test_no_copies_mean_that_agents_pull_nothing_and_keep_what_sandboxes_bring() -> None:
    made = plan("team/a:1", "team/a:2", images=["team/a:1", "team/a:2"], copies=0)
    told = list(assignments(made).values())
    assert [(one.images, one.families) for one in told] == [((), ("docker.io/team/a",))] * 2
    assert conditions(made)["Ready"] == ("True", "OnDemand")
    assert plan("a:1", images=["a:1"], copies=0, mode="pods").create == ()


def test_what_is_pulled_ahead_has_no_families() -> None:
    assert {one.families for one in assignments(plan("a:1", images=["a:1"])).values()} == {()}


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
        (("n1",), {}, ("False", "Pulling"), ("Unknown", "NotReported")),
    ],
    ids=["cached", "one-node-silent", "missing-tag", "no-node", "nobody-reported"],
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


def test_images_that_take_more_than_the_budget_are_disk_pressure_although_all_are_there() -> None:
    said = report("n1", a=CACHED).model_copy(update={"used_bytes": 2 * 2**30})
    made = plan("a:1", nodes=("n1",), reports={"n1": said}, images=["a:1"], diskBudget="1Gi")
    assert conditions(made)["Ready"] == ("True", "Cached")
    assert conditions(made)["DiskPressure"] == ("True", "OverBudget")


def test_of_disks_nothing_is_claimed_before_nodes_have_reported() -> None:
    unheard = plan("a:1", images=["a:1"])
    assert conditions(unheard)["DiskPressure"] == ("Unknown", "NotReported")
    assert {event.reason for event in unheard.events} == {"Pulling"}
    half = plan("a:1", images=["a:1"], reports={"n1": report("n1", a=CACHED)}).status
    assert half is not None
    said = {c["type"]: c["message"] for c in half["conditions"]}
    assert said["DiskPressure"] == "every node that has reported has room for its images"


def test_what_a_registry_asked_to_wait_for_is_said_and_is_no_failure() -> None:
    limited = ImageReport(state=ImageState.WAITING, reason=PullFailure.RATE_LIMITED, message="left alone: 429")
    made = plan("a:1", nodes=("n1",), reports={"n1": report("n1", a=limited)}, images=["a:1"])
    assert made.status is not None
    assert (made.status["failed"], conditions(made)["Degraded"]) == (0, ("False", "AllPullsSucceed"))
    ready = next(c for c in made.status["conditions"] if c["type"] == "Ready")
    assert ready["message"] == "0 of 1 images are on their nodes; a:1 waits on n1: RateLimited: left alone: 429"


def test_an_empty_list_of_images_is_told_as_that() -> None:
    assert conditions(plan(images=[]))["Ready"] == ("True", "NoImages")
    observed = ObservedCache((), None, ("n1",), {}, (), (), empty_source="tasks")
    spec = ImageCacheSpec.model_validate({"imagesFrom": "tasks"})
    empty = plan_image_cache(CACHE, spec, observed, agent_host=HOST, now=NOW)
    assert conditions(empty)["Ready"] == ("False", "SourceEmpty")


def test_objects_of_a_node_that_is_gone_are_deleted() -> None:
    def config_map(node: str) -> dict[str, Any]:
        return {"metadata": {"name": assignment_name("c", node), "namespace": "ns", "uid": node}}

    made = plan("a:1", nodes=("n1",), images=["a:1"], config_maps=(config_map("n1"), config_map("gone")))
    assert [deletion.uid for deletion in made.delete] == ["gone"]


def test_the_report_of_a_cordoned_node_stays_since_it_says_what_its_agent_may_evict() -> None:
    nodes = [
        {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}}
        for name, spec, ready in (
            ("n1", {}, "True"),
            ("lost", {}, "Unknown"),
            ("cordoned", {"unschedulable": True}, "True"),
        )
    ]
    absent = absent_nodes(nodes, {})
    assert (usable_nodes(nodes, {}), absent, absent_nodes(nodes, {"pool": "b"})) == (("n1",), ("cordoned", "lost"), ())
    maps = tuple(
        {"metadata": {"name": name("c", node), "namespace": "ns", "uid": f"{name.__name__} {node}"}}
        for node in ("n1", "cordoned", "gone")
        for name in (assignment_name, report_name)
    )
    made = plan("a:1", nodes=("n1",), images=["a:1"], config_maps=maps, absent_nodes=absent)
    assert [deletion.uid for deletion in made.delete] == [
        "assignment_name cordoned",
        "assignment_name gone",
        "report_name gone",
    ]
    left = plan("a:1", nodes=("n1",), images=["a:1"], config_maps=maps, absent_nodes=absent, mode="pods")
    assert len(left.delete) == len(maps)


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


def assignments(made: Plan) -> dict[str, Assignment]:
    maps = [manifest for manifest in made.apply if manifest["kind"] == "ConfigMap"]
    return {item["metadata"]["name"]: Assignment.model_validate_json(item["data"]["assignment.json"]) for item in maps}


def test_what_nodes_were_told_and_hold_stays_where_it_is() -> None:
    images = [f"i{number}:1" for number in range(8)]
    told = {"n1": tuple(images[:4]), "n2": tuple(images[4:])}
    reports = {"n1": NodeReport(node="n1", images={images[0]: CACHED}), "n2": NodeReport(node="n2", images={})}
    observed = ObservedCache(
        tuple(images),
        None,
        ("n1", "n2", "n3"),
        reports,
        (),
        (),
        told={node: Assignment(images=names, max_parallel_pulls=3) for node, names in told.items()},
    )
    spec = ImageCacheSpec(images=images, copies=1)
    made = assignments(plan_image_cache(CACHE, spec, observed, agent_host=HOST, now=NOW))
    assert images[0] in made["c-n1-assignment"].images
    placed = {node: set(made[f"c-{node}-assignment"].images) for node in ("n1", "n2", "n3")}
    assert placed["n1"] <= set(told["n1"])
    assert placed["n2"] <= set(told["n2"])
    assert 2 <= len(placed["n3"]) <= 3, "only what was above the bound"


def test_what_is_being_pulled_is_not_told_to_others() -> None:
    pulling = ImageReport(state=ImageState.PULLING)
    reports = {"n1": NodeReport(node="n1", images={f"i{number}:1": pulling for number in range(4, 9)})}
    told = {"n1": Assignment(images=tuple(f"i{number}:1" for number in range(9)), max_parallel_pulls=6)}
    observed = ObservedCache(told["n1"].images, None, ("n1", "n2"), reports, (), (), told=told)
    spec = ImageCacheSpec(images=list(observed.images), copies=1)
    made = assignments(plan_image_cache(CACHE, spec, observed, agent_host=HOST, now=NOW))
    assert set(reports["n1"].images) <= set(made["c-n1-assignment"].images)
    assert len(made["c-n2-assignment"].images) == 4


@pytest.mark.parametrize(
    ("asked", "disk", "budget"),
    [("1Gi", None, 2**30), (None, 100 * 2**30, 75 * 2**30), ("90Gi", 100 * 2**30, 75 * 2**30), (None, None, None)],
    ids=["asked", "disk", "asked-too-much", "unknown"],
)
def test_a_budget_leaves_the_kubelet_nothing_to_collect(
    asked: str | None, disk: int | None, budget: int | None
) -> None:
    observed = ObservedCache(("a:1",), None, ("n1",), {}, (), (), disk_bytes={} if disk is None else {"n1": disk})
    spec = ImageCacheSpec.model_validate({"images": ["a:1"], **({"diskBudget": asked} if asked else {})})
    made = assignments(plan_image_cache(CACHE, spec, observed, agent_host=HOST, now=NOW))
    assert made["c-n1-assignment"].disk_budget_bytes == budget


def test_assignments_and_disks_are_read_as_they_were_written() -> None:
    written = build_assignment(CACHE, "n1", Assignment(images=("a:1",), max_parallel_pulls=1))
    assert read_assigned("c", [written]) == {"n1": ("a:1",)}
    nodes = [
        {"metadata": {"name": "n1"}, "status": {"capacity": {"ephemeral-storage": "2Ki"}}},
        {"metadata": {"name": "n2"}},
    ]
    assert disk_bytes_of(nodes) == {"n1": 2048}


def test_sizes_that_a_registry_told_go_before_what_nodes_list() -> None:
    source = {"data": {"images": "# made by hand\na:1 900 300\nb:1 700\nc:1\nd:1 large\n"}}
    assert listed_images(source) == ("a:1", "b:1", "c:1", "d:1")
    sizes = listed_sizes(source)
    assert sizes == {"a:1": (900, 300), "b:1": (700, 0)}
    held = {image: ImageReport(state=ImageState.CACHED, num_bytes=100) for image in ("a:1", "c:1")}
    reports = {"n1": NodeReport(node="n1", images=held)}
    observed = ObservedCache(listed_images(source), None, ("n1",), reports, (), (), sizes=sizes)
    images, _ = placement_inputs(observed, reports, {})
    assert [(one.num_bytes, one.shared_bytes) for one in images] == [(900, 300), (700, 0), (100, 0), (None, 0)]


@pytest.mark.parametrize(
    "second",
    [
        ImageReport(state=ImageState.CACHED, digest="bbb"),
        ImageReport(state=ImageState.CACHED, digest="aaa", reason=PullFailure.TAG_MOVED, message="moved"),
    ],
    ids=["nodes-differ", "an-agent-asked"],
)
def test_a_tag_that_moved_is_said_and_the_image_counts_as_cached(second: ImageReport) -> None:
    reports = {"n1": report("n1", a=ImageReport(state=ImageState.CACHED, digest="aaa")), "n2": report("n2", a=second)}
    made = plan("a:1", reports=reports, images=["a:1"])
    assert conditions(made)["Ready"] == ("True", "Cached")
    assert conditions(made)["Degraded"] == ("True", "TagMoved")
    assert made.status is not None
    assert made.status["failed"] == 0
    assert [failure["node"] for failure in made.status["failures"]] == ["n2"]


def test_where_nodes_could_exceed_the_registrys_limit_each_is_told_its_part() -> None:
    made = plan("a:1", "b:1", images=["a:1", "b:1"], maxParallelPullsPerRegistry=1, maxParallelPullsPerNode=1)
    assert sorted(sum((one.registry_pulls or {}).values()) for one in assignments(made).values()) == [0, 1]
    assert {one.registry_pulls for one in assignments(plan("a:1", images=["a:1"])).values()} == {None}


def test_of_many_nodes_only_those_are_written_to_whose_assignment_changes() -> None:
    nodes = tuple(f"n{number:03}" for number in range(200))
    images = tuple(f"i{number}:1" for number in range(400))
    spec = ImageCacheSpec(images=list(images), copies=1, maxParallelPullsPerRegistry=50)

    def planned(reports: dict[str, NodeReport], told: dict[str, Assignment], here: tuple[str, ...] = nodes) -> Plan:
        observed = ObservedCache(images, None, here, reports, (), (), told=told)
        return plan_image_cache(CACHE, spec, observed, agent_host=HOST, now=NOW)

    first = assignments(planned({}, {}))
    assert len(first) == len(nodes)
    told = {node: first[assignment_name("c", node)] for node in nodes}
    reports = {
        node: NodeReport(node=node, images=dict.fromkeys(one.images, CACHED), registry_pulls=one.registry_pulls)
        for node, one in told.items()
    }
    settled = {node: one.model_copy(update={"registry_pulls": {}}) for node, one in told.items()}
    assert not assignments(planned(reports, settled)), "all is there, as after a restart of the operator"
    waiting = dict.fromkeys(told["n007"].images, ImageReport(state=ImageState.WAITING))
    changed = assignments(planned({**reports, "n007": NodeReport(node="n007", images=waiting)}, settled))
    assert list(changed) == [assignment_name("c", "n007")], "it may pull again, and nobody else is told so"
    lost = assignments(planned(reports, settled, nodes[:-1]))
    assert 0 < len(lost) <= len(settled[nodes[-1]].images), "those that take its images"

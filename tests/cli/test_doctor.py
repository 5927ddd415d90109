"""sweyard doctor: what it says of nodes, kinds and the disk that images may take."""

from typing import Any

import pytest

from sweyard_cli.doctor.finding import Level
from sweyard_cli.doctor.image_disk import NodeDisk, check_budgets, default_collection, read_collection, read_max_age
from sweyard_cli.doctor.nodes import check_kinds, check_nodes, check_runtimes

GIB = 2**30


def node(name: str, arch: str = "amd64", ready: str = "True", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    metadata = {"name": name, "labels": {"kubernetes.io/arch": arch}}
    return {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("config", "share"),
    [
        ({}, 0.85),
        ({"imageGCHighThresholdPercent": 70}, 0.70),
        ({"evictionHard": {"imagefs.available": "25%", "nodefs.available": "10%"}}, 0.75),
        ({"imageGCHighThresholdPercent": 95, "evictionHard": {"imagefs.available": "1Gi"}}, 0.95),
    ],
    ids=["defaults", "collects-early", "evicts-earlier", "bytes-say-no-share"],
)
def test_a_kubelet_removes_images_from_the_first_of_its_limits_on(config: dict[str, Any], share: float) -> None:
    assert read_collection(config) == pytest.approx(share)


def test_a_budget_above_the_kubelets_limit_is_a_problem_with_the_number_to_set() -> None:
    disks = [NodeDisk("n1", 100 * GIB, 0.70, is_told=True), NodeDisk("n2", 100 * GIB, 0.85, is_told=True)]
    (found,) = check_budgets("ns/c", dict.fromkeys(("n1", "n2"), 75 * GIB), disks)
    assert found.level is Level.PROBLEM
    assert "budget of n1 is 75Gi" in found.message
    assert "set diskBudget below 70Gi" in found.message


def test_a_disk_of_unknown_size_without_a_budget_is_a_problem() -> None:
    (found,) = check_budgets("ns/c", {}, [NodeDisk("n1", 0, 0.85, is_told=False)])
    assert found.level is Level.PROBLEM
    assert "n1" in found.message


def test_a_kubelet_that_removes_images_by_age_is_told_of_beside_its_budget() -> None:
    aged = NodeDisk("n1", 100 * GIB, 0.85, is_told=True, max_age=read_max_age({"imageMaximumGCAge": "24h0m0s"}))
    warning, rest = check_budgets("ns/c", {"n1": 75 * GIB}, [aged])
    assert (warning.level, rest.level) == (Level.WARNING, Level.OK)
    assert "of n1 remove what no pod has used for 24h0m0s" in warning.message
    assert read_max_age({}) == read_max_age({"imageMaximumGCAge": "0s"}) == "0s"


@pytest.mark.parametrize(
    ("runtime", "socket"),
    [
        ("containerd://2.1.4", None),
        ("containerd://2.1.4-k3s1", "/run/k3s/containerd/containerd.sock"),
        ("cri-o://1.33.0", "/run/crio/crio.sock"),
    ],
)
def test_a_runtime_that_listens_elsewhere_is_told_with_its_socket(runtime: str, socket: str | None) -> None:
    nodes = [{"status": {"nodeInfo": {"containerRuntimeVersion": runtime}}}, {}]
    found = [finding.message for finding in check_runtimes(nodes)]
    wanted = (
        f"1 of 2 nodes run {runtime}: agents of ImageCaches find it if the chart has cacheAgent.runtimeSocket={socket}"
    )
    assert found == ([] if socket is None else [wanted])


@pytest.mark.parametrize("is_told", [True, False])
def test_what_was_guessed_is_said(is_told: bool) -> None:
    disks = [NodeDisk("n1", 100 * GIB, default_collection(), is_told)]
    (found,) = check_budgets("ns/c", {"n1": 75 * GIB}, disks)
    assert found.level is Level.OK
    assert ("could not be asked" in found.message) is not is_told


@pytest.mark.parametrize(
    ("nodes", "levels"),
    [
        ([node("a"), node("b", unschedulable=True)], [Level.OK]),
        ([node("a"), node("b", "arm64")], [Level.OK, Level.WARNING]),
        ([node("a", ready="Unknown")], [Level.PROBLEM]),
    ],
    ids=["one-cordoned", "two-architectures", "none-ready"],
)
def test_nodes_are_judged(nodes: list[dict[str, Any]], levels: list[Level]) -> None:
    assert [finding.level for finding in check_nodes(nodes)] == levels


def test_missing_kinds_are_named() -> None:
    assert check_kinds(["trainingruns"], ["trainingruns"]).level is Level.OK
    assert "imagecaches" in check_kinds(["trainingruns"], ["trainingruns", "imagecaches"]).message

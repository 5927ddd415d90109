"""sweyard doctor: versions, rights, clocks, names, volumes, GPUs and registries."""

import re
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.message import Message
from types import SimpleNamespace
from typing import Any

import pytest

from sweyard_api.resolve import resolve
from sweyard_cli.doctor.accelerators import check_accelerators
from sweyard_cli.doctor.clocks import check_clocks
from sweyard_cli.doctor.dns import check_dns
from sweyard_cli.doctor.finding import Finding, Level
from sweyard_cli.doctor.network_trial import judge
from sweyard_cli.doctor.permissions import RIGHTS, check_permissions
from sweyard_cli.doctor.registries import check_registries, judge_limit
from sweyard_cli.doctor.running_operator import check_operator
from sweyard_cli.doctor.storage import check_claim, check_runtime_class, check_storage
from sweyard_cli.doctor.version import check_version
from sweyard_cli.doctor.wanted import Wanted, wanted_by

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OK, WARNING, PROBLEM = Level.OK, Level.WARNING, Level.PROBLEM


def claims(**phases: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name}, "status": {"phase": phase}} for name, phase in phases.items()]


def storage_class(name: str, default: str = "false") -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {"storageclass.kubernetes.io/is-default-class": default}}}


def gpu_node(name: str, gpus: int, driver: str = "580.95.05") -> dict[str, Any]:
    labels = {"nvidia.com/gpu.product": "H200", "nvidia.com/cuda.driver-version.full": driver}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}


def operator(name: str, ready: str) -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready}]}
    return {"metadata": {"namespace": "system", "name": name}, "status": status}


def endpoints(*ready: bool) -> list[dict[str, Any]]:
    return [{"endpoints": [{"conditions": {"ready": each}} for each in ready]}]


def clocks(**seconds: float) -> Finding | None:
    return check_clocks({name: NOW - timedelta(seconds=behind) for name, behind in seconds.items()}, NOW)


@pytest.mark.parametrize(
    ("found", "level", "said"),
    [
        (check_version("1", "31+"), OK, "Kubernetes 1.31+"),
        (check_version("1", "30"), PROBLEM, "upgrade the cluster to 1.31 or later"),
        (check_permissions("n", dict.fromkeys(RIGHTS, True)), OK, "you may do in namespace n"),
        (check_permissions("n", {("create", "", "pods/exec"): False}), WARNING, "you may not create pods/exec"),
        (clocks(a=9, b=-1), OK, "clocks of nodes agree"),
        (clocks(a=9, b=-20, c=100), PROBLEM, r"b 20 s ahead, c 100 s behind.*chrony"),
        (check_dns(endpoints(True, False)), OK, "1 server of the cluster's DNS answers"),
        (check_dns(endpoints(True, True)), OK, "2 servers of the cluster's DNS answer"),
        (check_operator([]), PROBLEM, "no operator runs.*install the chart"),
        (check_operator([operator("a", "False"), operator("b", "True")]), OK, "an operator runs, system/b"),
        (check_operator([operator("a", "False")]), PROBLEM, "kubectl -n system describe pod a"),
        (check_dns(endpoints(False)), WARNING, "get pods -l k8s-app=kube-dns"),
        (check_dns([]), WARNING, "no server of the cluster's DNS is ready"),
        (check_storage([storage_class("a"), storage_class("b", "true")], None), OK, "default storage class, b"),
        (check_storage([storage_class("a")], None), WARNING, "must name one .* there are a"),
        (check_storage([storage_class("a")], "a"), OK, "storage class a exists"),
        (
            check_storage([], "nfs"),
            PROBLEM,
            "storage.storageClassName nfs: no such storage class; there is none at all",
        ),
        (check_claim(claims(runs="Bound"), "runs", "lab"), OK, r"volume runs exists \(Bound\)"),
        (check_claim(claims(runs="Pending"), "runs", "lab"), OK, r"volume runs exists \(Pending\)"),
        (check_claim(claims(runs="Lost"), "runs", "lab"), PROBLEM, "kubectl describe pvc runs"),
        (check_claim(claims(a="Bound", b="Bound"), "runs", "lab"), PROBLEM, "namespace lab; there are a, b: create it"),
        (check_claim([], "runs", "lab"), PROBLEM, "there is none: create it, or leave claimName out"),
        (check_runtime_class(["gvisor"], "gvisor"), OK, "runtime class gvisor exists"),
        (check_runtime_class(["gvisor"], "kata"), PROBLEM, "no such RuntimeClass; there are gvisor"),
        (judge_limit("docker.io", "76;w=21600", 40), OK, "76 pulls left for this address in 6 hours"),
        (judge_limit("docker.io", "10;w=21600", 40), WARNING, "fewer than the 40 images"),
        (judge_limit("ghcr.io", None, 40), OK, "names no limit of pulls"),
        (judge(True), OK, "network policies are enforced"),
        (judge(False), PROBLEM, "not enforced.*install a network plugin"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_check_tells_what_it_found_and_how_to_mend_it(found: Finding | None, level: Level, said: str) -> None:
    assert found is not None
    assert found.level is level
    assert re.search(said, found.message), found.message


def test_what_is_not_asked_for_is_not_judged() -> None:
    assert check_runtime_class([], None) is None
    assert check_clocks({}, NOW) is None


@pytest.mark.parametrize(
    ("nodes", "wanted", "expected"),
    [
        ([], {}, [(OK, "nodes offer no GPUs, and nothing here asks for any")]),
        ([], {"nvidia.com/gpu": 8}, [(PROBLEM, "wants 8 nvidia.com/gpu and nodes offer 0")]),
        (
            [gpu_node("a", 8), gpu_node("b", 8)],
            {"nvidia.com/gpu": 16},
            [(OK, "16 nvidia.com/gpu: 2 nodes with H200, driver 580.95.05")],
        ),
        (
            [gpu_node("a", 8, "550.54.15")],
            {},
            [(OK, "1 node with H200"), (PROBLEM, r"too old for CUDA 13 \(a has 550.54.15\): install 580")],
        ),
    ],
    ids=["none", "none-but-wanted", "enough", "old-driver"],
)
def test_gpus_are_counted_against_the_run(
    nodes: list[dict[str, Any]], wanted: Mapping[str, int], expected: list[tuple[Level, str]]
) -> None:
    found = list(check_accelerators(nodes, wanted))
    assert [finding.level for finding in found] == [level for level, _ in expected]
    for finding, (_, said) in zip(found, expected, strict=True):
        assert re.search(said, finding.message), finding.message


def test_a_run_asks_for_what_its_pods_will() -> None:
    spec = {
        "preset": "tiny",
        "tasks": {"train": {"dataset": "tiny"}},
        "trainer": {"replicas": 2, "resources": {"limits": {"nvidia.com/gpu": "8"}}},
        "inference": {"replicas": 3, "resources": {"limits": {"nvidia.com/gpu": "4"}}},
        "storage": {"storageClassName": "fast"},
        "sandboxes": {"runtimeClassName": "gvisor"},
    }
    assert wanted_by(resolve(spec)) == Wanted({"nvidia.com/gpu": 28}, "fast", None, "gvisor")
    claimed = wanted_by(resolve({**spec, "storage": {"claimName": "runs"}}))
    assert (claimed.claim, claimed.storage_class) == ("runs", None)


class FakeRegistries:
    """Answers by host: headers, or the status that it refuses with."""

    def __init__(self, answers: Mapping[str, Mapping[str, str] | int]) -> None:
        self._answers = answers
        self.asked: list[str] = []

    @contextmanager
    def open(self, method: str, host: str, path: str, *, headers: Mapping[str, str] | None = None) -> Iterator[Any]:
        self.asked.append(f"{method} {host}{path}")
        answer = self._answers.get(host)
        if answer is None:
            raise OSError("no route to host")
        if isinstance(answer, int):
            raise urllib.error.HTTPError(path, answer, "Refused", Message(), None)
        told = Message()
        for name, value in answer.items():
            told[name] = value
        yield SimpleNamespace(headers=told)


def test_each_registry_is_asked_once_for_a_few_of_its_images_without_a_pull() -> None:
    registries = FakeRegistries({"docker.io": {"ratelimit-remaining": "5;w=21600"}, "ghcr.io": 404})
    images = [*(f"python:{minor}" for minor in range(9)), "ghcr.io/a/b:1", "quay.io/c/d:1"]
    limited, missing, away = check_registries(images, registries)
    assert (limited.level, missing.level, away.level) == (WARNING, PROBLEM, WARNING)
    assert "5 more pulls in 6 hours, fewer than the 9 images" in limited.message
    assert "ghcr.io/a/b:1: the registry answers 404" in missing.message
    assert "quay.io does not answer from here (no route to host)" in away.message
    assert registries.asked[:2] == [f"HEAD docker.io/v2/library/python/manifests/{minor}" for minor in (0, 1)]
    assert len(registries.asked) == 5

"""Engines that span pods: which pod serves, where the others find it, and how many there are."""

import contextlib
import functools
import http.server
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.operator.run.manifests import SETTINGS, env_of, make_run, pod_of

from sweyard_api.engine_command import ENGINE_START, HEADLESS
from sweyard_cluster.testing import TestCluster
from sweyard_operator.build.disruption_budgets import build_disruption_budgets
from sweyard_operator.build.engine import build_engines
from sweyard_operator.build.network_policies import build_network_policies
from sweyard_operator.build.trainer_job import engine_urls
from sweyard_operator.build.workload import build_pod_sets
from sweyard_operator.resources import STATEFUL_SETS, name_of
from sweyard_operator.testing.run_world import RunWorld

Make = Callable[..., RunWorld]
SPANNING: dict[str, Any] = {
    "replicas": 3,
    "tensorParallel": 8,
    "pipelineParallel": 2,
    "podsPerEngine": 2,
    "resources": {"limits": {"nvidia.com/gpu": 8}},
}
GPU = {"device": "auto"}
ECHO = """#!/bin/sh
case "$2" in "import socket"*) exec rm "${0%/*}/serves" 2>/dev/null;; esac
for argument in "$@"; do printf "%s\\n" "$argument"; done
"""
"""An interpreter that says what it is told. With a file `serves` it finds, once, that an old server serves yet."""


@pytest.fixture
def spanning() -> dict[str, Any]:
    return build_engines(make_run(inference=SPANNING, trainer=GPU), SETTINGS)


def start(manifest: dict[str, Any], pod: str, directory: Path) -> list[str]:
    """The arguments that the pod of this name starts its interpreter with."""
    (container,) = pod_of(manifest)["containers"]
    return run_as(container, container["command"], pod, directory)


def run_as(container: dict[str, Any], command: list[str], pod: str, directory: Path) -> list[str]:
    echo = directory / "python"
    echo.write_text(ECHO)
    echo.chmod(0o755)
    told = {name: value for name, value in env_of(container).items() if isinstance(value, str)}
    environment = {**told, "SWEYARD_POD_NAME": pod, "PATH": f"{directory}:/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("ordinal", "rank", "leader"),
    [
        pytest.param(0, "0", 0, id="the first pod serves"),
        pytest.param(1, "1", 0, id="the second works for the first"),
        pytest.param(4, "0", 4, id="the third engine's first pod serves"),
        pytest.param(5, "1", 4, id="its second works for it"),
    ],
)
def test_each_pod_knows_its_place_by_its_name(
    spanning: dict[str, Any], tmp_path: Path, ordinal: int, rank: str, leader: int
) -> None:
    told = start(spanning, f"demo-engine-{ordinal}", tmp_path)
    assert "\n".join(told).startswith("\n".join(ENGINE_START))
    assert told[-8:] == [
        *("--nnodes", "2", "--node-rank", rank),
        *("--master-addr", f"demo-engine-{leader}.demo-engine"),
        *("--master-port", "29501"),
    ]
    assert (HEADLESS in told) == (rank != "0")
    assert told[told.index("--tensor-parallel-size") + 1] == "8"
    assert told[told.index("--pipeline-parallel-size") + 1] == "2"


def test_a_pod_that_starts_again_waits_for_the_end_of_the_server_that_served_with_its_last_life(
    spanning: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "serves").touch()
    assert HEADLESS in start(spanning, "demo-engine-1", tmp_path)
    assert not (tmp_path / "serves").exists()


@pytest.mark.parametrize("probe", ["startupProbe", "readinessProbe", "livenessProbe"])
def test_every_pod_of_an_engine_is_as_well_as_the_one_that_serves(
    spanning: dict[str, Any], tmp_path: Path, probe: str
) -> None:
    (container,) = pod_of(spanning)["containers"]
    told = run_as(container, container[probe]["exec"]["command"], "demo-engine-3", tmp_path)
    assert told[0] == "-c"
    assert told[-3:-1] == ["http://demo-engine-2.demo-engine:8000/health", "0"]


@pytest.mark.parametrize(
    ("status", "waited"),
    [
        pytest.param(200, None, id="it serves"),
        pytest.param(500, [40.0], id="it cannot serve now"),
        pytest.param(None, [0], id="it has ended"),
    ],
)
def test_the_other_pods_wait_for_a_server_but_not_for_one_that_has_ended(
    spanning: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int | None, waited: list[float]
) -> None:
    sleeps: list[float] = []
    monkeypatch.setattr(time, "sleep", sleeps.append)
    with answering(status) as address, contextlib.ExitStack() as ends:
        if waited is not None:
            ends.enter_context(pytest.raises(OSError, match=r"refused|500"))
        probe(spanning, tmp_path, monkeypatch, pod="demo-engine-3", leader="demo-engine-2", address=address)
    assert sleeps == (waited or [])


@pytest.mark.parametrize(
    ("others", "resolved", "ends"),
    [
        pytest.param(["127.0.0.2"], "127.0.0.2", "", id="it has all"),
        pytest.param(["127.0.0.2"], None, "", id="it has all, of which the cluster's DNS knows nothing now"),
        pytest.param(["127.0.0.1"], None, "of 2 pods 1 are connected", id="its own worker is not another pod"),
        pytest.param([], None, "of 2 pods 1 are connected", id="one has ended"),
        pytest.param(
            ["127.0.0.2"], "127.0.0.3", "demo-engine-3.demo-engine is another pod now", id="one was lost and replaced"
        ),
    ],
)
def test_the_pod_that_serves_ends_when_another_pods_worker_has_ended(
    spanning: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    others: list[str],
    resolved: str | None,
    ends: str,
) -> None:
    with contextlib.ExitStack() as opened:
        group = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        for source in ("127.0.0.1", *others):
            worker = socket.create_connection(group.getsockname(), source_address=(source, 0))
            opened.enter_context(worker)
        address = opened.enter_context(answering(200))
        monkeypatch.setattr(socket, "getaddrinfo", functools.partial(look_up, resolved))
        if ends:
            opened.enter_context(pytest.raises(SystemExit, match=ends))
        probe(
            spanning,
            tmp_path,
            monkeypatch,
            pod="demo-engine-2",
            leader="demo-engine-2",
            address=address,
            group_port=group.getsockname()[1],
        )


LOOK_UP = socket.getaddrinfo


def look_up(pod_address: str | None, host: str, *arguments: Any) -> list[Any]:
    """As a DNS that knows this address of a pod, or none."""
    if not host.endswith(".demo-engine"):
        return [*LOOK_UP(host, *arguments)]
    if pod_address is None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return [*LOOK_UP(pod_address, *arguments)]


def probe(
    manifest: dict[str, Any],
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    pod: str,
    leader: str,
    address: str,
    group_port: int = 29_501,
) -> None:
    """Do what the liveness probe of this pod has its interpreter do, with another address for its leader."""
    (container,) = pod_of(manifest)["containers"]
    flag, *program, url, members, patience = run_as(
        container, container["livenessProbe"]["exec"]["command"], pod, directory
    )
    assert (flag, url) == ("-c", f"http://{leader}.demo-engine:8000/health")
    for name, value in {**env_of(container), "SWEYARD_POD_NAME": pod}.items():
        if isinstance(value, str):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["-c", f"http://{address}/health", members, patience])
    exec("\n".join(program).replace(f":{29_501:04X}", f":{group_port:04X}"), {})


@contextlib.contextmanager
def answering(status: int | None) -> Iterator[str]:
    """The address of a server that does; None: where there is none any more."""

    class Answer(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status or 0)
            self.end_headers()

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        address = f"127.0.0.1:{server.server_port}"
        if status is not None:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            try:
                yield address
            finally:
                server.shutdown()
            return
    yield address


def test_pods_are_counted_and_engines_are_asked() -> None:
    run = make_run(inference=SPANNING, trainer=GPU)
    assert build_engines(run, SETTINGS)["spec"]["replicas"] == 6
    assert build_engines(run, SETTINGS, 1)["spec"]["replicas"] == 2
    assert {one["name"]: one["count"] for one in build_pod_sets(run, SETTINGS)}["engine"] == 6
    (budget,) = build_disruption_budgets(run)
    assert budget["spec"]["maxUnavailable"] == 1
    assert engine_urls(run, 0) == [f"http://demo-engine-{first}.demo-engine:8000" for first in (0, 2, 4)]


def test_only_pods_of_one_engine_may_reach_each_other_at_any_port() -> None:
    def among_themselves(inference: dict[str, Any]) -> bool:
        run = make_run(inference=inference, trainer=GPU)
        policies = {name_of(policy): policy["spec"] for policy in build_network_policies(run, SETTINGS)}
        selector = policies["demo-engine"]["podSelector"]
        return {"from": [{"podSelector": selector}]} in policies["demo-engine"]["ingress"]

    assert among_themselves(SPANNING)
    assert not among_themselves({"replicas": 3})


def test_the_trainer_waits_for_all_pods_of_the_fewest_engines(make_world: Make) -> None:
    world = make_world(inference={**SPANNING, "scaling": {"minReplicas": 1}}, trainer=GPU)
    world.settle()
    assert world.objects[STATEFUL_SETS, "demo-engine"]["spec"]["replicas"] == 2
    world.serve()
    del world.pods["demo-engine-1"]
    world.settle()
    assert world.condition("InferenceReady")["message"] == "1 of 2 pods of engines ready"
    world.serve()
    world.settle()
    world.run_gang(0)
    world.report(attempt=0, phase="rl", step=1, engines=3)
    world.settle()
    assert world.objects[STATEFUL_SETS, "demo-engine"]["spec"]["replicas"] == 6


@pytest.mark.apiserver
def test_an_api_server_takes_engines_that_span_pods(kinds: TestCluster, spanning: dict[str, Any]) -> None:
    kinds.kubectl("apply", "-f", "-", input_text="{apiVersion: v1, kind: Namespace, metadata: {name: lab}}")
    shown = kinds.kubectl(
        "create", "--dry-run=server", "--validate=strict", "-o", "name", "-f", "-", input_text=json.dumps(spanning)
    )
    assert shown.split() == ["statefulset.apps/demo-engine"]

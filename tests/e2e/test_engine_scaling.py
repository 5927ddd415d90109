"""Engines on a real cluster: the fewest at first, more for a load that calls for them, fewer when it has gone, none
while the run is suspended."""

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.installation import Installation
from tests.e2e.test_fault_matrix import SHORT, steps_in
from tests.e2e.test_run_on_cluster import until_gone

pytestmark = [pytest.mark.kubelet, pytest.mark.slow, pytest.mark.timeout(3_600)]

DEADLINE_SECONDS = 1_200.0
ENDLESS = 100_000
"""Steps: the run is there for as long as it is looked at."""
SPEC: dict[str, Any] = {
    **SHORT,
    "steps": ENDLESS,
    "images": {"cacheRef": "shared"},
    "tasks": {**SHORT["tasks"], "eval": [{"dataset": "gauge", "split": "heldout"}]},
    "evaluation": {"everySteps": 0, "attempts": 120},
    "warmup": {"steps": 0},
    "rollout": {**SHORT["rollout"], "maxConcurrent": 4},
    "inference": {
        "engine": "vllm",
        "replicas": 2,
        "scaling": {"minReplicas": 1, "attemptsPerEngine": 2, "scaleDownAfterSeconds": 30},
    },
}
"""An evaluation first, of four attempts at a time, far longer than an engine takes to load; then steps of two."""
PYTHON = str(Path(sys.prefix) / "bin" / "python")
"""As the pods of the installation have it."""
METRICS = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8000/metrics").read().decode())
"""


def test_engines_come_and_go_with_the_load_and_all_go_while_the_run_is_suspended(
    installation: Installation, furnished: str, record_property: Callable[[str, object], None]
) -> None:
    namespace = furnished
    given = installation.left_in(namespace)
    installation.apply_run(namespace, SPEC)

    until("the first engine", lambda: engines(installation, namespace))
    assert engines(installation, namespace) == ["r-engine-0"]
    until("replies of the second engine", lambda: replies(installation, namespace, "r-engine-1") > 0)
    check_that_one_goes_for_want_of_load(installation, namespace)

    installation.kubectl("-n", namespace, "patch", "tr", "r", "--type=merge", "-p", '{"spec": {"suspend": true}}')
    until("suspension", lambda: installation.status(namespace)["phase"] == "Suspended")
    assert engines(installation, namespace) == []
    step = installation.status(namespace)["step"]

    installation.kubectl("-n", namespace, "patch", "tr", "r", "--type=merge", "-p", '{"spec": {"suspend": false}}')
    until("the first engine", lambda: engines(installation, namespace))
    assert engines(installation, namespace) == ["r-engine-0"]
    installation.wait_for_step(namespace, step + 1, DEADLINE_SECONDS)
    status = installation.status(namespace)
    record_property("restarts", status["restarts"])
    record_property("attempts", status["attempts"])
    assert (status["attempts"], status["restarts"]) == (2, 0)
    assert set(steps_in(installation, namespace, "r").values()) == {1}
    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")
    until_gone(installation, namespace, None, given)


def check_that_one_goes_for_want_of_load(installation: Installation, namespace: str) -> None:
    """While the run trains, and without an attempt that must be made again for want of it."""
    until("the end of the second engine", lambda: engines(installation, namespace) == ["r-engine-0"])
    step = installation.status(namespace)["step"]
    installation.wait_for_step(namespace, step + 1, DEADLINE_SECONDS)
    told = installation.kubectl("-n", namespace, "logs", "-l", "sweyard.dev/component=trainer", "--tail=-1")
    assert "http://r-engine-1.r-engine:8000 is not needed" in told
    for trouble in ("an engine leaves", "an engine goes that may be at work", "EngineUnavailable"):
        assert trouble not in told, told


def until(what: str, holds: Callable[[], object], deadline_seconds: float = DEADLINE_SECONDS) -> None:
    give_up_at = time.monotonic() + deadline_seconds
    while not holds():
        assert time.monotonic() < give_up_at, what
        time.sleep(1)


def engines(installation: Installation, namespace: str) -> list[str]:
    return [str(pod["metadata"]["name"]) for pod in installation.pods(namespace, "engine")]


def replies(installation: Installation, namespace: str, engine: str) -> float:
    """That it has ended, by its own count; none while it is not ready."""
    pods = {pod["metadata"]["name"]: pod["status"] for pod in installation.pods(namespace, "engine")}
    conditions = {one["type"]: one["status"] for one in pods.get(engine, {}).get("conditions", ())}
    if conditions.get("Ready") != "True":
        return 0.0
    told = installation.kubectl("-n", namespace, "exec", engine, "--", PYTHON, "-c", METRICS)
    return sum(map(float, re.findall(r"^vllm:request_success_total\{.*\} (\S+)$", told, re.MULTILINE)))

"""A drain of the trainer's node: the grace period is enough for a checkpoint, and nothing is done twice."""

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.e2e.installation import Installation
from tests.e2e.test_fault_matrix import SHORT, STEPS, trainer_paused

pytestmark = [pytest.mark.kubelet, pytest.mark.slow, pytest.mark.timeout(1_800)]

GRACE_SECONDS = 300
RARELY = {"everySteps": 1_000}
"""So that the only checkpoint in mid-run is that of the drain."""


def test_a_drained_trainer_saves_and_goes_on_from_the_same_step(
    installation: Installation, furnished: str, record_property: Callable[[str, object], None]
) -> None:
    namespace = furnished
    spec = {**SHORT, "images": {"cacheRef": "shared"}, "inference": {"engine": "transformers"}, "checkpoint": RARELY}
    installation.apply_run(namespace, spec)
    installation.wait_for_step(namespace, 1, deadline_seconds=600)
    step = installation.status(namespace)["step"]

    began = time.monotonic()
    (trainer,) = trainers(installation, namespace, attempt=0)
    with trainer_paused(installation, namespace):
        installation.evict(namespace, trainer)
    failure = wait_for_failure(installation, namespace)
    print(f"the trainer had saved and ended {time.monotonic() - began:.1f} s after its eviction, at step {step}")
    assert (failure["attempt"], failure["reason"]) == (0, "Disrupted")

    status = installation.wait_for_end(namespace, deadline_seconds=600)
    record_property("restarts", status["restarts"])
    record_property("attempts", status["attempts"])
    record_property("failure", failure["reason"])
    assert (status["phase"], status["step"]) == ("Succeeded", STEPS)
    assert (status["attempts"], status["restarts"]) == (2, 0)
    assert began_again_at(installation, namespace) >= step
    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")


def wait_for_failure(installation: Installation, namespace: str) -> dict[str, Any]:
    """The attempt's end, once its pod is gone."""
    give_up_at = time.monotonic() + GRACE_SECONDS
    while trainers(installation, namespace, attempt=0):
        assert time.monotonic() < give_up_at, "killed at the end of its grace period"
        time.sleep(0.5)
    while (failure := installation.status(namespace).get("lastFailure")) is None:
        assert time.monotonic() < give_up_at
        time.sleep(0.5)
    return dict(failure)


def trainers(installation: Installation, namespace: str, *, attempt: int) -> list[str]:
    names = [str(pod["metadata"]["name"]) for pod in installation.pods(namespace, "trainer")]
    return [name for name in names if name.startswith(f"r-trainer-{attempt}-")]


def began_again_at(installation: Installation, namespace: str) -> int:
    """The step that the second attempt found done, by its log."""
    rank_0 = "sweyard.dev/attempt=1,batch.kubernetes.io/job-completion-index=0"
    log = installation.kubectl("-n", namespace, "logs", "-l", rank_0, "--all-containers", "--tail=-1")
    found = re.search(r"going on .*?(\d+)", log)
    assert found, log[-2_000:]
    return int(found[1])

"""One fault in the middle of a small run, whichever: the same final step, each step once, and nothing left over.

What docs/reliability.md says of real nodes; `python -m benchmarks.prove faults` runs it and writes what was seen.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.installation import Installation
from tests.e2e.test_run_on_cluster import SPEC, STEPS, until_gone

from sweyard_operator.build.sandbox_pod import KEEP_ALIVE

pytestmark = [pytest.mark.kubelet, pytest.mark.slow]

DEADLINE_SECONDS = 1_200.0
SHORT: dict[str, Any] = {
    **SPEC,
    "warmup": {"steps": 5, "batchSize": 8},
    "tasks": {"train": {"dataset": "gauge", "split": "train"}},
}


@dataclass(frozen=True)
class Fault:
    """What is done to the run in a namespace, and how many restarts that may cost it."""

    strike: Callable[[Installation, str], None]
    max_restarts: int = 0
    engine: str = "transformers"
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the run."""
    strikes_at_once: bool = False
    """Before the run has begun, not in the middle of it."""


def kill(namespace: str | None, component: str, command: str, pod: str = "") -> Callable[[Installation, str], None]:
    """kill -9 in the pods of a component, or in one; None: of the run's own namespace."""
    return lambda installation, own: installation.kill(namespace or own, component, command, pod)


def kill_daemons(*programs: str) -> Callable[[Installation, str], None]:
    return lambda installation, _: installation.kill_daemons(*programs)


def evict_trainer(installation: Installation, namespace: str) -> None:
    selector = "sweyard.dev/component=trainer"
    told = installation.kubectl("-n", namespace, "get", "pods", "-l", selector, "-o", "name").split()
    installation.evict(namespace, told[-1].partition("/")[2])


def forbid_pods(installation: Installation, namespace: str) -> None:
    """A quota that is full for a while."""
    installation.kubectl("-n", namespace, "create", "quota", "full", "--hard=pods=1")
    installation.kill(namespace, "trainer", "sweyard_trainer --config")
    installation.wait_for_reason(namespace, "TrainerReady", {"FailedCreate"}, deadline_seconds=120)
    installation.kubectl("-n", namespace, "delete", "quota", "full")


def deny_trainers(installation: Installation, namespace: str) -> None:
    """An admission policy that refuses the next attempt's pods for a while."""
    with installation.denying_pods(namespace, "trainer"):
        installation.kill(namespace, "trainer", "sweyard_trainer --config")
        installation.wait_for_reason(namespace, "TrainerReady", {"FailedCreate"}, deadline_seconds=120)


def miss_secret(installation: Installation, namespace: str) -> None:
    """What the trainer's environment names comes late."""
    installation.wait_for_reason(namespace, "TrainerReady", {"ContainerConfig"}, deadline_seconds=DEADLINE_SECONDS)
    installation.kubectl("-n", namespace, "create", "secret", "generic", "late", "--from-literal=token=x")


def throttle(installation: Installation, _: str) -> None:
    """429 to whatever a service account asks, for a minute: operator, trainer and controllers."""
    with installation.refusing_service_accounts():
        time.sleep(60)


def silence_node(installation: Installation, _: str) -> None:
    """NotReady, and back before anything is evicted."""
    with installation.silent_kubelet():
        installation.wait_for_node("Unknown")
    installation.wait_for_node("True")


FAULTS = {
    "operator": Fault(kill("sweyard-system", "operator", "sweyard_operator")),
    "trainer": Fault(kill(None, "trainer", "sweyard_trainer --config"), max_restarts=1),
    "rank 1": Fault(
        kill(None, "trainer", "python", pod="r-trainer-0-1"), max_restarts=1, spec={"trainer": {"replicas": 2}}
    ),
    "sandboxes": Fault(kill(None, "sandbox", KEEP_ALIVE)),
    "eviction": Fault(evict_trainer),
    "quota": Fault(forbid_pods, max_restarts=1),
    "admission": Fault(deny_trainers, max_restarts=1),
    "Secret missing": Fault(
        miss_secret,
        spec={"trainer": {"env": [{"name": "LATE", "secret": "late", "key": "token"}]}},
        strikes_at_once=True,
    ),
    "kubelet": Fault(kill_daemons("kubelet")),
    "containerd": Fault(kill_daemons("containerd")),
    "node NotReady": Fault(silence_node, max_restarts=1),
    "API server": Fault(kill_daemons("kube-apiserver"), max_restarts=1),
    "API server throttles": Fault(throttle, max_restarts=1),
    "etcd": Fault(kill_daemons("etcd"), max_restarts=1),
    "scheduler and controllers": Fault(kill_daemons("kube-scheduler", "kube-controller-manager")),
    "engine": Fault(kill(None, "engine", "vllm"), engine="vllm"),
    "gateway": Fault(kill(None, "gateway", "sweyard_trainer.gateway"), max_restarts=1, engine="vllm"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_run_ends_as_if_undisturbed_by(
    name: str, installation: Installation, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    fault, namespace = FAULTS[name], installation.make_namespace()
    installation.apply_run(namespace, {**SHORT, "inference": {"engine": fault.engine}, **fault.spec})
    if not fault.strikes_at_once:
        installation.wait_for_step(namespace, 1, deadline_seconds=DEADLINE_SECONDS)
    fault.strike(installation, namespace)
    status = installation.wait_for_end(namespace, deadline_seconds=DEADLINE_SECONDS)
    record_property("restarts", status["restarts"])
    record_property("attempts", status["attempts"])

    assert (status["phase"], status["step"]) == ("Succeeded", STEPS)
    assert status["restarts"] <= fault.max_restarts
    installation.fetch_files(namespace, tmp_path)
    assert steps_in(tmp_path) == {step: 1 for step in range(1, STEPS + 1)}
    installation.kubectl("-n", namespace, "delete", "trainingrun", "r")
    until_gone(installation, namespace, None)


def steps_in(output: Path) -> dict[int, int]:
    """How often the figures of each optimizer step were kept."""
    lines = (output / "metrics" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    return dict(Counter(int(row["step"]) for row in rows if "rollout/reward_mean" in row))

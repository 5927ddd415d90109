"""One fault in the middle of a small run, whichever: the same final step, each step once, and nothing left over.

What docs/reliability.md says of real nodes; `python -m benchmarks.prove faults` runs it and writes what was seen.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.installation import Installation
from tests.e2e.test_run_on_cluster import SPEC, STEPS, until_gone

pytestmark = [pytest.mark.kubelet, pytest.mark.slow]

DEADLINE_SECONDS = 1_200.0


@dataclass(frozen=True)
class Fault:
    """What is done to the run in a namespace, and how many restarts that may cost it."""

    strike: Callable[[Installation, str], None]
    max_restarts: int = 0
    engine: str = "transformers"


def kill(namespace: str | None, component: str, command: str) -> Callable[[Installation, str], None]:
    """kill -9 in the pods of a component; None: of the run's own namespace."""
    return lambda installation, own: installation.kill(namespace or own, component, command)


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


FAULTS = {
    "operator": Fault(kill("sweyard-system", "operator", "sweyard_operator")),
    "trainer": Fault(kill(None, "trainer", "sweyard_trainer --config"), max_restarts=1),
    "sandboxes": Fault(kill(None, "sandbox", "trap 'exit 0'")),
    "eviction": Fault(evict_trainer),
    "quota": Fault(forbid_pods, max_restarts=1),
    "kubelet": Fault(kill_daemons("kubelet")),
    "containerd": Fault(kill_daemons("containerd")),
    "API server": Fault(kill_daemons("kube-apiserver"), max_restarts=1),
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
    installation.apply_run(namespace, {**SPEC, "inference": {"engine": fault.engine}})
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

"""A namespace of a real API server with one operator of its own; the test plays its kubelets."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.constants import FIELD_MANAGER_TRAINER, GROUP
from sweyard_cluster.testing import TestCluster

REPOSITORY = Path(__file__).parents[3]
LEFTOVERS = (
    "pods,jobs,statefulsets,deployments,services,configmaps,pvc,serviceaccounts,rolebindings,networkpolicies,"
    "poddisruptionbudgets"
)

Json = dict[str, Any]


class Lab:
    """One namespace with one operator of its own."""

    def __init__(self, cluster: TestCluster, namespace: str, log: Path, lease_seconds: int = 10) -> None:
        """A short Lease is for those who kill the operator: the next one waits for its end."""
        self.cluster, self.namespace, self._log, self._lease_seconds = cluster, namespace, log, lease_seconds
        self._process: subprocess.Popen[bytes] | None = None

    def kubectl(self, *arguments: str, body: Json | None = None) -> str:
        text = None if body is None else json.dumps(body)
        return self.cluster.kubectl("-n", self.namespace, *arguments, input_text=text)

    def start_operator(self) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.cluster.kubeconfig),
            "SWEYARD_WATCH_NAMESPACES": self.namespace,
            "POD_NAMESPACE": self.namespace,
            "SWEYARD_TRAINER_IMAGE": "registry.test/sweyard-trainer:1",
            "SWEYARD_HTTP_PORT": str(port),
            "SWEYARD_LEADER_LEASE_SECONDS": str(self._lease_seconds),
        }
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "sweyard_operator"]
            self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill_operator(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(30)

    def get(self, kind: str, name: str) -> Json:
        answer: Json = json.loads(self.kubectl("get", kind, name, "-o", "json"))
        return answer

    def names(self, kind: str, selector: str = "sweyard.dev/run=demo") -> list[str]:
        return self.kubectl("get", kind, "-l", selector, "-o", "name").split()

    def apply_run(self, **changes: Any) -> None:
        spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, **changes}
        metadata = {"name": "demo", "namespace": self.namespace}
        run = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainingRun", "metadata": metadata, "spec": spec}
        self.kubectl("apply", "--server-side", "-f", "-", body=run)

    def make_dataset(self) -> None:
        self.kubectl("create", "configmap", "tiny", "--from-literal=tasks.jsonl.gz=none")

    def condition(self, kind: str) -> Json:
        conditions = self.get("tr", "demo").get("status", {}).get("conditions", [])
        return next((entry for entry in conditions if entry["type"] == kind), {})

    def phase(self) -> str:
        return str(self.get("tr", "demo").get("status", {}).get("phase", ""))

    def until(self, what: str, holds: Callable[[], object], timeout_seconds: float = 60) -> None:
        deadline = time.monotonic() + timeout_seconds
        while not holds():
            if time.monotonic() > deadline:
                shown = self.kubectl("get", "tr", "demo", "-o", "yaml", "--ignore-not-found")
                pytest.fail(f"not within {timeout_seconds} s: {what}\n{shown}\n{self._log.read_text()[-4_000:]}")
            time.sleep(0.3)

    def become(self, pod: str, status: Json) -> None:
        """The kubelet writes a pod's status."""
        patch = json.dumps({"status": status})
        self.kubectl("patch", pod, "--subresource=status", "--type=merge", "-p", patch)

    def serve(self) -> None:
        """Engine and gateway pods get ready."""
        for component in ("engine", "gateway"):
            selector = f"sweyard.dev/component={component}"
            self.until(f"pods of {component}", lambda selector=selector: self.names("pods", selector))
            for pod in self.names("pods", selector):
                self.become(pod, RUNNING)

    def trainer_pod(self, attempt: int) -> str:
        selector = f"sweyard.dev/component=trainer,sweyard.dev/attempt={attempt}"
        self.until(f"pod of attempt {attempt}", lambda: self.names("pods", selector))
        return self.names("pods", selector)[0]

    def evict(self, pod: str) -> None:
        """As a drain does. Raises ClusterError where a budget forbids it."""
        name = pod.partition("/")[2]
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}}
        path = f"/api/v1/namespaces/{self.namespace}/pods/{name}/eviction"
        self.kubectl("create", "--raw", path, "-f", "-", body=body)

    def say_of_workload(self, **conditions: str) -> None:
        """Kueue writes conditions, and an admission where it reserves quota."""
        status = self.get("workload", "demo").get("status", {})
        others = [entry for entry in status.get("conditions", ()) if entry["type"] not in conditions]
        said = {"reason": "Preempted", "message": "as the test says", "lastTransitionTime": stamp()}
        new = [{"type": kind, "status": value, **said} for kind, value in conditions.items()]
        written: Json = {"conditions": [*others, *new]}
        if "Admitted" in conditions:
            written["admission"] = {"clusterQueue": "lab", "podSetAssignments": []}
        self.become("workload/demo", written)

    def told_of_workload(self) -> dict[str, str]:
        status = self.get("workload", "demo").get("status", {})
        return {entry["type"]: entry["status"] for entry in status.get("conditions", ())}

    def report(self, **fields: Any) -> None:
        """The trainer writes status.trainer, as its client does."""
        metadata = {"name": "demo", "namespace": self.namespace}
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainingRun", "metadata": metadata}
        body["status"] = {"trainer": {"updatedAt": stamp(), **fields}}
        manager = f"--field-manager={FIELD_MANAGER_TRAINER}"
        self.kubectl("apply", "--server-side", "--subresource=status", manager, "-f", "-", body=body)


RUNNING: Json = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}, {"type": "PodScheduled", "status": "True"}],
}


def stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def ended(exit_code: int, said: str = "") -> Json:
    """Status of a trainer pod whose container ended."""
    end = {"exitCode": exit_code, "message": said, "finishedAt": stamp(), "startedAt": stamp(), "reason": "Error"}
    container = {"name": "trainer", "image": "x", "imageID": "x", "ready": False, "restartCount": 0}
    container["state"] = {"terminated": end}
    scheduled = {"type": "PodScheduled", "status": "True"}
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": [{"type": "Ready", "status": "False"}, scheduled],
        "containerStatuses": [container],
    }

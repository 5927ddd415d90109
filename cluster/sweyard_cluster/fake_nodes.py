"""Nodes that only the API server believes in, kept by KWOK: hundreds of them cost one process."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .api import Kubectl
from .binaries import Binaries
from .paths import ClusterPaths
from .processes import ProcessTable
from .recipes import MODULES
from .spec import ClusterSpec

NAME = "kwok"
LABELS = {"type": "kwok"}
ANNOTATION = ("kwok.x-k8s.io/node", "fake")
CAPACITY = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
"""Folders of KWOK's own module with the rules of life of simulated nodes and pods; without rules it does nothing."""

POD_DELETION = """\
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
      - {key: .metadata.deletionTimestamp, operator: Exists}
      - {key: .metadata.deletionGracePeriodSeconds > 0, operator: In, values: ["true"]}
  next: {delete: true}
"""
"""In place of KWOK's own, which deletes a second time, by name, when it sees its first deletion, and so takes pods
that were made under the same name meanwhile."""


@dataclass(frozen=True)
class FakeNodes:
    spec: ClusterSpec
    paths: ClusterPaths
    binaries: Binaries
    processes: ProcessTable

    def start(self, kubectl: Kubectl) -> None:
        """Run KWOK, create the nodes and wait until all are Ready; repeatable."""
        config = self.paths.root / "kwok.yaml"
        config.write_text("\n---\n".join(self._stages()))
        self.processes.start(NAME, kwok_command(self.binaries.path(NAME), config, self.paths.kubeconfig, self.spec),
                             self.binaries.environment)  # fmt: skip
        kubectl.apply(fake_node(index) for index in range(1, self.spec.fake_nodes + 1))
        kubectl.run("wait", "--for=condition=Ready", "node", "-l", "type=kwok", "--timeout=120s")

    def stop(self) -> None:
        self.processes.stop(NAME)

    def _stages(self) -> Iterator[str]:
        source = self.binaries.module_source(MODULES / "kwok", "sigs.k8s.io/kwok")
        for folder in STAGES:
            for file in sorted((source / "kustomize/stage" / folder).glob(f"{folder[:3]}*-*.yaml")):
                if file.name != "pod-delete.yaml":
                    yield file.read_text()
        yield POD_DELETION


def kwok_command(binary: Path, config: Path, kubeconfig: Path, spec: ClusterSpec) -> list[str]:
    annotation, value = ANNOTATION
    return [
        str(binary),
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        "--cidr=100.64.0.0/10",
        "--node-ip=127.0.0.1",
        f"--manage-nodes-with-annotation-selector={annotation}={value}",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{spec.addresses.kwok_port}",
    ]


def fake_node(index: int) -> dict[str, Any]:
    name = f"fake-{index:04d}"
    annotation, value = ANNOTATION
    labels = {**LABELS, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {annotation: value}, "labels": labels},
        "status": {"allocatable": CAPACITY, "capacity": CAPACITY},
    }

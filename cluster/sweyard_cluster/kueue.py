"""Kueue beside a control plane: its kinds, its webhooks on a loopback address, and the process that serves them.

It manages Workloads alone: who makes them is not asked, and Jobs and pods are left in peace.
"""

import base64
import contextlib
import shutil
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from .api import Kubectl
from .binaries import Binaries
from .paths import ClusterPaths
from .pki import issue
from .processes import ProcessTable
from .recipes import MODULES
from .spec import ClusterSpec

NAME = "kueue"
GROUP = "kueue.x-k8s.io"
CONVERTED = ("clusterqueues", "cohorts", "localqueues", "workloads")
"""Kinds whose versions differ in more than their name."""
READY_SECONDS = 180.0
"""A machine may be busy with more than this."""

Manifest = dict[str, Any]


@dataclass(frozen=True)
class Kueue:
    spec: ClusterSpec
    paths: ClusterPaths
    binaries: Binaries
    processes: ProcessTable

    def start(self, kubectl: Kubectl, **settings: Any) -> None:
        """Make its kinds and run it until it serves; repeatable. `settings` are further ones in its own format."""
        directory = self.paths.root / NAME
        self._make_certificate(directory)
        config = directory / "config.yaml"
        config.write_text(yaml.safe_dump(configuration(self.spec, directory) | settings))
        kinds = list(self._kinds())
        kubectl.apply(kinds)
        names = [kind["metadata"]["name"] for kind in kinds]
        kubectl.run("wait", "--for=condition=Established", f"--timeout={READY_SECONDS:g}s", "crd", *names)
        command = [str(self.binaries.path(NAME)), f"--config={config}", f"--kubeconfig={self.paths.kubeconfig}"]
        self.processes.start(NAME, command, self.binaries.environment)
        self.processes.wait(NAME, lambda: answers(self.spec.addresses.kueue_port), READY_SECONDS)
        kubectl.apply(self._webhooks())

    def stop(self) -> None:
        self.processes.stop(NAME)

    def _make_certificate(self, directory: Path) -> None:
        """Under the names that Kueue looks for."""
        directory.mkdir(exist_ok=True, mode=0o700)
        issue(self.paths.pki, NAME, "/CN=kueue", ["IP:127.0.0.1"])
        for suffix in ("crt", "key"):
            shutil.copyfile(self.paths.pki / f"{NAME}.{suffix}", directory / f"tls.{suffix}")

    def _kinds(self) -> Iterator[Manifest]:
        """Its CustomResourceDefinitions, whose versions it converts itself."""
        conversion = {"conversionReviewVersions": ["v1"], "clientConfig": self._client("/convert")}
        for file in sorted((self._components / "crd/bases").glob("*.yaml")):
            definition: Manifest = yaml.load(file.read_text(), yaml.CSafeLoader)
            if definition["spec"]["names"]["plural"] in CONVERTED:
                definition["spec"]["conversion"] = {"strategy": "Webhook", "webhook": conversion}
            yield definition

    def _webhooks(self) -> Iterator[Manifest]:
        """Those of its own kinds."""
        file = self._components / "webhook/manifests.yaml"
        for configured in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            own = [one for one in configured["webhooks"] if one["rules"][0]["apiGroups"] == [GROUP]]
            called = [{**one, "clientConfig": self._client(one["clientConfig"]["service"]["path"])} for one in own]
            yield {**configured, "metadata": {"name": f"kueue-{configured['metadata']['name']}"}, "webhooks": called}

    @property
    def _components(self) -> Path:
        return self.binaries.module_source(MODULES / "kueue", "sigs.k8s.io/kueue") / "config/components"

    def _client(self, path: str) -> Manifest:
        """How the API server reaches it."""
        authority = base64.b64encode((self.paths.pki / "ca.crt").read_bytes()).decode()
        return {"url": f"https://127.0.0.1:{self.spec.addresses.kueue_port}{path}", "caBundle": authority}


def configuration(spec: ClusterSpec, certificates: Path) -> Manifest:
    """In Kueue's own format."""
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "webhook": {"host": "127.0.0.1", "port": spec.addresses.kueue_port, "certDir": str(certificates)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        # One kind of jobs must be named, of those that are linked; the controllers of none are run.
        "integrations": {"frameworks": ["pod"]},
        # These have controllers of their own, which are not run here.
        "featureGates": {"TopologyAwareScheduling": False, "MultiKueue": False},
    }


def answers(port: int) -> bool:
    """Whether somebody listens on the loopback port."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2):
        return True
    return False

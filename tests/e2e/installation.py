"""An installed sweyard in a test's hands."""

import contextlib
import json
import os
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.e2e.obstructions import NO_SEATS, admission_denial, flow_without_seats

from sweyard_cli.cluster.connection import connect
from sweyard_cli.cluster.dataset import push_dataset
from sweyard_cli.demo.cluster_commands import Commands
from sweyard_cli.demo.cluster_files import fetch_run_files
from sweyard_cluster import lifecycle
from sweyard_cluster.testing import TestCluster

POLL_SECONDS = 0.5
DOWN_SECONDS = 10.0
"""How long a killed daemon is away."""
OUR_KINDS = (
    "pods,jobs,services,statefulsets,deployments,daemonsets,networkpolicies,poddisruptionbudgets,leases,"
    "persistentvolumeclaims,rolloutpools.sweyard.dev,imagecaches.sweyard.dev,trainingruns.sweyard.dev,rolebindings,"
    "serviceaccounts,configmaps"
)
GIVEN = {"serviceaccount/default", "configmap/kube-root-ca.crt", "configmap/gauge"}
"""What a namespace with our data set holds when nothing runs."""


class Installation:
    """Namespaces for runs, and ways to look at them and to break them."""

    def __init__(
        self, cluster: TestCluster, commands: Commands, dataset: Path, trainer_image: str, task_images: dict[str, str]
    ) -> None:
        self._cluster = cluster
        self._commands = commands
        self._dataset = dataset
        self._trainer_image = trainer_image
        self._task_images = task_images
        self._namespaces: list[str] = []

    @property
    def task_image(self) -> str:
        """One that the cluster has."""
        return next(iter(self._task_images.values()))

    def make_namespace(self) -> str:
        """One with the data set in it."""
        name = f"e2e-{uuid.uuid4().hex[:6]}"
        self.kubectl("create", "namespace", name)
        self._namespaces.append(name)
        push_dataset(connect(name, str(self._cluster.kubeconfig)), "gauge", self._dataset, self._task_images)
        return name

    def remove_namespaces(self) -> None:
        for name in self._namespaces:
            self.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")

    def kubectl(self, *arguments: str, input_text: str | None = None) -> str:
        return self._cluster.kubectl(*arguments, input_text=input_text)

    def get(self, namespace: str, what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("-n", namespace, "get", what, "-o", "json"))
        return found

    def apply_run(self, namespace: str, spec: dict[str, Any]) -> None:
        run = {"apiVersion": "sweyard.dev/v1alpha1", "kind": "TrainingRun", "metadata": {"name": "r"}, "spec": spec}
        self.kubectl("-n", namespace, "apply", "-f", "-", input_text=json.dumps(run))

    def fetch_files(self, namespace: str, output: Path) -> None:
        """What the run wrote on its volume, as the demo fetches it."""
        fetch_run_files(self._commands, namespace, self._trainer_image, "r", output)

    def status(self, namespace: str) -> dict[str, Any]:
        return dict(self.get(namespace, "trainingrun/r").get("status") or {})

    def wait_for_step(self, namespace: str, step: int, deadline_seconds: float) -> None:
        self._wait(namespace, lambda status: int(status.get("step", 0)) >= step, deadline_seconds)

    def wait_for_reason(self, namespace: str, kind: str, reasons: set[str], deadline_seconds: float) -> None:
        """Until a condition has one of these reasons."""

        def reached(status: dict[str, Any]) -> bool:
            told = {entry["type"]: entry["reason"] for entry in status.get("conditions") or ()}
            return told.get(kind) in reasons

        self._wait(namespace, reached, deadline_seconds)

    def wait_for_end(self, namespace: str, deadline_seconds: float) -> dict[str, Any]:
        return self._wait(namespace, lambda status: status.get("phase") in ("Succeeded", "Failed"), deadline_seconds)

    def _wait(
        self, namespace: str, reached: Callable[[dict[str, Any]], bool], deadline_seconds: float
    ) -> dict[str, Any]:
        give_up_at = time.monotonic() + deadline_seconds
        while not reached(status := self.status(namespace)):
            if _is_hopeless(status) or time.monotonic() > give_up_at:
                raise AssertionError(f"not reached: {json.dumps(status, indent=1)}\n{self.last_words(namespace)}")
            time.sleep(POLL_SECONDS)
        return status

    def last_words(self, namespace: str) -> str:
        """For a failure's report."""
        selector = "sweyard.dev/component in (trainer,gateway,engine)"
        logs = self.kubectl("-n", namespace, "logs", "-l", selector, "--all-containers", "--tail=15", "--prefix")
        return f"{self.kubectl('-n', namespace, 'get', 'pods', '-o', 'wide')}\n{logs}"

    def kill(self, namespace: str, component: str, command: str, pod_prefix: str = "") -> None:
        """kill -9 for processes of a component's pods (of those whose name begins so) whose command line holds
        `command`, from outside of the pods."""
        pods = self.get(namespace, "pods")["items"]
        mine = [pod for pod in pods if _component(pod) == component]
        uids = [pod["metadata"]["uid"] for pod in mine if pod["metadata"]["name"].startswith(pod_prefix)]
        victims = [pid for pid in _processes(command) if any(uid in _cgroup(pid) for uid in uids)]
        if not victims:
            raise AssertionError(f"no process {command!r} in {uids}")
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    def kill_daemons(self, *programs: str) -> None:
        """kill -9 for programs of the cluster itself, such as etcd or kubelet, and start again what is then not there
        some seconds later, as whoever keeps a node does."""
        for pid in self._daemons(*programs):
            os.kill(pid, signal.SIGKILL)
        time.sleep(DOWN_SECONDS)
        lifecycle.up(self._cluster.tool, self._cluster.name, 1)

    @contextlib.contextmanager
    def silent_kubelet(self) -> Iterator[None]:
        """It says and does nothing meanwhile; its pods go on."""
        (kubelet,) = self._daemons("kubelet")
        os.kill(kubelet, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(kubelet, signal.SIGCONT)

    def _daemons(self, *programs: str) -> list[int]:
        home, found = str(self._cluster.tool.cache.cluster(self._cluster.name).root), []
        for pid in _processes(home):
            program = _read(Path(f"/proc/{pid}/cmdline")).partition("\0")[0]
            if Path(program).name in programs:
                found.append(pid)
        if not found:
            raise AssertionError(f"no process of {', '.join(programs)} in {home}")
        return found

    def wait_for_node(self, ready: str) -> None:
        """Until the cluster's node is `True`, `False` or `Unknown`."""

        def is_so(found: dict[str, Any]) -> bool:
            conditions = found["items"][0]["status"]["conditions"]
            return any(entry["type"] == "Ready" and entry["status"] == ready for entry in conditions)

        self._cluster.wait_for("/api/v1/nodes", is_so, seconds=300.0)

    @contextlib.contextmanager
    def denying_pods(self, namespace: str, component: str) -> Iterator[None]:
        """An admission policy refuses new pods of a component."""
        self._apply(*admission_denial(namespace, component))
        try:
            yield
        finally:
            self.kubectl("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", f"deny-{namespace}")

    @contextlib.contextmanager
    def refusing_service_accounts(self) -> Iterator[None]:
        """The API server answers 429 to all that they ask."""
        self._apply(*flow_without_seats())
        try:
            yield
        finally:
            self.kubectl("delete", "flowschema,prioritylevelconfiguration", NO_SEATS)

    def _apply(self, *manifests: dict[str, Any]) -> None:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        self.kubectl("apply", "-f", "-", input_text=text)

    def evict(self, namespace: str, pod: str) -> None:
        """As `kubectl drain` does with each pod of a node."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/eviction"
        self.kubectl("create", "--raw", path, "-f", "-", input_text=json.dumps(body))

    def left_in(self, namespace: str) -> set[str]:
        """Names of all that is there beside what is always there."""
        return set(self.kubectl("-n", namespace, "get", OUR_KINDS, "-o", "name").split()) - GIVEN


def _is_hopeless(status: dict[str, Any]) -> bool:
    ended = {entry["type"] for entry in status.get("conditions") or () if entry["status"] == "True"}
    return bool(ended & {"Failed", "InvalidSpec"})


def _component(pod: dict[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get("sweyard.dev/component", ""))


def _processes(command: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and command in _read(entry / "cmdline").replace("\0", " "):
            found.append(int(entry.name))
    return found


def _cgroup(pid: int) -> str:
    return _read(Path(f"/proc/{pid}/cgroup")).replace("_", "-")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):  # it ended
        return ""

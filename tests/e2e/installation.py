"""An installed sweyard in a test's hands."""

import contextlib
import json
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from tests.e2e.host import Host
from tests.e2e.nodes import Nodes
from tests.e2e.obstructions import NO_SEATS, flow_without_seats, small_volume

from sweyard_api.constants import ANNOTATION_HOLDER, API_VERSION, LABEL_CACHE
from sweyard_cli.cluster.connection import connect
from sweyard_cli.cluster.dataset import push_dataset
from sweyard_cli.demo.cluster_commands import Commands
from sweyard_cli.demo.cluster_install import SYSTEM_NAMESPACE
from sweyard_cli.fetch.fetch import fetch_run
from sweyard_cli.fetch.parts import Part
from sweyard_cli.fetch.shown import ShownProgress
from sweyard_cluster.testing import TestCluster

POLL_SECONDS = 0.5
_DIGEST = re.compile("@.*$")
_TAG = re.compile("(:[^:/@]+)?(@.*)?$", re.DOTALL)
LISTS = {
    "/api/v1": ("pods", "services", "persistentvolumeclaims", "serviceaccounts", "configmaps"),
    "/apis/apps/v1": ("statefulsets", "deployments", "daemonsets"),
    "/apis/batch/v1": ("jobs",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/apis/policy/v1": ("poddisruptionbudgets",),
    "/apis/coordination.k8s.io/v1": ("leases",),
    "/apis/rbac.authorization.k8s.io/v1": ("rolebindings",),
    "/apis/sweyard.dev/v1alpha1": ("rolloutpools", "imagecaches", "trainingruns"),
}
GIVEN = {"serviceaccounts/default", "configmaps/kube-root-ca.crt", "configmaps/gauge"}
"""What a namespace of ours holds when nothing runs."""


class Installation:
    """Namespaces for runs, and ways to look at them and to disturb them."""

    def __init__(self, cluster: TestCluster, commands: Commands, dataset: Path, task_images: dict[str, str]) -> None:
        self._cluster = cluster
        self._commands = commands
        self._dataset = dataset
        self._task_images = task_images
        self._late_images: dict[str, str] = {}
        """What they are copies of."""
        self._removal = contextlib.ExitStack()
        self.host = Host(cluster)
        self.nodes = Nodes(cluster)

    @property
    def task_image(self) -> str:
        """One that the cluster has."""
        return next(iter(self._task_images.values()))

    def make_namespace(self, task_images: Mapping[str, str] | None = None) -> str:
        """One with the data set in it, whose images are those that the cluster has unless others are said."""
        name = f"e2e-{uuid.uuid4().hex[:6]}"
        self.kubectl("create", "namespace", name)
        self._removal.callback(self.kubectl, "delete", "namespace", name, "--ignore-not-found", "--wait=false")
        images = self._task_images if task_images is None else task_images
        push_dataset(connect(name, str(self._cluster.kubeconfig)), "gauge", self._dataset, images)
        return name

    def remove_namespaces(self) -> None:
        self._removal.close()

    def check_release(self) -> None:
        """Each object of the chart is there, its admission policies too. Raises ClusterError naming those that are
        not."""
        release = ("sweyard", "--namespace", SYSTEM_NAMESPACE)
        manifests = self._commands.run("helm", "get", "manifest", *release, shown=False)
        self.kubectl("get", "-f", "-", "-o", "name", input_text=manifests)

    def make_namespace_without_images(self) -> str:
        """One whose tasks name images that the cluster's registry does not have yet."""
        tag = f"late-{uuid.uuid4().hex[:6]}"
        late = {repository: _TAG.sub(f":{tag}", image, count=1) for repository, image in self._task_images.items()}
        self._late_images = {name: self._task_images[repository] for repository, name in late.items()}
        return self.make_namespace(late)

    def bring_late_images(self) -> None:
        """Now it has."""
        plain = ("--src-tls-verify=false", "--dest-tls-verify=false")
        for name, image in self._late_images.items():
            command = ["skopeo", "copy", "--quiet", *plain, f"docker://{_DIGEST.sub('', image)}", f"docker://{name}"]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)

    def make_namespace_with_cache(self) -> str:
        """One with an ImageCache called `shared`, which has put the images of the data set on the node."""
        name = self.make_namespace()
        cache = {"apiVersion": API_VERSION, "kind": "ImageCache", "metadata": {"name": "shared", "namespace": name}}
        self._apply({**cache, "spec": {"images": [*self._task_images.values()]}})
        self.kubectl("-n", name, "wait", "--for=condition=Ready", "imagecache/shared", "--timeout=300s")
        return name

    def add_small_volume(self, name: str) -> None:
        """To a namespace: a claim called `small`, for 64 MB of a file system of its own."""
        place = str(self._cluster.tool.cache.cluster(self._cluster.name).volumes / f"small-{name}")
        self.host.in_node("mkdir", "-p", place)
        self.host.in_node("mount", "-t", "tmpfs", "-o", "size=64m,mode=777", "tmpfs", place)
        self._removal.callback(self.host.in_node, "umount", "--lazy", place)
        self._apply(*small_volume(name, place))
        self._removal.callback(self.kubectl, "delete", "persistentvolume", f"small-{name}", "--wait=false")

    def kubectl(self, *arguments: str, input_text: str | None = None) -> str:
        return self._cluster.kubectl(*arguments, input_text=input_text)

    def get(self, namespace: str, what: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.kubectl("-n", namespace, "get", what, "-o", "json"))
        return found

    def pods(self, namespace: str, component: str) -> list[dict[str, Any]]:
        """Those of a component, by name."""
        return list(self._cluster.api.get(_pods_path(namespace, component))["items"])

    def uids(self, namespace: str, component: str, prefix: str = "") -> list[str]:
        """Of a component's pods whose name begins so."""
        metadata = [pod["metadata"] for pod in self.pods(namespace, component)]
        return [str(one["uid"]) for one in metadata if one["name"].startswith(prefix)]

    def held_uids(self, namespace: str) -> list[str]:
        """Of the sandboxes that somebody has claimed."""
        metadata = [pod["metadata"] for pod in self.pods(namespace, "sandbox")]
        return [str(one["uid"]) for one in metadata if one.get("annotations", {}).get(ANNOTATION_HOLDER)]

    def apply_run(self, namespace: str, spec: dict[str, Any]) -> None:
        run = {"apiVersion": API_VERSION, "kind": "TrainingRun", "metadata": {"name": "r"}, "spec": spec}
        self.kubectl("-n", namespace, "apply", "-f", "-", input_text=json.dumps(run))

    def clear(self, namespace: str) -> None:
        """Of a run that a test left, and of quotas."""
        self.kubectl("-n", namespace, "delete", "quota", "--all")
        leftover = ("trainingrun", "r", "--ignore-not-found", "--cascade=foreground", "--timeout=330s")
        self._cluster.kubectl("-n", namespace, "delete", *leftover, timeout_seconds=360)

    def fetch_files(self, namespace: str, output: Path) -> None:
        """What the run wrote on its volume, weights included."""
        with ShownProgress(Console(quiet=True)) as told:
            fetch_run(connect(namespace, str(self._cluster.kubeconfig)), "r", output, told, parts=[Part.WEIGHTS])

    def read_volume(self, namespace: str, claim: str, pattern: str) -> dict[str, str]:
        """The files of a volume whose path matches, as the node sees them."""
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        volume = self._cluster.api.get(f"{claims}/{claim}")["spec"]["volumeName"]
        place = self._cluster.api.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["hostPath"]["path"]
        found = self.host.in_node("find", place, "-type", "f", "-path", f"{place}/{pattern}").splitlines()
        return {path.removeprefix(f"{place}/"): self.host.in_node("cat", path) for path in sorted(found)}

    def write_volume(self, namespace: str, claim: str, path: str, text: str) -> None:
        """A file on a volume, as somebody else's program would leave it."""
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        volume = self._cluster.api.get(f"{claims}/{claim}")["spec"]["volumeName"]
        place = self._cluster.api.get(f"/api/v1/persistentvolumes/{volume}")["spec"]["hostPath"]["path"]
        self.host.in_node("sh", "-c", 'printf %s "$2" > "$1"', "sh", f"{place}/{path}", text)

    def fill_volume(self, namespace: str) -> None:
        """Nothing goes into its small volume any more."""
        place = self._cluster.api.get(f"/api/v1/persistentvolumes/small-{namespace}")["spec"]["hostPath"]["path"]
        self.host.in_node("sh", "-c", f"! cat /dev/zero > {place}/fill")

    def status(self, namespace: str) -> dict[str, Any]:
        path = f"/apis/sweyard.dev/v1alpha1/namespaces/{namespace}/trainingruns/r"
        return dict(self._cluster.api.get(path).get("status") or {})

    def wait_for_step(self, namespace: str, step: int, deadline_seconds: float) -> None:
        self._wait(namespace, lambda status: int(status.get("step", 0)) >= step, deadline_seconds)

    def wait_for_reason(self, namespace: str, kind: str, reasons: set[str], deadline_seconds: float) -> None:
        """Until a condition has one of these reasons."""

        def reached(status: dict[str, Any]) -> bool:
            told = {entry["type"]: entry["reason"] for entry in status.get("conditions") or ()}
            return told.get(kind) in reasons

        self._wait(namespace, reached, deadline_seconds)

    def wait_for_last_end(self, namespace: str, component: str, reason: str) -> None:
        """Until the kubelet says why a container of the component's pods ended last."""

        def said(pods: dict[str, Any]) -> bool:
            told = [one for pod in pods["items"] for one in pod["status"].get("containerStatuses", ())]
            ends = [one[key].get("terminated", {}) for one in told for key in ("state", "lastState")]
            return any(end.get("reason") == reason for end in ends)

        self._cluster.wait_for(_pods_path(namespace, component), said, seconds=60.0)

    def wait_for_words(self, namespace: str, component: str, words: str, deadline_seconds: float) -> None:
        """Until the log of a component holds them."""
        give_up_at = time.monotonic() + deadline_seconds
        command = ("-n", namespace, "logs", "-l", f"sweyard.dev/component={component}", "--tail=-1")
        while words not in (log := self.kubectl(*command)):
            assert time.monotonic() < give_up_at, log[-5_000:]
            time.sleep(1)

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
        self.host.kill(self.uids(namespace, component, pod_prefix), command)

    def wait_for_node(self, ready: str) -> None:
        """Until the cluster's node is `True`, `False` or `Unknown`."""

        def is_so(found: dict[str, Any]) -> bool:
            conditions = found["items"][0]["status"]["conditions"]
            return any(entry["type"] == "Ready" and entry["status"] == ready for entry in conditions)

        self._cluster.wait_for("/api/v1/nodes", is_so, seconds=300.0)

    @contextlib.contextmanager
    def denying(self, namespace: str, policy: list[dict[str, Any]]) -> Iterator[None]:
        """An admission policy, such as `pod_denial`, refuses something."""
        self._apply(*policy)
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
        """`kind/name` of all that is there beside what is always there, and beside what the cache `shared` has, whose
        assignments come and go with the demand."""
        paths = [(kind, f"{group}/namespaces/{namespace}/{kind}") for group, kinds in LISTS.items() for kind in kinds]
        found = {kind: self._cluster.api.get(path)["items"] for kind, path in paths}
        told = [(kind, item["metadata"]) for kind, items in found.items() for item in items]
        ours = [(kind, metadata) for kind, metadata in told if not _is_shared(metadata)]
        return {f"{kind}/{metadata['name']}" for kind, metadata in ours} - GIVEN


def _pods_path(namespace: str, component: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods?labelSelector=sweyard.dev%2Fcomponent%3D{component}"


def _is_shared(metadata: dict[str, Any]) -> bool:
    """Whether it is the cache `shared` of a furnished namespace, or of it."""
    return "shared" in (metadata["name"], metadata.get("labels", {}).get(LABEL_CACHE))


def _is_hopeless(status: dict[str, Any]) -> bool:
    ended = {entry["type"] for entry in status.get("conditions") or () if entry["status"] == "True"}
    return bool(ended & {"Failed", "InvalidSpec"})

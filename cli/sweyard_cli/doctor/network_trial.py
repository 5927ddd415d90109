"""Does the cluster enforce NetworkPolicies: by trying it, since no API tells.

A server and a client are made from an image that nodes have anyway, the operator's. First the client must reach the
server; then a policy that admits nobody is made for the server, and the client must no longer reach it. Without
enforcement, agents in sandboxes could reach everything that the cluster's network does.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kubernetes import client

from sweyard_api.constants import GROUP
from sweyard_cli.cluster.connection import Connection
from sweyard_cli.cluster.sentences import told_plainly
from sweyard_cli.doctor.finding import Finding, Level
from sweyard_cli.errors import UserError

PORT = 8080
LABEL = f"{GROUP}/doctor"
_START_SECONDS = 120
_ENFORCED_SECONDS = 60
"""Within which an implementation that enforces at all has heard of the policy."""
_POLL_SECONDS = 1.0
_SERVE = f"import http.server as s; s.HTTPServer(('', {PORT}), s.SimpleHTTPRequestHandler).serve_forever()"
_ASK = (
    "import socket, sys, time\n"
    "while True:\n"
    "    try:\n"
    f"        socket.create_connection((sys.argv[1], {PORT}), 2).close()\n"
    "        told = 'reached'\n"
    "    except OSError:\n"
    "        told = 'refused'\n"
    "    print(told, flush=True)\n"
    "    time.sleep(1)\n"
)


class NetworkTrial:
    """One trial, in a namespace of the user's."""

    def __init__(
        self,
        connection: Connection,
        image: str,
        trial_id: str,
        *,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`image` has python; `trial_id` tells trials apart that run at once."""
        self._core = client.CoreV1Api(connection.api_client)
        self._networking = client.NetworkingV1Api(connection.api_client)
        self._namespace = connection.namespace
        self._image = image
        self._id = trial_id
        self._sleep = sleep
        self._clock = clock

    def run(self) -> Finding:
        """What came of it; whatever that is, nothing is left. Raises UserError where pods cannot be made."""
        with told_plainly(f"the trial of network policies in namespace {self._namespace}"), self._cleaned_up():
            self._core.create_namespaced_pod(self._namespace, self._pod("server", ["-c", _SERVE]))
            address = self._wait("server").status.pod_ip
            self._core.create_namespaced_pod(self._namespace, self._pod("client", ["-c", _ASK, address]))
            self._wait("client")
            if not self._comes_to("reached", _ENFORCED_SECONDS):
                return Finding(
                    Level.PROBLEM,
                    f"a pod cannot reach another in namespace {self._namespace}, with no policy of ours between them: "
                    "does the network plugin work, or does a policy of the namespace forbid it?",
                )
            self._networking.create_namespaced_network_policy(self._namespace, self._policy())
            return judge(self._comes_to("refused", _ENFORCED_SECONDS))

    def _comes_to(self, word: str, seconds: float) -> bool:
        """Whether the client's last try ended so within a time."""
        end = self._clock() + seconds
        while self._clock() < end:
            said = self._core.read_namespaced_pod_log(self._name("client"), self._namespace, tail_lines=1)
            if said.strip() == word:
                return True
            self._sleep(_POLL_SECONDS)
        return False

    def _wait(self, role: str) -> Any:
        end = self._clock() + _START_SECONDS
        while self._clock() < end:
            pod = self._core.read_namespaced_pod(self._name(role), self._namespace)
            if pod.status.phase == "Running" and pod.status.pod_ip:
                return pod
            self._sleep(_POLL_SECONDS)
        raise UserError(
            f"the {role} of the trial did not start within {_START_SECONDS} s: "
            f"`kubectl -n {self._namespace} describe pod {self._name(role)}` tells why while it is tried again",
            exit_code=1,
        )

    @contextmanager
    def _cleaned_up(self) -> Iterator[None]:
        selector = f"{LABEL}={self._id}"
        try:
            yield
        finally:
            self._core.delete_collection_namespaced_pod(
                self._namespace, label_selector=selector, grace_period_seconds=0
            )
            self._networking.delete_collection_namespaced_network_policy(self._namespace, label_selector=selector)

    def _name(self, role: str) -> str:
        return f"sweyard-doctor-{self._id}-{role}"

    def _metadata(self, role: str) -> dict[str, Any]:
        return {"name": self._name(role), "labels": {LABEL: self._id, f"{LABEL}-role": role}}

    def _pod(self, role: str, arguments: list[str]) -> dict[str, Any]:
        container = {
            "name": role,
            "image": self._image,
            "command": ["python", *arguments],
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
        spec = {
            "containers": [container],
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "activeDeadlineSeconds": 2 * _START_SECONDS + 2 * _ENFORCED_SECONDS,
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": self._metadata(role), "spec": spec}

    def _policy(self) -> dict[str, Any]:
        """Nobody may reach the server."""
        spec = {
            "podSelector": {"matchLabels": {LABEL: self._id, f"{LABEL}-role": "server"}},
            "policyTypes": ["Ingress"],
        }
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": self._metadata("server"),
            "spec": spec,
        }


def judge(is_enforced: bool) -> Finding:
    """Pure."""
    if is_enforced:
        return Finding(Level.OK, "network policies are enforced: a pod that a policy closes was no longer reached")
    return Finding(
        Level.PROBLEM,
        f"network policies are not enforced: a pod that a policy closes was still reached after {_ENFORCED_SECONDS} s, "
        "so agents could reach whatever the cluster's network does; install a network plugin that enforces them "
        "(Cilium, Calico, kube-network-policies)",
    )

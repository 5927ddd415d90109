"""Free pods of a pool that nobody reconciles, for tests of the client alone."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sweyard_cluster.testing import TestCluster
from sweyard_operator.build.sandbox_pod import KEEP_ALIVE

CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID"]


class PodStock:
    """Makes pods a batch at a time, so that few tests wait for one."""

    def __init__(
        self, cluster: TestCluster, namespace: str, pool: str, image: str, batch: int = 12, prefix: str = ""
    ) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.pool = pool
        self.image = image
        self._batch = batch
        self._prefix = prefix or pool
        self._free = 0
        self._number = 0
        self._lock = threading.Lock()

    def take(self, count: int = 1) -> None:
        """See to it that `count` more pods are free; blocks while they start."""
        with self._lock:
            while self._free < count:
                self.make([self._next_name() for _ in range(self._batch)])
                self._free += self._batch
            self._free -= count

    def make(self, names: list[str], **container: Any) -> None:
        """Make pods and wait until they are Ready."""
        pods = [self.build(name, **container) for name in names]
        self.kubectl("apply", "-f", "-", input_text=json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
        self.kubectl("wait", "--for=condition=Ready", "--timeout=180s", *(f"pod/{name}" for name in names))

    def build(self, name: str, **container: Any) -> dict[str, Any]:
        security = {"capabilities": {"drop": ["ALL"], "add": CAPABILITIES}}
        main = {"name": "sandbox", "image": self.image, "command": ["/bin/sh", "-c", KEEP_ALIVE]}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.namespace,
                "labels": {"sweyard.dev/pool": self.pool},
                "annotations": {"sweyard.dev/holder": ""},
            },
            "spec": {
                "containers": [{**main, "workingDir": "/testbed", "securityContext": security, **container}],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "enableServiceLinks": False,
                "automountServiceAccountToken": False,
            },
        }

    def kubectl(self, *arguments: str, input_text: str | None = None) -> str:
        return self.cluster.kubectl("-n", self.namespace, *arguments, input_text=input_text)

    def _next_name(self) -> str:
        self._number += 1
        return f"{self._prefix}-{self._number}"


@contextmanager
def fresh_namespace(cluster: TestCluster) -> Iterator[str]:
    """A namespace of this session; removed at the end."""
    name = f"sandbox-{uuid.uuid4().hex[:8]}"
    cluster.make_namespace(name)
    try:
        yield name
    finally:
        cluster.remove_namespace(name)

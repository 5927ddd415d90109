"""Accounts with tokens of their own, and the objects on which their rights are tried."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

NAMESPACE = "admission"
HOLDER, CLAIMED_AT, POOL = "sweyard.dev/holder", "sweyard.dev/claimed-at", "sweyard.dev/pool"
POD = "tiny-trainer-0-0-abcde"
"""The pod that the trainer's token is bound to, hence its identity."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
CONFIG_MAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
RUNS = f"/apis/sweyard.dev/v1alpha1/namespaces/{NAMESPACE}/trainingruns"


class RefusedError(Exception):
    """The API server said no; the message is what it said."""


@dataclass(frozen=True)
class Account:
    """Someone with a bearer token."""

    server: str
    trust: ssl.SSLContext
    token: str

    def call(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> str:
        """One request. Raises RefusedError."""
        request = urllib.request.Request(self.server + path, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        request.add_header("Content-Type", content_type)
        try:
            with urllib.request.urlopen(request, json.dumps(body).encode(), timeout=30, context=self.trust) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refusal:
            with refusal:
                raise RefusedError(json.loads(refusal.read())["message"]) from None

    def patch(self, path: str, operations: list[dict[str, Any]]) -> str:
        return self.call("PATCH", path, operations, "application/json-patch+json")


Create = Callable[[dict[str, Any]], None]


def pod(name: str, labels: dict[str, str], holder: str | None = None, account: str = "default") -> dict[str, Any]:
    annotations = {} if holder is None else {HOLDER: holder}
    containers = [{"name": "sandbox", "image": "none:1"}]
    metadata = {"name": name, "labels": labels, "annotations": annotations}
    return {"kind": "Pod", "metadata": metadata, "spec": {"serviceAccountName": account, "containers": containers}}


def lease(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "labels": {POOL: "pool"} if labels is None else labels}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def demand(name: str, labels: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"name": name, "labels": {POOL: "pool"} if labels is None else labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"demand.json": "{}"}}


def claim(holder: str) -> list[dict[str, Any]]:
    return [
        {"op": "test", "path": "/metadata/annotations/sweyard.dev~1holder", "value": ""},
        {"op": "replace", "path": "/metadata/annotations/sweyard.dev~1holder", "value": holder},
        {"op": "add", "path": "/metadata/annotations/sweyard.dev~1claimed-at", "value": "2026-01-01T00:00:00Z"},
        {"op": "add", "path": "/metadata/managedFields", "value": [{}]},
    ]

"""Do names resolve in the cluster: pure. Trainers find engines and each other by name; sandboxes need none."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_cli.doctor.finding import Finding, Level


def check_dns(slices: Sequence[Mapping[str, Any]]) -> Finding:
    """EndpointSlices of the Service kube-dns in kube-system."""
    endpoints = [endpoint for found in slices for endpoint in found.get("endpoints") or ()]
    ready = sum((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
    if ready:
        told = "1 server of the cluster's DNS answers" if ready == 1 else f"{ready} servers of the cluster's DNS answer"
        return Finding(Level.OK, told)
    return Finding(
        Level.WARNING,
        "no server of the cluster's DNS is ready (Service kube-dns in kube-system), and trainer pods find engines by "
        "name: `kubectl -n kube-system get pods -l k8s-app=kube-dns`",
    )

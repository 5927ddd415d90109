"""May the user do what the command line does: pure, from the API server's own reviews."""

from collections.abc import Mapping

from sweyard_api.constants import GROUP
from sweyard_cli.doctor.finding import Finding, Level

Right = tuple[str, str, str]
"""(verb, API group, resource)."""

RIGHTS: tuple[Right, ...] = (
    *((verb, GROUP, "trainingruns") for verb in ("create", "patch", "get", "list", "delete")),
    ("list", GROUP, "rolloutpools"),
    ("list", GROUP, "imagecaches"),
    ("list", "", "pods"),
    ("get", "", "pods/log"),
    ("create", "", "pods/exec"),
    ("list", "", "configmaps"),
    ("patch", "", "configmaps"),
)


def check_permissions(namespace: str, allowed: Mapping[Right, bool]) -> Finding:
    """In the namespace that runs are made in."""
    missing = [f"{verb} {resource}" for (verb, _, resource), may in allowed.items() if not may]
    if not missing:
        return Finding(Level.OK, f"you may do in namespace {namespace} what the command line does")
    return Finding(
        Level.WARNING,
        f"you may not {', '.join(missing)} in namespace {namespace}: have ClusterRole edit bound to you there, which "
        "includes our kinds (rbac.aggregate)",
    )

"""Can volumes be made as runs ask for them: pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_cli.doctor.finding import Finding, Level

_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def check_storage(classes: Sequence[Mapping[str, Any]], wanted: str | None) -> Finding:
    """`wanted` by a run; None asks for the cluster's default."""
    names = [str(found["metadata"]["name"]) for found in classes]
    known = f"there are {', '.join(names)}" if names else "there is none at all"
    if wanted is not None:
        if wanted in names:
            return Finding(Level.OK, f"storage class {wanted} exists")
        return Finding(Level.PROBLEM, f"storage.storageClassName {wanted}: no such storage class; {known}")
    default = [
        str(found["metadata"]["name"])
        for found in classes
        if (found["metadata"].get("annotations") or {}).get(_DEFAULT) == "true"
    ]
    if default:
        return Finding(Level.OK, f"volumes are made by the default storage class, {default[0]}")
    return Finding(
        Level.WARNING,
        f"no storage class is the default, so a run must name one (storage.storageClassName) or a volume "
        f"(storage.claimName); {known}",
    )


def check_claim(claims: Sequence[Mapping[str, Any]], wanted: str, namespace: str) -> Finding:
    """Whether the run's own choice of a volume is there; one that waits for its first pod is no fault."""
    phases = {str(claim["metadata"]["name"]): str(claim.get("status", {}).get("phase")) for claim in claims}
    if wanted not in phases:
        known = f"there are {', '.join(sorted(phases))}" if phases else "there is none"
        return Finding(
            Level.PROBLEM,
            f"storage.claimName {wanted}: no such volume in namespace {namespace}; {known}: create it, or leave "
            "claimName out and the run makes one",
        )
    if phases[wanted] == "Lost":
        return Finding(Level.PROBLEM, f"volume {wanted} has lost its data: `kubectl describe pvc {wanted}` says more")
    return Finding(Level.OK, f"volume {wanted} exists ({phases[wanted]})")


def check_runtime_class(names: Sequence[str], wanted: str | None) -> Finding | None:
    """None where none is wanted."""
    if wanted is None:
        return None
    if wanted in names:
        return Finding(Level.OK, f"runtime class {wanted} exists")
    known = f"there are {', '.join(names)}" if names else "there is none"
    return Finding(Level.PROBLEM, f"sandboxes.runtimeClassName {wanted}: no such RuntimeClass; {known}: install it")

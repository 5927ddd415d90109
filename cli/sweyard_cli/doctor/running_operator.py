"""Does an operator run: pure. Without one a run is stored, and nothing comes of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweyard_cli.doctor.finding import Finding, Level


def check_operator(pods: Sequence[Mapping[str, Any]]) -> Finding:
    """Its pods, of all namespaces; one that is Ready is enough."""
    if not pods:
        return Finding(Level.PROBLEM, "no operator runs, so nothing would come of a run: install the chart")
    for pod in pods:
        if _is_ready(pod):
            return Finding(Level.OK, f"an operator runs, {_place(pod)}")
    metadata = pods[0]["metadata"]
    return Finding(
        Level.PROBLEM,
        f"the operator {_place(pods[0])} is not Ready, so nothing would come of a run: "
        f"`kubectl -n {metadata['namespace']} describe pod {metadata['name']}`",
    )


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _place(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"

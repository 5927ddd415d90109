"""Why no sandbox became free, in the words of the pool's status. Pure."""

from collections.abc import Mapping
from typing import Any


def explain_waiting(image: str, *, pool: Mapping[str, Any] | None, counts: Mapping[str, int], watch_error: str) -> str:
    """One sentence, or a few: what stands in the way comes first."""
    parts = []
    if watch_error:
        parts.append(f"the API server is not heard: {watch_error}")
    if pool is None:
        parts.append("there is no such RolloutPool")
    else:
        parts += _from_status(pool)
    seen = ", ".join(f"{number} {state}" for state, number in counts.items()) or "none"
    return f"no free sandbox of {image}: " + "; ".join([*parts, f"sandboxes of all images: {seen}"])


def _from_status(pool: Mapping[str, Any]) -> list[str]:
    status, cap = pool.get("status") or {}, (pool.get("spec") or {}).get("replicas")
    parts = []
    if cap is not None and status.get("claimed", 0) >= cap:
        parts.append(f"the pool's cap of {cap} sandboxes is reached (spec.replicas) and all of them are claimed")
    conditions = {entry["type"]: entry for entry in status.get("conditions") or ()}
    for kind, bad in (("Degraded", "True"), ("Progressing", "False"), ("Ready", "False"), ("Progressing", "True")):
        entry = conditions.get(kind, {})
        if entry.get("status") == bad and entry.get("reason") not in (None, "Settled"):
            text = f"{entry['reason']}: {entry.get('message', '')}"
            if text not in parts:
                parts.append(text)
    if not conditions:
        parts.append("the operator has not said anything about the pool yet; is it running?")
    return parts

"""Conditions as in meta/v1: one sentence and one word per question that people and machines ask."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sweyard_operator.resources import Manifest

_MAX_MESSAGE_CHARACTERS = 1_024


@dataclass(frozen=True, slots=True)
class Condition:
    """One answer. `reason` is a CamelCase word, `message` a sentence that names the remedy where there is one."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def merge_conditions(
    old: Iterable[Manifest], new: Iterable[Condition], *, generation: int, now: datetime
) -> list[dict[str, Any]]:
    """The list to write: `new` in order; lastTransitionTime moves only when a status does."""
    before = {str(condition["type"]): condition for condition in old}
    return [_entry(condition, before.get(condition.type), generation, now) for condition in new]


def _entry(condition: Condition, before: Manifest | None, generation: int, now: datetime) -> dict[str, Any]:
    is_unmoved = before is not None and before.get("status") == condition.status
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message[:_MAX_MESSAGE_CHARACTERS],
        "observedGeneration": generation,
        "lastTransitionTime": before["lastTransitionTime"] if before is not None and is_unmoved else rfc3339(now),
    }


def moved_conditions(old: Iterable[Manifest], new: Iterable[Condition]) -> list[Condition]:
    """Those whose status or reason changed: worth an event."""
    before = {condition["type"]: (condition.get("status"), condition.get("reason")) for condition in old}
    return [condition for condition in new if before.get(condition.type) != (condition.status, condition.reason)]


def find_condition(status: Mapping[str, Any] | None, kind: str) -> Mapping[str, Any]:
    """One condition of an object's status; empty if there is none."""
    return next((entry for entry in (status or {}).get("conditions") or () if entry["type"] == kind), {})


def rfc3339(moment: datetime) -> str:
    """As the API server writes times: UTC, whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> datetime:
    """A time written by the API server."""
    return datetime.fromisoformat(text)

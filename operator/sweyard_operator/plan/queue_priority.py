"""What a run's priority in its queue comes from: a class of Kueue's, or else that of the trainer's pods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweyard_operator.resources import PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES, Resource


@dataclass(frozen=True, slots=True)
class QueuePriority:
    """A class that the spec names."""

    resource: Resource
    name: str
    value: int | None
    """None: there is no such class."""

    @property
    def missing(self) -> str:
        """A sentence that says so."""
        if self.resource == WORKLOAD_PRIORITY_CLASSES:
            field, remedy = "workloadPriorityClassName", "suspend the run and name another"
        else:
            field, remedy = "trainer.priorityClassName", "make the run anew with another"
        return f'{self.resource.kind} "{self.name}" of {field} does not exist: make it, or {remedy}'


def named_class(spec: Mapping[str, Any]) -> tuple[Resource, str] | None:
    """Kind and name of the class that counts, of the spec as it is."""
    if (name := spec.get("workloadPriorityClassName")) is not None:
        return WORKLOAD_PRIORITY_CLASSES, str(name)
    name = (spec.get("trainer") or {}).get("priorityClassName")
    return None if name is None else (PRIORITY_CLASSES, str(name))

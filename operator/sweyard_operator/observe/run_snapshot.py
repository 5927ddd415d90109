"""What there is of a TrainingRun, as a value that a plan can be made from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sweyard_operator.conditions import find_condition, parse_time
from sweyard_operator.observe.pod_state import PodState
from sweyard_operator.observe.trainer_job import TrainerJob
from sweyard_operator.plan.admission import QueuedWorkload
from sweyard_operator.plan.plan import Refusal
from sweyard_operator.resources import Manifest, Resource, is_owned_by

Children = Mapping[tuple[Resource, str], Manifest]
"""Objects that have the name of one of the run's children, whoever owns them."""


@dataclass(frozen=True)
class RunSnapshot:
    """One TrainingRun and all that belongs to it."""

    run: Manifest
    children: Children = field(default_factory=dict)
    unheard: frozenset[str] = frozenset()
    """Names of those that no watch tells of, since somebody took their labels away."""
    jobs: tuple[TrainerJob, ...] = ()
    """Trainer Jobs owned by the run, by attempt."""
    pods: tuple[PodState, ...] = ()
    """Pods labelled with the run's UID: trainer, engines and gateway, also those whose owner is gone."""
    image_cache: Manifest | None = None
    """The run's own or the one it refers to."""
    rollout_pool: Manifest | None = None
    warnings: Mapping[str, str] = field(default_factory=dict)
    """Last Warning event by UID of an object that makes pods."""
    datasets: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    """Images by ConfigMap that the tasks name, None for one that does not exist; empty once the trainer has begun."""
    queued: QueuedWorkload = field(default_factory=QueuedWorkload)
    """What Kueue says, of a run that is in a queue."""
    lost_nodes: frozenset[str] = frozenset()
    """Of the nodes whose pods should be gone by now, those that do not report."""
    refusals: tuple[Refusal, ...] = ()
    """What the API server refused in the last pass."""
    silent_seconds: float = 0.0
    """For which the trainer has not reported though it could be heard."""

    @property
    def name(self) -> str:
        return str(self.run["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.run["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        return str(self.run["metadata"]["uid"])

    @property
    def generation(self) -> int:
        return int(self.run["metadata"].get("generation", 1))

    @property
    def is_deleting(self) -> bool:
        return "deletionTimestamp" in self.run["metadata"]

    @property
    def status(self) -> Mapping[str, Any]:
        return self.run.get("status") or {}

    def condition(self, kind: str) -> Mapping[str, Any]:
        """One of the run's conditions as last written; empty if there is none."""
        return find_condition(self.status, kind)

    def has_condition(self, kind: str) -> bool:
        return self.condition(kind).get("status") == "True"

    def time(self, name: str) -> datetime | None:
        """A time in the status, such as startTime."""
        text = self.status.get(name)
        return parse_time(text) if text else None

    def owned(self, resource: Resource, name: str) -> Manifest | None:
        """A child, if it exists and is the run's own."""
        child = self.children.get((resource, name))
        return child if child is not None and is_owned_by(child, self.uid) else None

    def taken_names(self) -> set[str]:
        """Names of children to look at by themselves: somebody else's objects have them, or no watch tells of them."""
        foreign = {name for (_, name), child in self.children.items() if not is_owned_by(child, self.uid)}
        return foreign | self.unheard

    def missing_datasets(self) -> list[str]:
        """ConfigMaps that the tasks name and that do not exist."""
        return [name for name, images in self.datasets.items() if images is None]

    def pods_of(self, component: str) -> list[PodState]:
        return [pod for pod in self.pods if pod.component == component]

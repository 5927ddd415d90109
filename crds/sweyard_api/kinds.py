"""The three kinds: names, printer columns and limits."""

from dataclasses import dataclass
from typing import Any

from sweyard_api.base import Model
from sweyard_api.image_cache import ImageCacheSpec, ImageCacheStatus
from sweyard_api.rollout_pool import RolloutPoolSpec, RolloutPoolStatus
from sweyard_api.training_run import TrainingRunSpec, TrainingRunStatus


@dataclass(frozen=True, slots=True)
class Column:
    """One column of `kubectl get`; `wide` ones appear with -o wide."""

    name: str
    path: str
    type: str
    description: str
    wide: bool = False

    def as_manifest(self) -> dict[str, Any]:
        """This column as an entry of additionalPrinterColumns."""
        manifest = {"name": self.name, "type": self.type, "jsonPath": self.path, "description": self.description}
        return manifest | ({"priority": 1} if self.wide else {})


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of the API."""

    name: str
    plural: str
    short: str
    description: str
    spec: type[Model]
    status: type[Model]
    columns: tuple[Column, ...]
    max_name_length: int
    """Objects are named after it, with suffixes, and labels hold at most 63 characters."""
    scalable: bool = False

    @property
    def singular(self) -> str:
        return self.name.lower()


_AGE = Column("Age", ".metadata.creationTimestamp", "date", "Time since it was made.")


def _condition(kind: str, path: str = "status") -> str:
    return f'.status.conditions[?(@.type=="{kind}")].{path}'


TRAINING_RUN = Kind(
    name="TrainingRun",
    plural="trainingruns",
    short="tr",
    description="One training job: a model, tasks, and an agent that gets better at them.",
    spec=TrainingRunSpec,
    status=TrainingRunStatus,
    columns=(
        Column("Phase", ".status.phase", "string", "What it is doing."),
        Column("Step", ".status.step", "integer", "Optimizer steps done."),
        Column("Of", ".status.totalSteps", "integer", "Optimizer steps to do."),
        Column("Reward", ".status.metrics.rewardMean", "number", "Mean reward of the last step."),
        Column("Solved", ".status.metrics.solvedFraction", "number", "Fraction of the last step's attempts solved."),
        Column("Left", ".status.estimatedRemainingSeconds", "integer", "Estimated seconds to the end."),
        Column("Restarts", ".status.restarts", "integer", "Times the trainer was started again."),
        _AGE,
        Column("Preset", ".spec.preset", "string", "Recipe.", wide=True),
        Column("Checkpoint", ".status.lastCheckpoint", "string", "Last complete checkpoint.", wide=True),
        Column("GPUHours", ".status.usage.gpuHours", "number", "GPU hours spent.", wide=True),
        Column("Message", _condition("Progressing", "message"), "string", "What it waits for.", wide=True),
    ),
    max_name_length=40,
)

ROLLOUT_POOL = Kind(
    name="RolloutPool",
    plural="rolloutpools",
    short="rp",
    description="A pool of sandboxes: pods that are claimed for one attempt each and then deleted.",
    spec=RolloutPoolSpec,
    status=RolloutPoolStatus,
    columns=(
        Column("Cap", ".spec.replicas", "integer", "Most sandboxes at once."),
        Column("Sandboxes", ".status.replicas", "integer", "Sandboxes that exist."),
        Column("Ready", ".status.ready", "integer", "Free and ready to be claimed."),
        Column("Claimed", ".status.claimed", "integer", "Held by a living holder."),
        Column("Starting", ".status.starting", "integer", "Not yet ready."),
        Column("Demand", ".status.demand", "integer", "Asked for."),
        Column("Health", _condition("Degraded", "reason"), "string", "Healthy, or what its sandboxes suffer from."),
        _AGE,
        Column("Terminating", ".status.terminating", "integer", "Being deleted.", wide=True),
        Column("Reason", _condition("Ready", "reason"), "string", "Why it does or does not keep up.", wide=True),
    ),
    max_name_length=55,
    scalable=True,
)

IMAGE_CACHE = Kind(
    name="ImageCache",
    plural="imagecaches",
    short="ic",
    description="Images that nodes keep, so that sandboxes start without pulling.",
    spec=ImageCacheSpec,
    status=ImageCacheStatus,
    columns=(
        Column("Images", ".status.total", "integer", "Images asked for."),
        Column("Cached", ".status.cached", "integer", "Images held on as many nodes as asked for."),
        Column("Failed", ".status.failed", "integer", "Images that some node could not pull."),
        Column("Nodes", ".status.nodes", "integer", "Nodes that take part."),
        Column("Bytes", ".status.bytes", "integer", "Bytes on disk over all nodes."),
        Column("Ready", _condition("Ready"), "string", "Whether everything asked for is held."),
        _AGE,
        Column("Reason", _condition("Ready", "reason"), "string", "Why it is or is not ready.", wide=True),
    ),
    max_name_length=50,
)

KINDS = (TRAINING_RUN, ROLLOUT_POOL, IMAGE_CACHE)

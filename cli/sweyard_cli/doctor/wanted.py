"""What one run asks of a cluster, beyond what every run does: pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweyard_api.training_run import TrainingRunSpec
from sweyard_cli.doctor.accelerators import RESOURCES
from sweyard_operator.build.engine import engine_pods
from sweyard_operator.build.run_context import RunContext


@dataclass(frozen=True, slots=True)
class Wanted:
    """Nothing, unless a file was given."""

    accelerators: Mapping[str, int] = field(default_factory=dict)
    """Number by resource, in all pods together."""
    storage_class: str | None = None
    claim: str | None = None
    """A volume that is there already, in place of one that is made."""
    runtime_class: str | None = None


def wanted_by(config: TrainingRunSpec) -> Wanted:
    """Of a resolved run, by the rules that its pods are built by."""
    run = RunContext("", "", "", config)
    pods = (
        (run.trainer_replicas if run.trainer_computes else 0, config.trainer.resources),
        (engine_pods(run, config.inference.replicas) if run.has_engines else 0, config.inference.resources),
    )
    found: Counter[str] = Counter()
    for count, resources in pods:
        amounts = {**resources.requests, **resources.limits}
        found.update({name: count * int(amounts[name]) for name in RESOURCES if name in amounts})
    return Wanted(
        accelerators={name: count for name, count in found.items() if count},
        storage_class=config.storage.storage_class_name,
        claim=config.storage.claim_name,
        runtime_class=config.sandboxes.runtime_class_name,
    )

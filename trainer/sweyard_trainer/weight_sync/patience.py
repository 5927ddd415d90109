"""How long each stage of a weight update may take before its engine is given up."""

from dataclasses import dataclass

from sweyard_api.training_run import TrainingRunSpec


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds."""

    update: float = 900.0
    """For an engine to let its requests end, load a version and take requests again."""
    confirm: float = 60.0
    """For it to say which version it samples with."""
    probe: float = 10.0
    """For an answer while nothing is wrong."""
    pause: float = 5.0
    """Between two looks at an engine."""
    gone: float = 1_800.0
    """Without any engine, until the life ends."""
    misses: int = 3
    """Looks in a row without an answer that make an engine gone."""


def patience_for(spec: TrainingRunSpec) -> Patience:
    """As the config asks."""
    inference = spec.inference
    return Patience(update=float(inference.update_deadline_seconds), gone=float(inference.gone_deadline_seconds))

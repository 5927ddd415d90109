"""What the learner refuses at start, in a sentence, rather than ignores."""

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.errors import UnsupportedError


def refuse_unsupported(spec: TrainingRunSpec) -> None:
    """Raises UnsupportedError."""
    trainer = spec.trainer
    if trainer.sequence_parallel > 1:
        raise UnsupportedError(
            f"trainer.sequenceParallel is {trainer.sequence_parallel}, but this version splits no sequence over ranks; "
            "set it to 1 and, for long sequences, set trainer.gradientCheckpointing"
        )
    if trainer.cpu_offload and trainer.device == "cpu":
        raise UnsupportedError("trainer.cpuOffload is set, but trainer.device is cpu; remove one of them")

"""Learning rate as a pure function of the number of updates, so that resuming needs no scheduler's state."""

import math
from dataclasses import dataclass

from sweyard_api.training_run import TrainingRunSpec

WARM_UP_FRACTION = 0.05
"""Share of the supervised warm-up that raises its learning rate."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of training with one optimizer."""

    name: str
    """`sft` or `rl`."""
    learning_rate: float
    warmup_updates: int
    total_updates: int
    schedule: str

    def rate(self, update: int) -> float:
        """Of the update numbered `update` from 0. Linear and cosine reach 0 just after the last one."""
        if update < self.warmup_updates:
            return self.learning_rate * (update + 1) / self.warmup_updates
        span = max(1, self.total_updates - self.warmup_updates)
        done = min(1.0, (update - self.warmup_updates) / span)
        match self.schedule:
            case "linear":
                return self.learning_rate * (1 - done)
            case "cosine":
                return self.learning_rate * (1 + math.cos(math.pi * done)) / 2
            case _:
                return self.learning_rate


def phase_of(name: str, spec: TrainingRunSpec) -> Phase:
    """The supervised phase (the warm-up of mode rl, all of mode sft) or the main phase of mode rl."""
    optimizer, algorithm, warmup = spec.optimizer, spec.algorithm, spec.warmup
    if name == "sft" and spec.mode != "sft" and warmup is not None:
        raising = math.ceil(warmup.steps * WARM_UP_FRACTION)
        return Phase("sft", warmup.learning_rate, raising, warmup.steps, "cosine")
    per_step = algorithm.epochs_per_batch * algorithm.minibatches if name == "rl" else 1
    return Phase(
        name, optimizer.learning_rate, optimizer.warmup_steps, max(1, spec.steps) * per_step, optimizer.schedule
    )

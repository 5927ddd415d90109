"""What one pass over a TrainingRun goes by, once its config is known."""

from dataclasses import dataclass
from datetime import datetime

from sweyard_operator.build.run_context import RunContext, RunSettings
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.restart_policy import Decision, Ledger


@dataclass(frozen=True)
class RunPass:
    """The run, what there is of it, and what has been decided about its gang."""

    run: RunContext
    snapshot: RunSnapshot
    settings: RunSettings
    ledger: Ledger
    gang: Decision
    now: datetime

    @property
    def total_steps(self) -> int:
        return self.run.config.training_steps

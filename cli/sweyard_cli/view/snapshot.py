"""RunSnapshot: what there is to know of a run at one moment, wherever it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sweyard_cli.report.text import visible

STARTING = "Starting"
TERMINAL_PHASES = ("Succeeded", "Failed", "Stopped")
"""Stopped: without a cluster, by a signal, or found with nobody working on it; it can go on."""


@dataclass(frozen=True, slots=True)
class SandboxCounts:
    """Sandboxes of the run's pool by state."""

    ready: int = 0
    claimed: int = 0
    starting: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """State of one run."""

    name: str
    phase: str
    """Word for people; those of TERMINAL_PHASES end it."""
    step: int = 0
    total_steps: int = 0
    progress_percentage: int = 0
    remaining_seconds: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    sandboxes: SandboxCounts | None = None
    stages: Mapping[str, str] = field(default_factory=dict)
    """Condition type to `True`, or to its reason while it is not."""
    message: str = ""

    @property
    def is_finished(self) -> bool:
        """No further change is to be expected."""
        return self.phase in TERMINAL_PHASES

    @property
    def left_seconds(self) -> int | None:
        """Time left, where it is known and there is any: what has done its work may still be ending."""
        return None if self.is_finished or not self.remaining_seconds else self.remaining_seconds


class RunSource(Protocol):
    """Where snapshots come from."""

    def snapshot(self) -> RunSnapshot:
        """The state now. Raises UserError when the run is gone."""
        ...


def snapshot_of_trainer(name: str, phase: str, report: Mapping[str, Any]) -> RunSnapshot:
    """From the trainer's own report (progress.json, or status.trainer).

    What it says may be a user's own code's, and is to command no terminal.
    """
    metrics = (report.get("metrics") or {}).items()
    return RunSnapshot(
        name=name,
        phase=phase,
        step=int(report.get("step", 0)),
        total_steps=int(report.get("totalSteps", 0)),
        progress_percentage=int(report.get("progressPercentage", 0)),
        remaining_seconds=report.get("estimatedRemainingSeconds"),
        metrics={visible(name): value for name, value in metrics if value is not None},
        message=visible(str(report.get("message", ""))),
    )

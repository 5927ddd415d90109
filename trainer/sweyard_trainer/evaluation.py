"""Held-out tasks: each source reported apart, with its interval."""

import asyncio
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollout.plan import AttemptPlan
from sweyard_trainer.rollout.pool import WorkerPool
from sweyard_trainer.rollout.record import AttemptLog
from sweyard_trainer.trajectory import Trajectory

Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class SourceResult:
    """One source in one evaluation. Infrastructure failures are outside of every fraction."""

    source: str
    attempts: int
    """Graded ones."""
    solved: int
    official: int
    infra_failures: int
    set_aside: dict[str, str] = field(default_factory=dict)
    """Tasks left out of this evaluation, and why."""

    @property
    def solved_fraction(self) -> float:
        """Share of graded attempts that are solved; 0 if there is none."""
        return self.solved / self.attempts if self.attempts else 0.0

    def metrics(self) -> dict[str, float]:
        """Figures under their stable names."""
        low, high = wilson_interval(self.solved, self.attempts)
        return {
            "solved_fraction": self.solved_fraction,
            "low": low,
            "high": high,
            "official_fraction": self.official / self.attempts if self.attempts else 0.0,
            "attempts": float(self.attempts),
            "infra_failures": float(self.infra_failures),
            "set_aside": float(len(self.set_aside)),
        }

    def report(self) -> dict[str, Any]:
        """JSON-able, for the summary."""
        return {**asdict(self), **self.metrics(), "attempts": self.attempts, "set_aside": self.set_aside}


def wilson_interval(successes: int, trials: int, z: float = Z_95) -> tuple[float, float]:
    """Wilson's score interval of a share (JASA 22, 1927); (0, 1) without trials."""
    if trials == 0:
        return 0.0, 1.0
    share = successes / trials
    denominator = 1 + z * z / trials
    centre = share + z * z / (2 * trials)
    spread = z * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    # Rounding must not push the share itself out of its interval.
    return max(0.0, min(share, (centre - spread) / denominator)), min(1.0, max(share, (centre + spread) / denominator))


async def evaluate_source(
    source: str, plans: Sequence[AttemptPlan], pool: WorkerPool, log: Path, on_attempt: Callable[[Trajectory], None]
) -> SourceResult:
    """Run all attempts of one source. Raises EngineUnfitError."""
    await pool.announce(plans)
    attempts: list[Trajectory] = []
    tasks = [asyncio.create_task(pool.run(plan)) for plan in plans]
    try:
        with AttemptLog(log) as records:
            for finished in asyncio.as_completed(tasks):
                attempt = await finished
                records.write(attempt)
                attempts.append(attempt)
                on_attempt(attempt)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return summarise(source, attempts)


def summarise(source: str, attempts: Sequence[Trajectory]) -> SourceResult:
    """Count outcomes."""
    scored = [attempt for attempt in attempts if not attempt.outcome.is_infrastructure]
    return SourceResult(
        source=source,
        attempts=len(scored),
        solved=sum(attempt.outcome is Outcome.SOLVED for attempt in scored),
        official=sum(bool(attempt.official) for attempt in scored),
        infra_failures=len(attempts) - len(scored),
    )

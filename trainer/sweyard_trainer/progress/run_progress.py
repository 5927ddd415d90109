"""RunProgress: turns what the main loop does into one report for people: phase, step, share done, time left."""

import logging
from typing import Any

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.loop_state import LoopState
from sweyard_trainer.progress.estimate import Phase, percentage, remaining_seconds
from sweyard_trainer.progress.reporter import ProgressReporter
from sweyard_trainer.trajectory import Trajectory

logger = logging.getLogger(__name__)

_STEP_METRICS = {
    "rewardMean": "rollout/reward_mean",
    "solvedFraction": "rollout/solved_fraction",
    "tokensPerSecond": "rollout/tokens_per_second",
    "infraFailureFraction": "rollout/infra_failure_fraction",
    "loss": "train/loss",
}
"""Names in the status, and in metrics.jsonl."""


class RunProgress:
    """Counts units of work and passes the newest report on."""

    def __init__(self, reporter: ProgressReporter, phases: dict[str, Phase], total_steps: int) -> None:
        self._reporter = reporter
        self._phases = phases
        self._total_steps = total_steps
        self._metrics: dict[str, float] = {}
        self._attempts = 0
        self._solved = 0
        self._expected = 0

    def update(self, **fields: Any) -> None:
        """Change fields of the report; figures of time follow by themselves."""
        if "phase" in fields:
            self._attempts = self._solved = self._expected = 0
            logger.info("%s: %s", fields["phase"], fields.get("message", ""))
        self._reporter.update(
            total_steps=self._total_steps,
            metrics=self._metrics,
            progress_percentage=percentage(self._phases),
            estimated_remaining_seconds=remaining_seconds(self._phases),
            **fields,
        )

    def resume(self, state: LoopState) -> None:
        """What earlier lives of the run did."""
        for name, seconds in state.seconds.items():
            self._phases[name].seconds = seconds
        self._phases["step"].done = state.step
        warmup = self._phases["warmup"]
        warmup.done = warmup.total if state.warmed_up else state.warmup_step
        for results in state.evaluations.values():
            self._phases["evaluation"].done += sum(result["attempts"] for result in results)
            self._metrics |= {f"eval/{result['source']}": _shown(result["solved_fraction"]) for result in results}
        self.update(step=state.step)

    def advance(self, phase: str, units: int, seconds: float, **fields: Any) -> None:
        """`units` more of `phase` are done and took `seconds`; fields of the report as for `update`."""
        if units == 1 and not self._phases[phase].done:
            self._phases[phase].first_seconds = seconds
        self._phases[phase].done += units
        self._phases[phase].seconds += seconds
        self.update(**fields)

    def attempts_begin(self, what: str, expected: int) -> None:
        """So many attempts of `what` begin; until the first ends, this alone says that there is work."""
        self._attempts, self._solved, self._expected = 0, 0, expected
        self.update(message=f"{what}: {self._told_attempts()}")

    def attempt_done(self, attempt: Trajectory) -> None:
        """One attempt of the step or evaluation under way ended."""
        self._attempts += 1
        self._solved += attempt.outcome is Outcome.SOLVED
        what = self._reporter.report.message.split(":")[0]
        self.update(message=f"{what}: {self._told_attempts()}")

    def _told_attempts(self) -> str:
        """Of how many, where that is known beforehand."""
        count = f"{self._attempts} of {self._expected}" if self._expected else f"{self._attempts}"
        noun = "attempt" if (self._expected or self._attempts) == 1 else "attempts"
        return f"{count} {noun} ended, {self._solved} solved"

    def step_done(self, step: int, figures: dict[str, float]) -> None:
        """A step was trained; what it does not tell, as a reward where nothing was scored, is not told any more."""
        told = {ours: _shown(figures[theirs]) for ours, theirs in _STEP_METRICS.items() if theirs in figures}
        self._metrics = {name: value for name, value in self._metrics.items() if name not in _STEP_METRICS} | told
        logger.info("step %d of %d: %s", step, self._total_steps, _in_words(told))
        self.update(step=step)

    def evaluated(self, solved_fractions: dict[str, float]) -> None:
        """An evaluation ended."""
        logger.info("solved: %s", _in_words(solved_fractions))
        self._metrics |= {f"eval/{source}": _shown(fraction) for source, fraction in solved_fractions.items()}
        self.update()

    def finish(self, message: str = "finished") -> None:
        """All is done; `message` is what the run's status says of it."""
        for phase in self._phases.values():
            phase.total = phase.done
        self.update(phase="finished", message=message, step=self._phases["step"].done)

    def seconds(self) -> dict[str, float]:
        """Time spent by phase, over all lives."""
        return {name: phase.seconds for name, phase in self._phases.items()}

    async def begin(self) -> None:
        """See ProgressReporter.begin."""
        await self._reporter.begin()

    async def flush(self) -> None:
        """See ProgressReporter.flush."""
        await self._reporter.flush()


def _shown(figure: float) -> float:
    """As columns of `kubectl get` show it; metrics.jsonl has the full figure."""
    return round(figure, 4)


def _in_words(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in figures.items())


def plan_phases(spec: TrainingRunSpec, attempts_per_evaluation: int) -> dict[str, Phase]:
    """How many units of each kind a run has."""
    steps = spec.training_steps
    warmed = spec.mode == "rl" and spec.warmup is not None
    evaluation = spec.evaluation
    at_start = (2 if warmed else 1) if evaluation.at_start and steps else 0
    periodic = (steps - 1) // evaluation.every_steps if evaluation.every_steps and steps else 0
    return {
        "warmup": Phase(spec.warmup.steps if warmed and spec.warmup else 0),
        "step": Phase(steps),
        "evaluation": Phase((at_start + periodic + 1) * attempts_per_evaluation),
    }

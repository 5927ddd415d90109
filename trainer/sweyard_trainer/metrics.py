"""Where figures go: metrics/metrics.jsonl always, TensorBoard and Weights & Biases as configured.

Names are stable:
- `rollout/`: reward_mean, solved_fraction, official_fraction, attempts, infra_failure_fraction, truncated_fraction,
  groups, groups_with_signal, groups_dropped, stragglers, sampled_tokens, tokens_per_second, sampled_tokens_mean;
  staleness_mean, staleness_max (weight versions between a trained group's begin and its training),
  token_staleness_mean (the same of its tokens), groups_stale (too old, or late at their last chance: not trained)
- `train/`: what Learner.train_step returns; `warmup/`: what Learner.sft_step returns
- `eval/<source>/`: solved_fraction (pass@1), low, high (95 % interval of it), official_fraction, attempts,
  infra_failures, set_aside, pass@<k>, best@<k>, and repository/<name>/ with solved_fraction and attempts
- `time/`: rollout_seconds (that the trainer waited for rollouts), train_seconds, weight_sync_seconds, step_seconds,
  evaluation_wait_seconds (that a step waited for what was left of the evaluation beside it),
  idle_places_fraction (of the attempts that may run at once, over the time since the step before)
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from sweyard_api.infrastructure import Logging
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.rollout.groups import Drop, StepRollouts
from sweyard_trainer.trajectory import Trajectory

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class MetricsSink(Protocol):
    """One place that figures go to."""

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """One row."""
        ...

    def close(self) -> None:
        """Write what is still held."""
        ...


METRICS_FILE = Path("metrics", "metrics.jsonl")


class JsonlSink:
    """One JSON object a line: phase, step, time, and the figures."""

    def __init__(self, path: Path, keep_rows: int) -> None:
        """Rows beyond `keep_rows` belong to steps that are lost and will be done again."""
        rows = path.read_bytes().splitlines(keepends=True)[:keep_rows] if path.exists() else []
        partial = path.with_suffix(".partial")  # a life that ends here must not take the rows along
        partial.write_bytes(b"".join(rows))
        partial.replace(path)
        self._file = path.open("a", encoding="utf-8")
        self.num_rows = len(rows)

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        stamp = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._file.write(json.dumps({"phase": phase, "step": step, "time": stamp, **values}) + "\n")
        self._file.flush()
        self.num_rows += 1

    def close(self) -> None:
        self._file.close()


class TensorBoardSink:
    """TensorBoard events. The warm-up, whose steps are counted apart, is a run of its own beside the main one.

    A life hides what earlier ones wrote of steps that it does again. TensorBoard does that for all tags at once, so
    that in one run the warm-up would be cut at the step from which the main phase goes on.
    """

    def __init__(self, directory: Path, first_step: int, first_warmup_step: int) -> None:
        """Steps from the first ones on, of the main phase and of the warm-up, are still to be done."""
        self._directory = directory
        self._first_warmup_step = first_warmup_step
        self._main = self._writer(directory, first_step)
        self._warmup: SummaryWriter | None = None

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        writer = self._warmup_writer() if phase == "warmup" else self._main
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._main.close()
        if self._warmup is not None:
            self._warmup.close()

    def _warmup_writer(self) -> "SummaryWriter":
        if self._warmup is None:  # a life after the warm-up opens none, which would hide what is there
            self._warmup = self._writer(self._directory / "warmup", self._first_warmup_step)
        return self._warmup

    @staticmethod
    def _writer(directory: Path, first_step: int) -> "SummaryWriter":
        from torch.utils.tensorboard import SummaryWriter

        return SummaryWriter(str(directory), purge_step=first_step)


class WandbSink:
    """Weights & Biases; resumes the same run."""

    def __init__(self, project: str, entity: str | None, run_id: str, directory: Path) -> None:
        """Raises UnsupportedError where the library is not installed."""
        try:
            import wandb
        except ModuleNotFoundError as error:
            raise UnsupportedError(
                "logging.wandb needs the library wandb, which is not installed here: install it beside sweyard "
                "(`uv pip install wandb`), or leave logging.wandb out"
            ) from error
        self._run = wandb.init(project=project, entity=entity, id=run_id, resume="allow", dir=str(directory))

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        self._run.log({**values, f"{phase}_step": step})

    def close(self) -> None:
        self._run.finish()


class Metrics:
    """All sinks as one."""

    def __init__(
        self, storage: Path, logging: Logging, run_id: str, *, keep_rows: int, step: int, warmup_step: int
    ) -> None:
        """Go on after these steps, of which and of what came before `keep_rows` rows tell. Raises UnsupportedError."""
        path = storage / METRICS_FILE
        directory = path.parent
        directory.mkdir(parents=True, exist_ok=True)
        self._sinks: list[MetricsSink] = []
        if logging.wandb is not None:  # first, since it alone may be refused
            self._sinks.append(WandbSink(logging.wandb.project, logging.wandb.entity, run_id, directory))
        if logging.tensorboard:
            first_step = step + 1 if keep_rows else 0
            self._sinks.append(TensorBoardSink(directory / "tensorboard", first_step, warmup_step + 1))
        self._jsonl = JsonlSink(path, keep_rows)
        self._sinks.append(self._jsonl)

    @property
    def num_rows(self) -> int:
        """Rows written so far, over all lives of the run."""
        return self._jsonl.num_rows

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """One row everywhere."""
        for sink in self._sinks:
            sink.write(phase, step, values)

    def close(self) -> None:
        """Close all."""
        for sink in self._sinks:
            sink.close()


def prefixed(prefix: str, values: Mapping[str, float]) -> dict[str, float]:
    """`values` under `prefix/`."""
    return {f"{prefix}/{name}": value for name, value in values.items()}


def rollout_metrics(rollouts: StepRollouts, with_signal: int, seconds: float, version: int) -> dict[str, float]:
    """Figures of one step's attempts, dropped groups included: they show the policy as it is.

    The step trains weights `version`, and waited `seconds` for its rollouts.
    """
    attempts = rollouts.attempts
    scored = [attempt for attempt in attempts if not attempt.outcome.is_infrastructure]
    tokens = sum(attempt.num_sampled_tokens for attempt in attempts)
    return _scored_metrics(scored, tokens) | {
        "infra_failure_fraction": 1 - len(scored) / len(attempts) if attempts else 0.0,
        "attempts": float(len(attempts)),
        "groups": float(len(rollouts.groups)),
        "groups_with_signal": float(with_signal),
        "groups_dropped": float(rollouts.num_dropped(Drop.NO_SIGNAL)),
        "groups_stale": float(rollouts.num_dropped(Drop.STALE, Drop.LATE)),
        "staleness_mean": _mean(rollouts.staleness),
        "staleness_max": float(max(rollouts.staleness, default=0)),
        "token_staleness_mean": _token_staleness(rollouts.groups, version),
        "stragglers": float(rollouts.num_stragglers),
        "sampled_tokens": float(tokens),
        "tokens_per_second": tokens / seconds if seconds else 0.0,
    }


def _scored_metrics(scored: Sequence[Trajectory], tokens: int) -> dict[str, float]:
    """What attempts tell of the policy: nothing where infrastructure failed them all, as 0 would look like a result."""
    if not scored:
        return {}
    return {
        "reward_mean": _mean([attempt.reward for attempt in scored]),
        "solved_fraction": _share(scored, Outcome.SOLVED),
        "official_fraction": _mean([float(bool(attempt.official)) for attempt in scored]),
        "truncated_fraction": _share(scored, Outcome.TRUNCATED),
        "sampled_tokens_mean": tokens / len(scored),
    }


def _token_staleness(groups: Sequence[Sequence[Trajectory]], version: int) -> float:
    segments = [segment for group in groups for attempt in group for segment in attempt.segments]
    ages = [version - segment.weight_versions[segment.loss_mask] for segment in segments]
    count = sum(map(len, ages))
    return float(sum(int(each.sum()) for each in ages)) / count if count else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _share(attempts: Sequence[Trajectory], outcome: Outcome) -> float:
    return _mean([float(attempt.outcome is outcome) for attempt in attempts])


def plain(values: Mapping[str, Any]) -> dict[str, float]:
    """Figures as plain floats, for JSON."""
    return {name: float(value) for name, value in values.items()}

"""Where figures go: metrics/metrics.jsonl always, TensorBoard and Weights & Biases as configured.

Names are stable:
- `rollout/`: reward_mean, solved_fraction, official_fraction, attempts, infra_failure_fraction, truncated_fraction,
  groups_with_signal, groups_dropped, stragglers, sampled_tokens, tokens_per_second, sampled_tokens_mean
- `train/`: what Learner.train_step returns; `warmup/`: what Learner.sft_step returns
- `eval/<source>/`: solved_fraction, low, high (95 % Wilson interval), official_fraction, attempts, infra_failures
- `time/`: rollout_seconds, train_seconds, weight_sync_seconds, step_seconds
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from sweyard_api.infrastructure import Logging
from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.rollout.step import StepRollouts
from sweyard_trainer.trajectory import Trajectory


class MetricsSink(Protocol):
    """One place that figures go to."""

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        """One row."""
        ...

    def close(self) -> None:
        """Write what is still held."""
        ...


class JsonlSink:
    """One JSON object a line: phase, step, time, and the figures."""

    def __init__(self, path: Path, keep_rows: int) -> None:
        """Rows beyond `keep_rows` belong to steps that are lost and will be done again."""
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = path.read_text(encoding="utf-8").splitlines(keepends=True)[:keep_rows] if path.exists() else []
        path.write_text("".join(rows), encoding="utf-8")
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
    """TensorBoard events; warm-up steps are counted apart from steps."""

    def __init__(self, directory: Path, purge_step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(directory), purge_step=purge_step)

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class WandbSink:
    """Weights & Biases; resumes the same run."""

    def __init__(self, project: str, entity: str | None, run_id: str, directory: Path) -> None:
        import wandb

        self._run = wandb.init(project=project, entity=entity, id=run_id, resume="allow", dir=str(directory))

    def write(self, phase: str, step: int, values: Mapping[str, float]) -> None:
        self._run.log({**values, f"{phase}_step": step})

    def close(self) -> None:
        self._run.finish()


class Metrics:
    """All sinks as one."""

    def __init__(self, storage: Path, logging: Logging, run_id: str, *, keep_rows: int, step: int) -> None:
        directory = storage / "metrics"
        self._jsonl = JsonlSink(directory / "metrics.jsonl", keep_rows)
        self._sinks: list[MetricsSink] = [self._jsonl]
        if logging.tensorboard:
            self._sinks.append(TensorBoardSink(directory / "tensorboard", step + 1 if keep_rows else None))
        if logging.wandb is not None:
            self._sinks.append(WandbSink(logging.wandb.project, logging.wandb.entity, run_id, directory))

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


def rollout_metrics(rollouts: StepRollouts, with_signal: int, seconds: float) -> dict[str, float]:
    """Figures of one step's attempts, dropped groups included: they show the policy as it is."""
    attempts = rollouts.attempts
    scored = [attempt for attempt in attempts if not attempt.outcome.is_infrastructure]
    tokens = sum(attempt.num_sampled_tokens for attempt in attempts)
    return {
        "reward_mean": _mean([attempt.reward for attempt in scored]),
        "solved_fraction": _share(scored, Outcome.SOLVED),
        "official_fraction": _mean([float(bool(attempt.official)) for attempt in scored]),
        "truncated_fraction": _share(scored, Outcome.TRUNCATED),
        "infra_failure_fraction": 1 - len(scored) / len(attempts) if attempts else 0.0,
        "attempts": float(len(attempts)),
        "groups_with_signal": float(with_signal),
        "groups_dropped": float(len(rollouts.dropped)),
        "stragglers": float(rollouts.num_stragglers),
        "sampled_tokens": float(tokens),
        "sampled_tokens_mean": tokens / len(scored) if scored else 0.0,
        "tokens_per_second": tokens / seconds if seconds else 0.0,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _share(attempts: Sequence[Trajectory], outcome: Outcome) -> float:
    return _mean([float(attempt.outcome is outcome) for attempt in attempts])


def plain(values: Mapping[str, Any]) -> dict[str, float]:
    """Figures as plain floats, for JSON."""
    return {name: float(value) for name, value in values.items()}

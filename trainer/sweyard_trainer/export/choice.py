"""Which weights of a run are meant: those of a step, of the best evaluation, or the latest."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.errors import SweyardError
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.completeness import is_complete
from sweyard_trainer.run_config import read_run_config

CONFIG_FILE, WEIGHTS, SUMMARY = "config.yaml", "weights", "summary.json"


class ExportError(SweyardError, ValueError):
    """The run does not have what is asked for."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Weights of a run."""

    place: Path | str
    """A path, or a URL of a checkpoint."""
    description: str
    """For people: which, and why these."""
    checkpoint: tuple[str, str] | None = None
    """Root of the store, and name in it; else these are weights that the engines got, in Hugging Face format."""


def read_config(run: Path) -> TrainingRunSpec:
    """The run's resolved config. Raises ExportError."""
    path = run / CONFIG_FILE
    if not path.is_file():
        raise ExportError(
            f"{run} has no {CONFIG_FILE}: is it the directory of a run? That of one on a cluster comes from "
            f"kubectl get configmap RUN-config -o jsonpath='{{.data.config\\.yaml}}' >{path}"
        )
    return read_run_config(path, ExportError)


class RunWeights:
    """What there is of one run to choose from."""

    def __init__(self, run: Path, spec: TrainingRunSpec, checkpoints: str | None) -> None:
        """`checkpoints` is a path or URL, by default on the run's volume. Raises ExportError, UnsupportedError."""
        if checkpoints is None and spec.checkpoint.url is not None:
            raise ExportError(
                f"the checkpoints of {run} lie below {spec.checkpoint.url}, in a folder of the run's name: name it by "
                "--checkpoints"
            )
        self._run = run
        self._best_by = spec.checkpoint.best_by
        self._store = CheckpointStore(checkpoints or str(run / "checkpoints"))
        self._names = {saved.step: saved.name for saved in self._store.complete() if saved.is_main}

    def choose(self, *, step: int | None = None, best: bool = False) -> Chosen:
        """Of one step, of the checkpoint that solved most, or without either the latest. Raises ExportError."""
        if step is not None:
            if step not in self._names:
                raise ExportError(f"{self._run} has no checkpoint of step {step}; {self._told()}")
            return self._checkpoint(step, f"step {step}")
        if best:
            return self._best()
        if self._names:
            return self._checkpoint(max(self._names), f"step {max(self._names)}, the latest checkpoint")
        return self._latest_weights()

    def _best(self) -> Chosen:
        evaluations: dict[str, Any] = {}
        if self._names:
            evaluations |= self._store.read_state(self._names[max(self._names)]).extra.get("evaluations", {})
        summary = self._run / SUMMARY
        finished = json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {}
        evaluations |= finished.get("evaluations", {})
        scores = scores_by_step(evaluations, finished.get("steps"), self._best_by)
        kept = [step for step in sorted(scores) if step in self._names]
        if not kept:
            evaluated = ", ".join(map(str, sorted(scores))) or "none"
            raise ExportError(
                f"no evaluated step of {self._run} has a checkpoint (evaluated: {evaluated}); {self._told()}"
            )
        step = max(kept, key=lambda each: (scores[each], each))
        told = f"step {step}, the best of {len(kept)} evaluated checkpoints: {scores[step]:.1%} solved"
        return self._checkpoint(step, told)

    def _latest_weights(self) -> Chosen:
        versions = [path for path in (self._run / WEIGHTS).glob("*") if path.name.isdecimal() and is_complete(path)]
        if not versions:
            raise ExportError(f"{self._run} holds neither a checkpoint nor weights: has the run trained anything yet?")
        latest = max(versions, key=lambda path: int(path.name))
        return Chosen(latest, f"weights of version {latest.name}: the run has no checkpoint of a step")

    def _checkpoint(self, step: int, description: str) -> Chosen:
        name = self._names[step]
        return Chosen(self._store.place(name), description, (self._store.root, name))

    def _told(self) -> str:
        steps = ", ".join(map(str, sorted(self._names)))
        return f"there are checkpoints of {steps}" if steps else "it has no checkpoint"


def scores_by_step(
    evaluations: Mapping[str, Sequence[Mapping[str, Any]]], last_step: int | None, source: str | None = None
) -> dict[int, float]:
    """Solved fraction of `source`, or the mean over all sources, each counted alike.

    `evaluations` are LoopState's: reports by label. `final` belongs to the last step, if that is known.
    """
    scores = {}
    for label, reports in evaluations.items():
        asked = [report for report in reports if source in (None, report["source"]) and report["attempts"]]
        step = _step_of(label, last_step)
        if asked and step is not None:
            scores[step] = sum(float(report["solved_fraction"]) for report in asked) / len(asked)
    return scores


def _step_of(label: str, last_step: int | None) -> int | None:
    """The untrained policy has no checkpoint."""
    if label == "final":
        return last_step
    if label == "warmed-up":
        return 0
    digits = label.removeprefix("step-")
    return int(digits) if digits.isdecimal() else None

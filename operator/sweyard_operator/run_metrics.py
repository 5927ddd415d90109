"""Prometheus metrics of TrainingRuns, taken from their status."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

_LABELS = ("namespace", "run")
_FIGURES = {
    "step": ("sweyard_run_step", "Optimizer steps done."),
    "totalSteps": ("sweyard_run_total_steps", "Optimizer steps of the whole run."),
    "restarts": ("sweyard_run_restarts", "Times the trainer was started again."),
    "attempts": ("sweyard_run_attempts", "Times the trainer was started."),
}


class RunMetrics:
    """Gauges by run; a run that is gone leaves none behind."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._phase = Gauge("sweyard_run_phase", "1 for the run's phase.", [*_LABELS, "phase"], registry=registry)
        self._metric = Gauge(
            "sweyard_run_metric", "The trainer's figures, such as rewardMean.", [*_LABELS, "name"], registry=registry
        )
        self._figures = {
            field: Gauge(name, text, _LABELS, registry=registry) for field, (name, text) in _FIGURES.items()
        }
        self._shown: dict[tuple[str, str], set[tuple[Gauge, tuple[str, ...]]]] = {}

    def show(self, namespace: str, run: str, status: Mapping[str, Any]) -> None:
        """Take over a run's status."""
        wanted: dict[tuple[Gauge, tuple[str, ...]], float] = {}
        if status.get("phase"):
            wanted[self._phase, (namespace, run, str(status["phase"]))] = 1.0
        for name, value in (status.get("metrics") or {}).items():
            wanted[self._metric, (namespace, run, name)] = float(value)
        for field, gauge in self._figures.items():
            wanted[gauge, (namespace, run)] = float(status.get(field) or 0)
        for gauge, labels in self._shown.get((namespace, run), set()) - wanted.keys():
            gauge.remove(*labels)
        for (gauge, labels), value in wanted.items():
            gauge.labels(*labels).set(value)
        self._shown[namespace, run] = set(wanted)

    def forget(self, namespace: str, run: str) -> None:
        """The run is gone."""
        for gauge, labels in self._shown.pop((namespace, run), set()):
            gauge.remove(*labels)

"""Prometheus metrics of TrainingRuns, taken from their status."""

from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram

_LABELS = ("namespace", "run")
_FIGURES = {
    "step": ("sweyard_run_step", "Optimizer steps done."),
    "totalSteps": ("sweyard_run_total_steps", "Optimizer steps of the whole run."),
    "restarts": ("sweyard_run_restarts", "Times the trainer was started again."),
    "attempts": ("sweyard_run_attempts", "Times the trainer was started."),
    "placementFailures": ("sweyard_run_placement_failures", "Times in a row that not all pods could be placed."),
}
_USAGE = {
    "gpus": ("sweyard_run_gpus", "GPUs that the run's pods hold."),
    "gpuHours": ("sweyard_run_gpu_hours", "GPU hours that the run has spent."),
}
_STAGE_BUCKETS = (1, 3, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800, 43_200, 172_800)


class RunMetrics:
    """Gauges by run, of which a run that is gone leaves none behind, and one histogram of all runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._phase = Gauge("sweyard_run_phase", "1 for the run's phase.", [*_LABELS, "phase"], registry=registry)
        self._condition = Gauge(
            "sweyard_run_condition",
            "1 for a condition that is True, 0 for one that is not, with its reason.",
            [*_LABELS, "type", "reason"],
            registry=registry,
        )
        self._metric = Gauge(
            "sweyard_run_metric", "The trainer's figures, such as rewardMean.", [*_LABELS, "name"], registry=registry
        )
        self._figures = {
            field: Gauge(name, text, _LABELS, registry=registry) for field, (name, text) in (_FIGURES | _USAGE).items()
        }
        self._stage_seconds = Histogram(
            "sweyard_run_stage_seconds",
            "How long runs stayed in a phase; of phases that began under this process.",
            ["namespace", "stage"],
            buckets=_STAGE_BUCKETS,
            registry=registry,
        )
        self._shown: dict[tuple[str, str], set[tuple[Gauge, tuple[str, ...]]]] = {}
        self._stages: dict[tuple[str, str], tuple[str, float | None]] = {}

    def meet(self, namespace: str, run: str, status: Mapping[str, Any], now: float) -> None:
        """Before a pass: a run without a phase is a new one, whose first phase begins now."""
        if (namespace, run) not in self._stages:
            self._time_stage(namespace, run, str(status.get("phase") or ""), now)

    def show(self, namespace: str, run: str, status: Mapping[str, Any], now: float) -> None:
        """Take over a run's status; `now` is monotonic seconds."""
        wanted = self._wanted(namespace, run, status)
        for gauge, labels in self._shown.get((namespace, run), set()) - wanted.keys():
            gauge.remove(*labels)
        for (gauge, labels), value in wanted.items():
            gauge.labels(*labels).set(value)
        self._shown[namespace, run] = set(wanted)
        self._time_stage(namespace, run, str(status.get("phase") or ""), now)

    def _wanted(
        self, namespace: str, run: str, status: Mapping[str, Any]
    ) -> dict[tuple[Gauge, tuple[str, ...]], float]:
        wanted: dict[tuple[Gauge, tuple[str, ...]], float] = {}
        if status.get("phase"):
            wanted[self._phase, (namespace, run, str(status["phase"]))] = 1.0
        for entry in status.get("conditions") or ():
            labels = (namespace, run, str(entry["type"]), str(entry["reason"]))
            wanted[self._condition, labels] = float(entry["status"] == "True")
        for name, value in (status.get("metrics") or {}).items():
            wanted[self._metric, (namespace, run, name)] = float(value)
        figures = {**status, **(status.get("usage") or {})}
        for field, gauge in self._figures.items():
            wanted[gauge, (namespace, run)] = float(figures.get(field) or 0)
        return wanted

    def _time_stage(self, namespace: str, run: str, phase: str, now: float) -> None:
        """Observe the phase that was left. When the one began that a run is found in, nobody here has seen."""
        before = self._stages.get((namespace, run))
        if before is not None and before[0] == phase:
            return
        if before is not None and before[0] and before[1] is not None:
            self._stage_seconds.labels(namespace, before[0]).observe(now - before[1])
        has_seen_it_begin = before is not None or not phase
        self._stages[namespace, run] = (phase, now if has_seen_it_begin else None)

    def forget(self, namespace: str, run: str) -> None:
        """The run is gone."""
        self._stages.pop((namespace, run), None)
        for gauge, labels in self._shown.pop((namespace, run), set()):
            gauge.remove(*labels)

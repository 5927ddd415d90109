"""A run without a cluster: its process and its progress.json."""

import json
import subprocess
from pathlib import Path

from sweyard_cli.view.snapshot import RunSnapshot, snapshot_of_trainer

PHASES = {"starting": "Starting", "warmup": "Warm-up", "rl": "Running", "sft": "Running", "evaluating": "Evaluating"}


class LocalRunSource:
    """Reads what the trainer process reports; its exit code ends the run."""

    def __init__(self, name: str, output: Path, process: "subprocess.Popen[bytes] | None") -> None:
        self._name = name
        self._progress = output / "progress.json"
        self._process = process

    def snapshot(self) -> RunSnapshot:
        """The state now."""
        exit_code = self._process.poll() if self._process is not None else None
        report = self._read()
        trainer_phase = str(report.get("phase", "starting"))
        phase = "Succeeded" if trainer_phase == "finished" else PHASES.get(trainer_phase, trainer_phase)
        if exit_code is not None:
            phase = "Succeeded" if exit_code == 0 else "Failed"
        elif self._process is not None and phase == "Succeeded":
            phase = "Evaluating"  # the report is final, the process is still putting its files away
        return snapshot_of_trainer(self._name, phase, report)

    def _read(self) -> dict[str, object]:
        try:
            report = json.loads(self._progress.read_text())
        except FileNotFoundError:
            return {}
        return dict(report)

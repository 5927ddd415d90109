"""A run without a cluster: its progress.json, and whether a process works on it."""

from pathlib import Path
from typing import Any

from sweyard_cli.local.lock import is_locked
from sweyard_cli.local.log import LOG_FILE, last_sentence, tail
from sweyard_cli.local.trainer_process import PROGRESS_FILE, TrainerProcess, modified_at
from sweyard_cli.results.files import read_report
from sweyard_cli.view.snapshot import STARTING, RunSnapshot, snapshot_of_trainer
from sweyard_trainer.completeness import is_complete

PHASES = {"starting": STARTING, "warmup": "Warm-up", "rl": "Running", "sft": "Running", "evaluating": "Evaluating"}


class LocalRunSource:
    """Reads what the trainer process reports. `process` is None for a run that somebody else started."""

    def __init__(self, name: str, output: Path, process: TrainerProcess | None = None) -> None:
        self._name = name
        self._output = output
        self._process = process

    def snapshot(self) -> RunSnapshot:
        """The state now. Asks for the process first: what it wrote last must be read after its end.

        Raises UserError for a report that is none.
        """
        end = self._end_of_ours() if self._process is not None else self._end_of_others()
        report = self._report()
        phase = PHASES.get(str(report.get("phase", "starting")), "Finishing")
        if end in ("Failed", "Stopped"):
            report["message"] = self._last_words(end)
        elif not report and end is None and (self._process is not None or is_locked(self._output)):
            report["message"] = self._before_its_report()
        return snapshot_of_trainer(self._name, end or phase, report)

    def _report(self) -> dict[str, Any]:
        """What our process wrote; what an earlier one did is no news of it."""
        path = self._output / PROGRESS_FILE
        if self._process is not None and modified_at(path) == self._process.report_before:
            return {}
        return read_report(path)

    def _before_its_report(self) -> str:
        """What a trainer is about that has not told anything yet."""
        if not is_complete(self._output / "model"):
            return "making the initial model, or fetching it"
        return "loading the program, and starting the engines that are its own"

    def _end_of_ours(self) -> str | None:
        assert self._process is not None, "asked of our own process alone"
        if self._process.popen.poll() is None:
            return None
        if self._process.is_stopped:
            return "Stopped"
        return "Failed" if self._process.exit_code else "Succeeded"

    def _end_of_others(self) -> str | None:
        """Of a directory without a lock nothing is known but what the report says."""
        locked = is_locked(self._output)
        if locked:
            return None
        if self._report().get("phase") == "finished":
            return "Succeeded"
        return "Stopped" if locked is False else None

    def _last_words(self, end: str) -> str:
        if self._process is None:
            return f"no process works on it; the log ends with: {last_sentence(tail(self._output / LOG_FILE))}"
        return self._process.reason() if end == "Failed" else "stopped as asked"

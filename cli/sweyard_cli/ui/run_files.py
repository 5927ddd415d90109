"""RunFiles: what one run wrote into its directory, as answers of the page."""

import threading
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sweyard_cli.report.config_shown import shown_config
from sweyard_cli.report.page import facts_of
from sweyard_cli.results.files import CONFIG_FILE, iterate_steps, read_config, read_report, read_summary
from sweyard_cli.results.soundness import findings_of
from sweyard_cli.ui.attempt_index import AttemptIndex
from sweyard_cli.ui.figures import figures_of, spark_of
from sweyard_cli.ui.file_stamp import Stamp, file_stamp
from sweyard_cli.view.local_source import LocalRunSource
from sweyard_trainer.restarts import RESTARTS_FILE
from sweyard_trainer.rollouts.files import ROLLOUTS

METRICS_FILE = Path("metrics", "metrics.jsonl")
PROGRESS_FILE = "progress.json"
Answer = dict[str, Any]


class RunFiles:
    """One directory. For several threads."""

    def __init__(self, name: str, directory: Path) -> None:
        self.name = name
        self.directory = directory
        self.index = AttemptIndex(directory / ROLLOUTS)
        self._rows: list[dict[str, Any]] = []
        self._rows_stamp: Stamp | None = None
        self._lock = threading.Lock()

    def state(self) -> Answer:
        """How far it is. Raises UserError for damaged files, as all that follows does."""
        snapshot = asdict(LocalRunSource(self.name, self.directory).snapshot())
        progress = read_report(self.directory / PROGRESS_FILE)
        summary = read_summary(self.directory / "summary.json")
        restarts = self.restart_steps()
        return {
            **snapshot,
            "restarts": len(restarts),
            "restart_steps": restarts,
            "weight_version": progress.get("weightVersion"),
            "updated_at": progress.get("updatedAt"),
            "mode": summary.get("mode") or self.config().get("mode"),
            "seconds": summary.get("seconds", {}),
            "spark": self.spark(),
            "findings": self.findings(),
        }

    def findings(self) -> list[Answer]:
        """What of the last step is out of bounds."""
        return [asdict(finding) for finding in findings_of(self.rows())]

    def spark(self) -> list[float]:
        """The mean reward so far, in few points."""
        return spark_of(self.rows())

    def restart_steps(self) -> list[int]:
        """After how many steps its process began anew, each time."""
        return [int(row["step"]) for row in iterate_steps(self.directory / RESTARTS_FILE)]

    def config(self) -> Mapping[str, Any]:
        """The resolved config; empty where a cluster keeps it in a ConfigMap."""
        return read_config(self.directory / CONFIG_FILE)

    def described(self) -> Answer:
        """What was trained on what, and the whole config as text."""
        config = self.config()
        return {"facts": facts_of(config), "config": shown_config(config, without_cluster=True) if config else ""}

    def figures(self) -> Answer:
        """All curves, and a sentence for each rollout file that cannot be read."""
        progress = read_report(self.directory / PROGRESS_FILE)
        unread = list(self.index.unread().values())
        return {**figures_of(self.rows(), self.index.table(), progress), "unread": unread}

    def rows(self) -> list[dict[str, Any]]:
        """Of metrics.jsonl; read again only when it has changed."""
        path = self.directory / METRICS_FILE
        with self._lock:
            stamp = file_stamp(path)
            if stamp != self._rows_stamp:
                self._rows = list(iterate_steps(path))
                self._rows_stamp = stamp
            return self._rows

    def stamp(self) -> object:
        """Differs when there is news of it."""
        paths = (self.directory / PROGRESS_FILE, self.directory / METRICS_FILE)
        return (*map(file_stamp, paths), self.index.stamp())

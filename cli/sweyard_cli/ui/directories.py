"""Directories: the runs of this machine, each by a name that was found and never by one that was asked for."""

import threading
from pathlib import Path

from sweyard_cli.errors import UserError
from sweyard_cli.ui.run_files import PROGRESS_FILE, RunFiles
from sweyard_trainer.rollouts.files import ROLLOUTS

_FILE_SYSTEMS_OWN = "lost+found"
"""In the root of a volume, and closed to all but root."""
_SIGNS = (PROGRESS_FILE, "metrics", ROLLOUTS)


class Directories:
    """One directory of a run, or one that holds such."""

    def __init__(self, root: Path) -> None:
        """Raises UserError if there is no such directory."""
        if not root.is_dir():
            raise UserError(f"{root} is no directory: give that of a run, or the one that runs are in")
        self._root = root
        self._known: dict[str, RunFiles] = {}
        self._lock = threading.Lock()

    def runs(self) -> dict[str, RunFiles]:
        """By name."""
        with self._lock:
            self._known = {name: self._known.get(name) or RunFiles(name, path) for name, path in self._found().items()}
            return self._known

    def _found(self) -> dict[str, Path]:
        if is_run(self._root):
            return {self._root.resolve().name: self._root}
        return {
            path.name: path for path in sorted(self._root.iterdir()) if path.name != _FILE_SYSTEMS_OWN and is_run(path)
        }


def is_run(directory: Path) -> bool:
    """Whether a run has begun to write there. Where one may not look there may be one: whoever asks for it is told."""
    try:
        return any((directory / sign).exists() for sign in _SIGNS)
    except PermissionError:
        return True

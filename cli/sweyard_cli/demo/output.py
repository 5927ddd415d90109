"""The demo's directory: an earlier demo is never mixed with a new one, and no two are at work in it."""

from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sweyard_api.program import call
from sweyard_cli.errors import UserError
from sweyard_cli.local.lock import LOCK_FILE, is_locked, lock
from sweyard_cli.local.trainer_process import PROGRESS_FILE
from sweyard_cli.results.files import CONFIG_FILE

RUN_FILES = (CONFIG_FILE, PROGRESS_FILE, "summary.json")


def may_be_taken(output: Path) -> bool:
    """Whether what is there, which a demo renames, is nothing but an earlier run."""
    if not output.exists():
        return True
    if output.resolve() == Path.cwd():
        return False
    return not any(output.iterdir()) or any((output / name).exists() for name in (LOCK_FILE, *RUN_FILES))


class Claim:
    """The directory is this demo's from before anything is made, by the lock that a run of this machine takes.

    What an earlier demo left stays in place until `set_aside`, so that a demo that cannot begin renames nothing.
    """

    def __init__(self, output: Path) -> None:
        """Raises UserError if a demo is running in `output`, or if it is not a demo's to rename."""
        self._output = output
        if not may_be_taken(output):
            raise UserError(
                f"--output {output} is the working directory or holds what is no run's, and a demo renames what it "
                "finds there: name another directory"
            )
        self._held = ExitStack()
        self._lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()

    def set_aside(self, now: datetime) -> Path | None:
        """Move what an earlier demo left; where to, or None if there is nothing. Raises UserError."""
        if {path.name for path in self._output.iterdir()} <= {LOCK_FILE}:
            return None
        kept = self._output.with_name(f"{self._output.name}-{now:%Y%m%d-%H%M%S}")
        self._output.rename(kept)
        self._lock()
        return kept

    def _lock(self) -> None:
        """An earlier lock stays held: who opened its file before the move must not get it after."""
        self._output.mkdir(parents=True, exist_ok=True)
        if is_locked(self._output):
            raise UserError(
                f"{self._output}: a demo is running here, or on a cluster for this directory; wait for its end or stop "
                f"it; one without a cluster is shown by `{call('watch', '--output', self._output)}`"
            )
        self._held.enter_context(lock(self._output))

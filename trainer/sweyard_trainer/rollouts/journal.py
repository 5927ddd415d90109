"""Journal: attempts that have ended and are in no sealed file yet, on disk as each ends.

A Parquet file can be read only once its footer is there, so it cannot be written as attempts end. The journal is in
Arrow's streaming format, with the same schema: it has no footer, and a reader of one that was cut off anywhere has all
that was whole. A record is with the kernel when `write` returns, and so outlives this process however it ends; what a
machine may lose with its power belongs to a step that is done again anyway.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from sweyard_trainer.rollouts.codec import encode
from sweyard_trainer.rollouts.files import JOURNAL
from sweyard_trainer.rollouts.schema import SCHEMA
from sweyard_trainer.trajectory import Trajectory


class Journal:
    """One file, which is there as long as there are such attempts. Not for several threads."""

    def __init__(self, place: Path, attempts: Iterable[Trajectory] = ()) -> None:
        """`place` is the path without its suffix. What an earlier life left there gives way to `attempts`."""
        self._path = place.with_name(f"{place.name}{JOURNAL}")
        self._attempts: dict[str, Trajectory] = {}
        self._file: BinaryIO | None = None
        self._begin_anew(attempts)

    def write(self, attempt: Trajectory) -> None:
        """Append one attempt, at once."""
        if self._file is None:
            self._begin_anew([attempt])
        else:
            self._append(attempt)

    def forget(self, sealed: Sequence[Trajectory]) -> None:
        """These have a sealed file; the others stay."""
        known = {attempt.attempt_id for attempt in sealed}
        self._begin_anew([attempt for name, attempt in self._attempts.items() if name not in known])

    def close(self) -> None:
        """The file stays as it is."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_anew(self, attempts: Iterable[Trajectory]) -> None:
        """Only once the new file is whole it takes the place of the old one."""
        self.close()
        self._attempts = {}
        held = list(attempts)
        if not held:
            self._path.unlink(missing_ok=True)
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".partial")
        self._file = partial.open("wb", buffering=0)
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)
        for attempt in held:
            self._append(attempt)
        partial.replace(self._path)

    def _append(self, attempt: Trajectory) -> None:
        self._stream.write_batch(encode(attempt))
        self._attempts[attempt.attempt_id] = attempt

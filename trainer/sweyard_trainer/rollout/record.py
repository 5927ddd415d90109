"""AttemptLog: one JSONL line for each attempt, written as it ends: transcript, patch, grade, exact tokens, timings."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.gateway.wire import decode_segment, encode_segment
from sweyard_trainer.trajectory import Trajectory


def encode_trajectory(trajectory: Trajectory) -> dict[str, Any]:
    """A Trajectory as JSON-able data, exact."""
    fields = {name: getattr(trajectory, name) for name in Trajectory.__slots__}
    fields["segments"] = [encode_segment(segment) for segment in trajectory.segments]
    fields["outcome"] = trajectory.outcome.value
    return fields


def decode_trajectory(data: dict[str, Any]) -> Trajectory:
    """Inverse of `encode_trajectory`."""
    segments = tuple(decode_segment(segment) for segment in data["segments"])
    return Trajectory(**{**data, "segments": segments, "outcome": Outcome(data["outcome"])})


class AttemptLog:
    """The file of one step or evaluation. A step that is done again after a crash begins its file anew."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, trajectory: Trajectory) -> None:
        """Append one line, at once."""
        assert self._file is not None, "write inside `with`"
        self._file.write(json.dumps(encode_trajectory(trajectory), ensure_ascii=False) + "\n")
        self._file.flush()


def read_attempts(path: Path) -> list[Trajectory]:
    """All attempts of one file, in the order they ended. A last line cut by a crash is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    return [decode_trajectory(json.loads(line)) for line in lines[:-1]]

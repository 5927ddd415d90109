"""The files that a run learns from, and that must be where it runs: not every machine that checks it has them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweyard_api.training_run import TrainingRunSpec


@dataclass(frozen=True, slots=True)
class RecordedPath:
    """A file of trajectories, or the directory of a run."""

    field: str
    """Of the spec."""
    value: str
    is_run: bool

    @property
    def is_here(self) -> bool:
        """Whether this machine has it."""
        path = Path(self.value).expanduser()
        return path.is_dir() if self.is_run else path.is_file()

    def __str__(self) -> str:
        what = "directory of a run" if self.is_run else "file of trajectories"
        return f"{self.field} is {self.value!r}: there is no such {what} here"


def recorded_paths(spec: TrainingRunSpec) -> Iterator[RecordedPath]:
    """Those that a resolved config's mode reads."""
    if spec.mode == "sft" and spec.sft is not None:
        for index, file in enumerate(spec.sft.datasets):
            yield RecordedPath(f"sft.datasets[{index}]", file, is_run=False)
        for index, run in enumerate(spec.sft.rollouts):
            yield RecordedPath(f"sft.rollouts[{index}]", run, is_run=True)
    if spec.mode == "rl" and spec.warmup is not None and spec.warmup.dataset is not None:
        yield RecordedPath("warmup.dataset", spec.warmup.dataset, is_run=False)

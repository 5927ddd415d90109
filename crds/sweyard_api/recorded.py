"""The files that a run learns from, and that must be where it runs: not every machine that checks it has them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sweyard_api.training_run import TrainingRunSpec

_HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
_FILE_ENDINGS = (".jsonl", ".jsonl.gz", ".parquet")


def is_hub_id(dataset: str) -> bool:
    """Whether trajectories are to be fetched from the hub (`org/name`) rather than read from a file."""
    return _HUB_ID.fullmatch(dataset) is not None and not dataset.endswith(_FILE_ENDINGS)


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
    dataset = spec.warmup.dataset if spec.mode == "rl" and spec.warmup is not None else None
    if dataset is not None and not is_hub_id(dataset):
        yield RecordedPath("warmup.dataset", dataset, is_run=False)

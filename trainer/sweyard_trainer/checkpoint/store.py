"""CheckpointStore: which checkpoints there are, on a volume or in object storage: `<root>/step-<n>`, or `warmup-<n>`.

Invariants: a checkpoint counts once it has the file COMPLETE, which is written last and removed first; a complete one
is never written into, so a step that is saved again gets a name of its own (`step-<n>.1`); what else is called
`step-...` or `warmup-...` is rubbish, whoever left it. Nothing is renamed, which object storage can only do by copying.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from sweyard_trainer.atomic_directory import seal
from sweyard_trainer.checkpoint.checksums import ChecksumError, Checksums, SummedStream, checksum
from sweyard_trainer.checkpoint.retention import superfluous
from sweyard_trainer.checkpoint.saved import Saved, may_be_ours
from sweyard_trainer.completeness import COMPLETE
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.rollouts.codec import encode
from sweyard_trainer.rollouts.reading import read_held
from sweyard_trainer.rollouts.sealed import write_parquet
from sweyard_trainer.trajectory import Trajectory

STATE_FILE = "state.json"
HELD_FILE = "held.parquet"
"""Attempts that the main loop holds, as a rollout file; none without any."""
CHECKSUMS_FILE = "checksums.json"
"""Of all other files but COMPLETE. Checkpoints of earlier versions have none, and are taken as they are."""


@dataclass(frozen=True, slots=True)
class CheckpointState:
    """All that is no tensor."""

    step: int
    """Of the main phase, or of the warm-up."""
    phase: str | None
    """The optimizer's: `sft`, `rl`, or None before any update."""
    updates: int
    """Optimizer updates of this phase, which is all that the learning rate's schedule needs."""
    extra: dict[str, Any] = field(default_factory=dict)
    """The main loop's own state."""


class CheckpointStore:
    """The checkpoints of one run; a single living writer."""

    def __init__(self, root: str) -> None:
        """`root` is a path or a URL of a file system that fsspec knows. Raises UnsupportedError for another."""
        try:
            self._files, self._path = url_to_fs(root)
        except (ImportError, ValueError) as error:
            raise UnsupportedError(
                f"checkpoint.url: {root} cannot be opened ({error}): name storage that fsspec knows, and have its "
                "package in the trainer's image"
            ) from error
        self.root = root
        self.sums: Checksums = {}
        """Of what was written through this object and belongs to the checkpoint that is not committed yet."""

    def place(self, name: str) -> Path | str:
        """Where it lies: a path on a volume, else a URL."""
        path = f"{self._path}/{name}"
        return Path(path) if self._is_local else str(self._files.unstrip_protocol(path))

    def complete(self) -> list[Saved]:
        """Those that count, in the order of training."""
        found = [saved for name in self._names() if (saved := Saved.parse(name))]
        return sorted(saved for saved in found if self.has(saved.name, COMPLETE))

    def read_state(self, name: str) -> CheckpointState:
        """The non-tensor part."""
        with self.open(name, STATE_FILE, "rb") as stream:
            return CheckpointState(**json.load(stream))

    def write_held(self, name: str, held: Sequence[Trajectory]) -> None:
        """Add what the main loop holds."""
        if held:
            with self.open(name, HELD_FILE, "wb") as stream:
                write_parquet(stream, map(encode, held))

    def read_held(self, name: str) -> list[Trajectory]:
        """The same, in order. Raises RolloutFormatError."""
        if not self.has(name, HELD_FILE):
            return []
        with self.open(name, HELD_FILE, "rb") as stream:
            return read_held(stream, f"{self.place(name)}/{HELD_FILE}")

    def open(self, name: str, file: str, mode: str) -> IO[bytes]:
        """A file of a checkpoint, binary."""
        stream: IO[bytes] = self._files.open(f"{self._path}/{name}/{file}", mode)
        return stream if mode == "rb" else cast(IO[bytes], SummedStream(stream, self.sums, file))

    def verify(self, name: str, rank: int = 0, size: int = 1) -> None:
        """Read this rank's share of the files through. Raises ChecksumError for one that is not as it was written."""
        if not self.has(name, CHECKSUMS_FILE):
            return
        with self.open(name, CHECKSUMS_FILE, "rb") as stream:
            sums: Checksums = json.load(stream)
        for file in sorted(sums)[rank::size]:
            with self.open(name, file, "rb") as stream:
                if checksum(stream) != sums[file]:
                    raise ChecksumError(f"{file} is not as it was written")

    def has(self, name: str, file: str) -> bool:
        """Whether a checkpoint has this file."""
        return bool(self._files.exists(f"{self._path}/{name}/{file}"))

    def begin(self, step: int, *, in_warmup: bool = False) -> str:
        """Clear what earlier writers left half done; the name under which to write."""
        complete = self.complete()
        for rubbish in set(self._names()) - {saved.name for saved in complete}:
            if may_be_ours(rubbish):
                self.remove(rubbish)
        position = (not in_warmup, step)
        before = [saved.again for saved in complete if (saved.is_main, saved.step) == position]
        name = Saved(*position, again=max(before, default=-1) + 1).name
        self._files.makedirs(f"{self._path}/{name}", exist_ok=True)
        self.sums = {}
        return name

    def commit(self, name: str, state: CheckpointState, keep: int, best_first: tuple[int, ...]) -> None:
        """All ranks have written: add `state` and make it count; then drop what `retention` lets go."""
        with self.open(name, STATE_FILE, "wb") as stream:
            stream.write(json.dumps(asdict(state)).encode())
        sums = json.dumps(self.sums).encode()
        with self.open(name, CHECKSUMS_FILE, "wb") as stream:
            stream.write(sums)
        if self._is_local:
            seal(Path(self._path) / name)
        else:
            self._files.pipe_file(f"{self._path}/{name}/{COMPLETE}", b"")
        for old in superfluous(self.complete(), keep, best_first):
            self.remove(old.name)

    def remove(self, name: str) -> None:
        """In an order that never leaves half of it looking whole."""
        if self.has(name, COMPLETE):
            self._files.rm_file(f"{self._path}/{name}/{COMPLETE}")
        if self._files.exists(f"{self._path}/{name}"):
            self._files.rm(f"{self._path}/{name}", recursive=True)

    @property
    def _is_local(self) -> bool:
        return isinstance(self._files, LocalFileSystem)

    def _names(self) -> list[str]:
        self._files.invalidate_cache()  # another process, or another rank, may have written
        if not self._files.isdir(self._path):
            return []
        return [str(path).rstrip("/").rsplit("/", 1)[-1] for path in self._files.ls(self._path, detail=False)]

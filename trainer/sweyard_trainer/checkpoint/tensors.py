"""The tensors of a checkpoint, each rank writing its shards; readable by any number of ranks."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ProcessGroup
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint._fsspec_filesystem import FsspecReader, FsspecWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystem, FileSystemBase, FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.staging import BlockingAsyncStager
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future
from torch.optim import Optimizer

from sweyard_trainer.checkpoint.checksums import Checksums, SummedStream
from sweyard_trainer.checkpoint.store import CheckpointStore
from sweyard_trainer.storage_errors import typed_storage_errors

TENSORS = "tensors"


@dataclass(frozen=True, slots=True)
class Staged:
    """One rank's share, copied into host memory: training may change the originals."""

    tensors: dict[str, Any]
    random: dict[str, torch.Tensor]


def stage(model: nn.Module, optimizer: Optimizer | None) -> Staged:
    """A copy of weights, optimizer state and this rank's random state as they are now."""
    return Staged(BlockingAsyncStager().stage(_state(model, optimizer)), _random_state())


def write_tensors(store: CheckpointStore, name: str, rank: int, staged: Staged, group: ProcessGroup | None) -> None:
    """Write a rank's share; a collective call of `group`, which returns once all ranks have written, with the checksums
    of all in `store`."""
    with store.open(name, _random_file(rank), "wb") as stream:
        torch.save(staged.random, stream)
    with _first_failure():
        state_dict_saver.save(staged.tensors, storage_writer=_writer(store, name), process_group=group)
    if group is not None:
        everybodys: list[Checksums] = [{}] * group.size()
        dist.all_gather_object(everybodys, store.sums, group=group)
        for sums in everybodys:
            store.sums |= sums


def read_tensors(store: CheckpointStore, name: str, rank: int, model: nn.Module, optimizer: Optimizer | None) -> None:
    """The reverse, into a model and an optimizer of the same kind; a collective call."""
    state = _state(model, optimizer)
    with _first_failure():
        state_dict_loader.load(state, storage_reader=_reader(store, name))
    optimizers = [] if optimizer is None else [optimizer]
    set_state_dict(model, optimizers, model_state_dict=state["model"], optim_state_dict=state.get("optimizer", {}))
    if store.has(name, _random_file(rank)):  # more ranks than before keep their seeds
        with store.open(name, _random_file(rank), "rb") as stream:
            _set_random_state(torch.load(stream, weights_only=True))


@contextmanager
def _first_failure() -> Iterator[None]:
    """PyTorch gathers what went wrong on each rank into one BaseException; raise the first for what it is."""
    try:
        yield
    except CheckpointException as error:
        failure, _ = next(iter(error.failures.values()))
        raise failure from error


class _VolumeWriter(FileSystemWriter):
    """Types a rank's failure before PyTorch takes it to the other ranks, where its causes are lost."""

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        with typed_storage_errors(str(self.path)):
            return super().write_data(plan, planner)


class _SummedFiles:
    """A file system of PyTorch's; what is written into it is summed."""

    def __init__(self, files: FileSystemBase, sums: Checksums) -> None:
        self._files, self._sums = files, sums

    @contextmanager
    def create_stream(self, path: str | PathLike[str], mode: str) -> Iterator[Any]:
        with self._files.create_stream(path, mode) as stream, SummedStream(stream, self._sums, _named(path)) as summed:
            yield summed

    def rename(self, path: str | PathLike[str], new_path: str | PathLike[str]) -> None:
        self._files.rename(path, new_path)
        self._sums[_named(new_path)] = self._sums.pop(_named(path))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)


def _named(path: str | PathLike[str]) -> str:
    """Within its checkpoint."""
    return f"{TENSORS}/{Path(path).name}"


def _writer(store: CheckpointStore, name: str) -> FileSystemWriter:
    """Streams into object storage cannot be synced; for them PyTorch would sync the whole machine."""
    place = store.place(name)
    if isinstance(place, Path):
        writer: FileSystemWriter = _VolumeWriter(place / TENSORS)
    else:
        writer = FsspecWriter(f"{place}/{TENSORS}", sync_files=False)
    writer.fs = cast(FileSystem, _SummedFiles(writer.fs, store.sums))
    return writer


def _reader(store: CheckpointStore, name: str) -> FileSystemReader:
    place = store.place(name)
    return FileSystemReader(place / TENSORS) if isinstance(place, Path) else FsspecReader(f"{place}/{TENSORS}")


def _state(model: nn.Module, optimizer: Optimizer | None) -> dict[str, Any]:
    model_state, optimizer_state = get_state_dict(model, [] if optimizer is None else [optimizer])
    return {"model": model_state} | ({} if optimizer is None else {"optimizer": optimizer_state})


def _random_file(rank: int) -> str:
    return f"random-{rank}.pt"


def _random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else state


def _set_random_state(state: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])

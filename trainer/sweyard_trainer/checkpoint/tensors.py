"""The tensors of a checkpoint, each rank writing its shards; readable by any number of ranks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.optim import Optimizer

from sweyard_trainer.storage_errors import full_disk_as_storage_full

TENSORS = "tensors"


def write_tensors(directory: Path, rank: int, model: nn.Module, optimizer: Optimizer | None) -> None:
    """Write weights, optimizer state and this rank's random state; a collective call. Raises StorageFullError."""
    with full_disk_as_storage_full(directory):
        with _first_failure():
            state_dict_saver.save(_state(model, optimizer), checkpoint_id=directory / TENSORS)
        torch.save(_random_state(), _random_file(directory, rank))


def read_tensors(directory: Path, rank: int, model: nn.Module, optimizer: Optimizer | None) -> None:
    """The reverse, into a model and an optimizer of the same kind; a collective call."""
    state = _state(model, optimizer)
    state_dict_loader.load(state, checkpoint_id=directory / TENSORS)
    optimizers = [] if optimizer is None else [optimizer]
    set_state_dict(model, optimizers, model_state_dict=state["model"], optim_state_dict=state.get("optimizer", {}))
    if _random_file(directory, rank).exists():  # more ranks than before keep their seeds
        _set_random_state(torch.load(_random_file(directory, rank), weights_only=True))


@contextmanager
def _first_failure() -> Iterator[None]:
    """PyTorch gathers what went wrong on each rank into one BaseException; raise the first for what it is."""
    try:
        yield
    except CheckpointException as error:
        failure, _ = next(iter(error.failures.values()))
        raise failure from error


def _state(model: nn.Module, optimizer: Optimizer | None) -> dict[str, Any]:
    model_state, optimizer_state = get_state_dict(model, [] if optimizer is None else [optimizer])
    return {"model": model_state} | ({} if optimizer is None else {"optimizer": optimizer_state})


def _random_file(directory: Path, rank: int) -> Path:
    return directory / f"random-{rank}.pt"


def _random_state() -> dict[str, torch.Tensor]:
    state = {"cpu": torch.get_rng_state()}
    return state | {"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else state


def _set_random_state(state: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])

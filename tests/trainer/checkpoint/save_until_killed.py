"""Save checkpoints in forked children that kill themselves at their nth touch of the file system; print what is left.

Run by test_kill.py as `python -m tests.trainer.checkpoint.save_until_killed DIRECTORY KEEP`:
one line of JSON per child.
"""

import json
import os
import signal
import sys
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.optim import AdamW

from sweyard_sandbox.outcome import Outcome
from sweyard_trainer.checkpoint.save import CheckpointSave
from sweyard_trainer.checkpoint.store import CheckpointState, CheckpointStore
from sweyard_trainer.checkpoint.tensors import read_tensors, stage
from sweyard_trainer.trajectory import Trajectory

TOUCHES = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}


def make(step: int) -> tuple[nn.Module, AdamW]:
    """A model whose weights are its step, with an optimizer that has moments."""
    model = nn.Linear(8, 8)
    nn.init.constant_(model.weight, float(step))
    optimizer = AdamW(model.parameters(), lr=0.0)
    torch.autograd.backward(model(torch.ones(8)).sum())
    optimizer.step()
    return model, optimizer


def make_held(step: int) -> list[Trajectory]:
    """An attempt under way that knows its step."""
    return [Trajectory(f"{step}/t/0", "t", f"{step}/t", (), Outcome.UNSOLVED, float(step))]


def save(checkpoints: Path, step: int, keep: int) -> None:
    name = CheckpointStore(str(checkpoints)).begin(step)
    state = CheckpointState(step, "rl", step, {"of": step})
    CheckpointSave(str(checkpoints), name, state, keep, ()).write(0, stage(*make(step)), None, make_held(step))


def kill_at(number: int, directory: str) -> None:
    """Die by SIGKILL just before the `number`th touch of a file below `directory`."""
    count = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in TOUCHES and directory in str(arguments[0]):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def child(checkpoints: Path, step: int, keep: int, number: int) -> bool:
    """True if it was killed."""
    pid = os.fork()
    if pid == 0:
        kill_at(number, str(checkpoints))
        save(checkpoints, step, keep)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(pid, 0)[1])


def load(checkpoints: Path) -> int:
    """Step of the latest checkpoint, read back in full; -1 if its content is not that of its step."""
    store = CheckpointStore(str(checkpoints))
    latest = store.complete()[-1].name
    store.verify(latest)
    state = store.read_state(latest)
    model, optimizer = make(0)
    read_tensors(store, latest, 0, model, optimizer)
    whole = state.extra == {"of": state.step} and bool((model.weight == state.step).all())
    whole = whole and store.read_held(latest) == make_held(state.step)
    return state.step if whole else -1


def main() -> None:
    warnings.simplefilter("ignore")  # torch.distributed.checkpoint says that there is one process
    torch.set_num_threads(1)
    checkpoints, keep = Path(sys.argv[1]), int(sys.argv[2])
    save(checkpoints, 1, keep)  # also warms up what the children inherit
    step, number, killed = 1, 0, True
    while killed:
        number += 1
        killed = child(checkpoints, step + 1, keep, number)
        found = load(checkpoints)
        names = sorted(path.name for path in checkpoints.iterdir())
        print(json.dumps({"touch": number, "killed": killed, "saving": step + 1, "latest": found, "left": names}))
        step = found if found == step + 1 else step


main()

"""What checksums cost a checkpoint: tensors written with and without them, and looked at against loaded.

`python -m benchmarks.checkpoint [--mib N]`: random float32 tensors of 16 MiB each, by PyTorch's own writer and by ours,
onto this machine's disk, synced, the best of three rounds. The last line is JSON: `mib`, and for `plain`, `summed`,
`verify` and `load` `<name>_s` and `<name>_cpu_s` (outside of the kernel, whose share is the disk's and the day's).
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import torch
from benchmarks.figures import print_figures
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter

from sweyard_trainer.checkpoint.store import CheckpointState, CheckpointStore
from sweyard_trainer.checkpoint.tensors import TENSORS, Staged, write_tensors

TENSOR_MIB = 16
ROUNDS = 3


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    mib = parser.parse_args().mib
    warnings.simplefilter("ignore")  # torch.distributed.checkpoint says that there is one process
    tensors = {str(number): torch.randn(TENSOR_MIB * 2**18) for number in range(mib // TENSOR_MIB)}
    rounds = [measure_round(tensors) for _ in range(ROUNDS)]
    figures = {"mib": float(mib)} | {name: min(each[name] for each in rounds) for name in rounds[0]}
    print_figures(figures)


def measure_round(tensors: dict[str, torch.Tensor]) -> dict[str, float]:
    """Everything once, in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        store = CheckpointStore(directory)
        name = store.begin(1)
        files = Path(directory) / name / TENSORS
        work: dict[str, Callable[[], object]] = {
            "plain": lambda: state_dict_saver.save(tensors, storage_writer=FileSystemWriter(f"{directory}/plain")),
            "summed": lambda: write_tensors(store, name, 0, Staged(tensors, {}), None),
            "commit": lambda: store.commit(name, CheckpointState(1, None, 0), keep=1, best_first=()),
            "verify": lambda: store.verify(name),
            "load": lambda: state_dict_loader.load(tensors, storage_reader=FileSystemReader(files)),
        }
        return {figure: value for part, do in work.items() for figure, value in measure(part, do).items()}


def measure(part: str, do: Callable[[], object]) -> dict[str, float]:
    """Seconds on the wall, and of the processor in this process's own code."""
    began, cpu = time.perf_counter(), os.times().user
    do()
    return {
        f"{part}_s": round(time.perf_counter() - began, 2),
        f"{part}_cpu_s": round(os.times().user - cpu, 2),
    }


if __name__ == "__main__":
    main()

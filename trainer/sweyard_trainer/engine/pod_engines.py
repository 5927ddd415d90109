"""The engines of placement `colocated`: vLLM servers as processes beside the trainer, on the GPUs of its pod.

A GPU belongs to one container, so they cannot be containers of their own. They start before any rank does, for vLLM
measures the memory that is left, and sleep whenever ranks compute (weight_sync/colocated.py). One that ends is not
started again, since ranks hold its memory by then: the attempt ends, and the next one starts with all of them.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sweyard_api.colocated import engine_gpus, engine_ports
from sweyard_api.engine_command import ENGINE_START, engine_arguments, engine_environment
from sweyard_api.training_run import TrainingRunSpec

TERMINATION_SECONDS = 15.0
SECRETS = ("HF_TOKEN", "WANDB_API_KEY", "SWEYARD_ENGINE_API_KEY")
"""Variables of the trainer that are none of an engine's business."""

Process = subprocess.Popen[bytes]


@contextmanager
def pod_engines(
    spec: TrainingRunSpec, model: Path, variables: Mapping[str, str], *, start: Sequence[str] = ENGINE_START
) -> Iterator[Callable[[], bool]]:
    """Start those that the config places in this pod, if any, with the prepared `model`; stop them at the end.

    Gives a function that says whether all of them still run. `variables` is this process's own environment, `start`
    what Python is told to be the server.
    """
    ports = engine_ports(spec) if spec.inference.placement == "colocated" else []
    processes: list[Process] = []
    try:
        for number, port in enumerate(ports):
            command = [sys.executable, *start, *engine_arguments(spec, str(model), port)]
            processes.append(subprocess.Popen(command, env=engine_variables(spec, number, variables)))
        yield lambda: all(process.poll() is None for process in processes)
    finally:
        _stop(processes)


def engine_variables(spec: TrainingRunSpec, number: int, variables: Mapping[str, str]) -> dict[str, str]:
    """Environment of a pod's engine: it sees its own GPUs alone, of those that this process may use."""
    gpus = list(map(str, engine_gpus(spec, number)))
    if visible := variables.get("CUDA_VISIBLE_DEVICES"):
        gpus = [visible.split(",")[int(gpu)] for gpu in gpus]
    inherited = {name: value for name, value in variables.items() if name not in SECRETS}
    return {**inherited, **engine_environment(spec), "CUDA_VISIBLE_DEVICES": ",".join(gpus)}


def _stop(processes: Sequence[Process]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(TERMINATION_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

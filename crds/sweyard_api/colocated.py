"""Where the engines of placement `colocated` are: in each of the trainer's pods, which divide its GPUs. Pure."""

from sweyard_api.constants import ENGINE_PORT
from sweyard_api.training_run import TrainingRunSpec


def engines_per_pod(spec: TrainingRunSpec) -> int:
    """A rank has one GPU, an engine `tensorParallel` of them, all of one pod."""
    return spec.trainer.processes_per_replica // spec.inference.tensor_parallel


def engine_ports(spec: TrainingRunSpec) -> list[int]:
    """Of a pod's engines, in the order of their GPUs."""
    return [ENGINE_PORT + number for number in range(engines_per_pod(spec))]


def engine_gpus(spec: TrainingRunSpec, number: int) -> list[int]:
    """Those of a pod's engine, as the pod counts its GPUs."""
    each = spec.inference.tensor_parallel
    return list(range(number * each, (number + 1) * each))


def engine_urls(spec: TrainingRunSpec, pod_host: str) -> list[str]:
    """Base URLs of one pod's engines."""
    return [f"http://{pod_host}:{port}" for port in engine_ports(spec)]

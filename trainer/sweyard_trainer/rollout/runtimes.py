"""Where a worker's sandboxes come from: pods of the run's pool, this machine, or its Docker engine."""

from collections.abc import Sequence
from functools import partial

from sweyard_api.base import quantity_value
from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.errors import InfrastructureError
from sweyard_sandbox.pool.pool import Pool
from sweyard_sandbox.runtime import Runtime
from sweyard_sandbox.runtimes.docker.runtime import DockerConfig, open_engine
from sweyard_sandbox.runtimes.kubernetes.runtime import KubernetesRuntime
from sweyard_sandbox.runtimes.local.runtime import LocalConfig, LocalRuntime
from sweyard_sandbox.tasks.task import Task
from sweyard_sandbox.tree_image import tree_of
from sweyard_trainer.environment import Environment
from sweyard_trainer.errors import UnsupportedError


def runtime_kind(spec: TrainingRunSpec, environment: Environment) -> str:
    """kubernetes, local or docker. Raises UnsupportedError for what cannot be had where the run is."""
    kind = spec.sandboxes.runtime or ("kubernetes" if environment.on_cluster else "local")
    if kind == "docker" and environment.on_cluster:
        raise UnsupportedError("sandboxes.runtime: docker: pods have no engine: leave the field out on a cluster")
    if spec.agent.type == "cli" and kind == "docker":
        raise UnsupportedError(
            "agent.type: a `cli` agent in a container without a network reaches no gateway: run it in pods, or set "
            "sandboxes.runtime to local"
        )
    if spec.agent.type == "cli" and kind == "kubernetes" and not environment.gateway_url:
        raise UnsupportedError(
            "agent.type: a `cli` agent in pods needs a gateway that they reach: apply the run to the cluster, or set "
            "sandboxes.runtime to local"
        )
    return kind


def demand_fitting_images(kind: str, tasks: Sequence[Task]) -> None:
    """A directory of this machine is no container image, nor the other way round. Raises UnsupportedError."""
    away = next((task for task in tasks if task.is_directory != (kind == "local")), None)
    if away is None or kind == "kubernetes":
        return
    if kind == "local":
        raise UnsupportedError(
            f"task {away.id} lives in the container image {away.image}, and sandboxes of this machine hold "
            "directories alone: set sandboxes.runtime to docker, or apply the run to a cluster"
        )
    raise UnsupportedError(
        f"task {away.id} lives in the directory {tree_of(away.image)} and in no container image: set "
        "sandboxes.runtime to local"
    )


async def make_worker_runtime(spec: TrainingRunSpec, environment: Environment) -> Runtime:
    """On a cluster each worker is a holder of its own. Raises UnsupportedError."""
    kind = runtime_kind(spec, environment)
    if kind == "local":
        return _local_runtime(spec, environment)
    if kind == "docker":
        return await _docker_runtime(spec)
    connect = partial(Pool.connect, namespace=environment.namespace, name=environment.pool)
    return KubernetesRuntime(await connect(), connect)


def _local_runtime(spec: TrainingRunSpec, environment: Environment) -> Runtime:
    """A model that was made from scratch is too small to do harm; others are isolated or refused."""
    trusted = environment.allow_unisolated or spec.model.scratch is not None
    return LocalRuntime(LocalConfig(max_sandboxes=spec.rollout.max_concurrent, allow_unisolated=trusted))


async def _docker_runtime(spec: TrainingRunSpec) -> Runtime:
    try:
        return await open_engine(docker_config(spec))
    except InfrastructureError as error:
        raise UnsupportedError(
            f"sandboxes.runtime: docker: no engine answers here ({error.message}); start it, or leave the field out"
        ) from error


def docker_config(spec: TrainingRunSpec) -> DockerConfig:
    """The limits of the run's sandboxes, as far as an engine has such."""
    limits = spec.sandboxes.template.resources.limits
    bounds = DockerConfig(max_sandboxes=spec.rollout.max_concurrent)
    return DockerConfig(
        max_sandboxes=bounds.max_sandboxes,
        cpus=quantity_value(limits["cpu"]) if "cpu" in limits else bounds.cpus,
        memory=str(round(quantity_value(limits["memory"]))) if "memory" in limits else bounds.memory,
    )

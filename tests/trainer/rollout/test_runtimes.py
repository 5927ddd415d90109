"""Where sandboxes come from, and what cannot be had there."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweyard_api.resolve import resolve
from sweyard_api.training_run import TrainingRunSpec
from sweyard_sandbox.runtimes.docker.runtime import DockerConfig
from sweyard_sandbox.tasks.task import Task
from sweyard_trainer.environment import Environment
from sweyard_trainer.errors import UnsupportedError
from sweyard_trainer.rollout.runtimes import demand_fitting_images, docker_config, make_worker_runtime, runtime_kind

HERE = Environment(run="r", storage=Path("/nowhere"))
CLUSTER = Environment(run="r", storage=Path("/nowhere"), on_cluster=True, gateway_url="http://gateway:8000")
CLI = {"type": "cli", "command": ["qwen"]}
UNTAUGHT = {"steps": 0}


def spec_of(**parts: Any) -> TrainingRunSpec:
    return resolve({"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, **parts})


@pytest.mark.parametrize(
    ("where", "runtime", "kind"),
    [
        (HERE, None, "local"),
        (CLUSTER, None, "kubernetes"),
        (HERE, "docker", "docker"),
        (HERE, "kubernetes", "kubernetes"),
        (CLUSTER, "local", "local"),
    ],
)
def test_sandboxes_come_from_the_cluster_or_this_machine_unless_told(
    where: Environment, runtime: str | None, kind: str
) -> None:
    assert runtime_kind(spec_of(sandboxes={"runtime": runtime} if runtime else {}), where) == kind


def test_pods_have_no_docker_engine() -> None:
    with pytest.raises(UnsupportedError, match=r"^sandboxes.runtime: docker: .* leave the field out on a cluster"):
        runtime_kind(spec_of(sandboxes={"runtime": "docker"}), CLUSTER)


@pytest.mark.parametrize("runtime", ["docker", "kubernetes"])
def test_an_agent_that_reaches_no_gateway_is_refused(runtime: str) -> None:
    with pytest.raises(UnsupportedError, match=r"^agent.type: .*set sandboxes.runtime to local"):
        runtime_kind(spec_of(agent=CLI, warmup=UNTAUGHT, sandboxes={"runtime": runtime}), HERE)


@pytest.mark.parametrize(
    ("kind", "images", "sentence"),
    [
        ("local", ["dir:/a", "python:3"], "task x1 lives in the container image python:3.*runtime to docker"),
        ("docker", ["python:3", "dir:/a"], "task x1 lives in the directory /a .*runtime to local"),
    ],
)
def test_a_task_whose_image_cannot_be_a_sandbox_is_named(
    make_task: Callable[..., Task], kind: str, images: list[str], sentence: str
) -> None:
    tasks = [make_task(f"x{number}").model_copy(update={"image": image}) for number, image in enumerate(images)]
    with pytest.raises(UnsupportedError, match=sentence):
        demand_fitting_images(kind, tasks)
    demand_fitting_images(kind, tasks[:1])


def test_a_container_has_the_limits_of_the_runs_sandboxes_as_far_as_they_are_set() -> None:
    limits = {"cpu": "1500m", "memory": "2Gi"}
    bounded = spec_of(sandboxes={"template": {"resources": {"limits": limits}}}, rollout={"maxConcurrent": 7})
    config = docker_config(bounded)
    assert (config.cpus, config.memory, config.max_sandboxes) == (1.5, str(2 << 30), 7)
    assert docker_config(spec_of()).cpus == DockerConfig().cpus


async def test_an_engine_that_does_not_answer_is_said_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnsupportedError, match=r"^sandboxes.runtime: docker: no engine answers here .*install Docker"):
        await make_worker_runtime(spec_of(sandboxes={"runtime": "docker"}), HERE)

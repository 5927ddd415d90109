"""A run, and what is built for it."""

from typing import Any

from sweyard_api.resolve import resolve
from sweyard_operator.build.engine import build_engines
from sweyard_operator.build.gateway import build_gateway
from sweyard_operator.build.run_context import (
    ApiServerEndpoint,
    Development,
    RunContext,
    RunSettings,
)
from sweyard_operator.build.trainer_job import build_trainer_job
from sweyard_operator.resources import Manifest

SETTINGS = RunSettings("registry.example/sweyard-trainer:1", api_server=(ApiServerEndpoint("fd00::1", 6443),))
DEVELOPMENT = RunSettings(
    "unused:1", development=Development(image="base:1", python="/opt/venv/bin/python", host_paths=["/opt/venv"])
)


def make_run(**changes: Any) -> RunContext:
    spec = {"preset": "tiny", "tasks": {"train": {"dataset": "tiny"}}, **changes}
    return RunContext("demo", "lab", "run-uid", resolve(spec))


def job_of(run: RunContext, settings: RunSettings = SETTINGS, gateway_ip: str | None = "10.96.0.7") -> Manifest:
    return build_trainer_job(run, settings, attempt=3, restarts=1, gateway_ip=gateway_ip)


def pod_of(manifest: Manifest) -> dict[str, Any]:
    spec: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return spec


def env_of(container: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container["env"]}


def pods_of(run: RunContext, settings: RunSettings) -> list[dict[str, Any]]:
    return [
        pod_of(item) for item in (job_of(run, settings), build_gateway(run, settings), build_engines(run, settings))
    ]

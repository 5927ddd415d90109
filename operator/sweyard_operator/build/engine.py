"""The inference engines: vLLM, one pod each, with names that last."""

import math
from typing import Any

from sweyard_api.constants import ENGINE_PORT, STORAGE_MOUNT_PATH, engine_name
from sweyard_api.engine_command import ENGINE_MODULE, engine_arguments, engine_environment
from sweyard_operator.build.pod_template import PodShape, build_pod_template
from sweyard_operator.build.run_context import COMPONENT_ENGINE, RunContext, RunSettings, owned_metadata, pod_selector
from sweyard_operator.resources import Manifest

CONTAINER_ENGINE = "engine"
MODEL_PATH = f"{STORAGE_MOUNT_PATH}/model"
_STARTUP_PERIOD_SECONDS = 5


def build_engine_service(run: RunContext) -> Manifest:
    """Headless Service: each engine is addressed by itself, ready or not, since each must confirm its weights."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(run, engine_name(run.name), COMPONENT_ENGINE),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": pod_selector(run, COMPONENT_ENGINE),
            "ports": [{"name": "http", "port": ENGINE_PORT}],
        },
    }


def build_engines(run: RunContext, settings: RunSettings, count: int | None = None) -> Manifest:
    """StatefulSet of so many engines (None: as many as there may be); all start at once, for none waits for another."""
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": owned_metadata(run, engine_name(run.name), COMPONENT_ENGINE),
        "spec": {
            "serviceName": engine_name(run.name),
            "replicas": run.config.inference.replicas if count is None else count,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": pod_selector(run, COMPONENT_ENGINE)},
            "template": build_pod_template(run, settings, _build_shape(run, settings)),
        },
    }


def _build_shape(run: RunContext, settings: RunSettings) -> PodShape:
    options = run.config.inference
    arguments = engine_arguments(run.config, MODEL_PATH, ENGINE_PORT)
    environment = engine_environment(run.config)
    return PodShape(
        component=COMPONENT_ENGINE,
        options=options,
        prepares_model=True,
        spec={"terminationGracePeriodSeconds": 15},
        container={
            "name": CONTAINER_ENGINE,
            "image": settings.image(options.image),
            "command": [settings.python, "-m", ENGINE_MODULE, *arguments],
            "env": [{"name": name, "value": value} for name, value in environment.items()],
            "ports": [{"name": "http", "containerPort": ENGINE_PORT}],
            **_build_probes(options.startup_deadline_seconds),
        },
    )


def _build_probes(startup_deadline_seconds: int) -> dict[str, Any]:
    health = {"httpGet": {"path": "/health", "port": "http"}, "timeoutSeconds": 5}
    failures = math.ceil(startup_deadline_seconds / _STARTUP_PERIOD_SECONDS)
    return {
        # Liveness begins only once this has passed, so that no engine is killed while it loads.
        "startupProbe": {**health, "periodSeconds": _STARTUP_PERIOD_SECONDS, "failureThreshold": failures},
        "readinessProbe": {**health, "periodSeconds": 5},
        # Minutes, since a weight sync may hold the server's loop for long.
        "livenessProbe": {**health, "periodSeconds": 30, "failureThreshold": 10},
    }

"""The gateway: the one address that sandboxes may reach, without any token of the API server."""

from typing import Any

from sweyard_api.base import ResourceRequirements
from sweyard_api.constants import GATEWAY_ADMIN_PORT, GATEWAY_PORT, gateway_name
from sweyard_api.pod_options import PodOptions
from sweyard_operator.build.pod_template import CONFIG_FILE, PodShape, build_pod_template, build_secret_env
from sweyard_operator.build.run_context import (
    COMPONENT_GATEWAY,
    RunContext,
    RunSettings,
    owned_metadata,
    pod_selector,
)
from sweyard_operator.build.trainer_job import build_run_env
from sweyard_operator.resources import Manifest

CONTAINER_GATEWAY = "gateway"
GATEWAY_REPLICAS = 1
"""It holds the sessions of all attempts in memory."""
_RESOURCES = ResourceRequirements(requests={"cpu": "250m", "memory": "512Mi"}, limits={"memory": "4Gi"})


def build_gateway(run: RunContext, settings: RunSettings) -> Manifest:
    """Deployment of the gateway."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": owned_metadata(run, gateway_name(run.name), COMPONENT_GATEWAY),
        "spec": {
            "replicas": GATEWAY_REPLICAS,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": pod_selector(run, COMPONENT_GATEWAY)},
            "template": build_pod_template(run, settings, _build_shape(run, settings)),
        },
    }


def build_gateway_service(run: RunContext, address: str | None = None) -> Manifest:
    """Service with an address of its own, the one that a trainer at work knows if there is one; which client may use
    which port is the NetworkPolicy's to say."""
    ports = {"sessions": GATEWAY_PORT, "admin": GATEWAY_ADMIN_PORT}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(run, gateway_name(run.name), COMPONENT_GATEWAY),
        "spec": {
            "selector": pod_selector(run, COMPONENT_GATEWAY),
            "ports": [{"name": name, "port": port, "targetPort": name} for name, port in ports.items()],
            **({"clusterIP": address} if address else {}),
        },
    }


def _build_shape(run: RunContext, settings: RunSettings) -> PodShape:
    trainer, inference = run.config.trainer, run.config.inference
    return PodShape(
        component=COMPONENT_GATEWAY,
        # The image of the trainer, since both must agree on tokens; where the trainer may run, the gateway may too.
        options=PodOptions(
            resources=_RESOURCES, tolerations=trainer.tolerations, priority_class_name=trainer.priority_class_name
        ),
        # It renders prompts with the model's own tokenizer.
        prepares_model=True,
        spec={"terminationGracePeriodSeconds": 10},
        container={
            "name": CONTAINER_GATEWAY,
            "image": settings.image(trainer.image),
            "command": [settings.python, "-m", "sweyard_trainer.gateway", "--config", CONFIG_FILE],
            "env": [
                *build_run_env(run),
                *build_secret_env("SWEYARD_ENGINE_API_KEY", inference.api_key_secret),
            ],
            "ports": [
                {"name": "sessions", "containerPort": GATEWAY_PORT},
                {"name": "admin", "containerPort": GATEWAY_ADMIN_PORT},
            ],
            **_build_probes(),
        },
    )


def _build_probes() -> dict[str, Any]:
    health = {"tcpSocket": {"port": "admin"}}
    return {
        # Imports of the tokenizer take seconds on a busy node.
        "startupProbe": {**health, "periodSeconds": 2, "failureThreshold": 150},
        "readinessProbe": {**health, "periodSeconds": 5},
    }

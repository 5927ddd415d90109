"""The trainer: an Indexed Job whose pods start and end as one gang, and the Service that names them."""

from typing import Any

from sweyard_api import colocated
from sweyard_api.constants import (
    ENGINE_PORT,
    EXIT_CODE_USER_FAULT,
    GATEWAY_ADMIN_PORT,
    GATEWAY_PORT,
    METRICS_PORT,
    STORAGE_MOUNT_PATH,
    engine_name,
    gateway_name,
    trainer_job_name,
    trainer_name,
)
from sweyard_operator.build.pod_group import build_scheduling_group
from sweyard_operator.build.pod_template import (
    CONFIG_FILE,
    CONTAINER_PREPARE,
    PodShape,
    build_hub_env,
    build_pod_name_env,
    build_pod_template,
    build_secret_env,
)
from sweyard_operator.build.run_context import (
    ANNOTATION_RESTARTS,
    COMPONENT_TRAINER,
    ENV_GATEWAY_URL,
    LABEL_ATTEMPT,
    RunContext,
    RunSettings,
    owned_metadata,
    pod_selector,
)
from sweyard_operator.resources import Manifest

CONTAINER_TRAINER = "trainer"
TERMINATION_GRACE_PERIOD_SECONDS = 300
"""Time for a checkpoint after SIGTERM."""


def build_trainer_service(run: RunContext) -> Manifest:
    """Headless Service: gives ranks their names before they are ready, which is how they find rank 0."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": owned_metadata(run, trainer_name(run.name), COMPONENT_TRAINER),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": pod_selector(run, COMPONENT_TRAINER),
            "ports": [{"name": "metrics", "port": METRICS_PORT}],
        },
    }


def build_trainer_job(
    run: RunContext, settings: RunSettings, *, attempt: int, restarts: int, gateway_ip: str | None
) -> Manifest:
    """Indexed Job of one attempt; sandboxes, which have no DNS, reach the gateway by its IP (None: no gateway)."""
    metadata = owned_metadata(run, trainer_job_name(run.name, attempt), COMPONENT_TRAINER)
    metadata["labels"][LABEL_ATTEMPT] = str(attempt)
    metadata["annotations"] = {ANNOTATION_RESTARTS: str(restarts)}
    replicas = run.trainer_replicas
    spec: dict[str, Any] = {
        "completionMode": "Indexed",
        "completions": replicas,
        "parallelism": replicas,
        # One dead rank ends the attempt: the operator starts all of them again from the checkpoint.
        "backoffLimit": 0,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": [_fail_on_user_fault(CONTAINER_PREPARE), _fail_on_user_fault(CONTAINER_TRAINER)]},
        "template": build_pod_template(run, settings, _build_shape(run, settings, attempt, gateway_ip)),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _fail_on_user_fault(container: str) -> dict[str, Any]:
    """Written into the Job's condition, so that it is known even when the pod is gone."""
    codes = {"containerName": container, "operator": "In", "values": [EXIT_CODE_USER_FAULT]}
    return {"action": "FailJob", "onExitCodes": codes}


def _build_shape(run: RunContext, settings: RunSettings, attempt: int, gateway_ip: str | None) -> PodShape:
    options = run.config.trainer
    return PodShape(
        component=COMPONENT_TRAINER,
        options=options,
        prepares_model=True,
        writes_storage=True,
        mounts_datasets=True,
        takes_extended_resources=run.trainer_computes,
        service_account=trainer_name(run.name),
        labels={LABEL_ATTEMPT: str(attempt)},
        spec={
            "restartPolicy": "Never",
            "subdomain": trainer_name(run.name),
            "terminationGracePeriodSeconds": TERMINATION_GRACE_PERIOD_SECONDS,
            **build_scheduling_group(run),
        },
        container={
            "name": CONTAINER_TRAINER,
            "image": settings.image(options.image),
            "command": [settings.python, "-m", "sweyard_trainer", "--config", CONFIG_FILE],
            "env": _build_trainer_env(run, attempt, gateway_ip),
            "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        },
    )


def _build_trainer_env(run: RunContext, attempt: int, gateway_ip: str | None) -> list[dict[str, Any]]:
    inference, wandb = run.config.inference, run.config.logging.wandb
    own = {
        "SWEYARD_ATTEMPT": str(attempt),
        "SWEYARD_HEAD_ADDRESS": _rank_host(run, attempt, 0),
        "SWEYARD_ENGINE_URLS": ",".join(engine_urls(run, attempt)),
    }
    if gateway_ip is not None:
        own[ENV_GATEWAY_URL] = f"http://{_url_host(gateway_ip)}:{GATEWAY_PORT}"
        own["SWEYARD_GATEWAY_ADMIN_URL"] = f"http://{gateway_name(run.name)}:{GATEWAY_ADMIN_PORT}"
    return [
        *build_run_env(run),
        *({"name": name, "value": value} for name, value in own.items()),
        *build_hub_env(run),
        *build_secret_env("SWEYARD_ENGINE_API_KEY", inference.api_key_secret),
        *build_secret_env("WANDB_API_KEY", wandb.secret if wandb else None),
    ]


def build_run_env(run: RunContext) -> list[dict[str, Any]]:
    """Environment that gateway and trainer share."""
    values = {
        "SWEYARD_RUN": run.name,
        "SWEYARD_RUN_UID": run.uid,
        "SWEYARD_NAMESPACE": run.namespace,
        "SWEYARD_POOL": run.pool,
        "SWEYARD_STORAGE": STORAGE_MOUNT_PATH,
    }
    return [*({"name": name, "value": value} for name, value in values.items()), build_pod_name_env()]


def engine_urls(run: RunContext, attempt: int) -> list[str]:
    """Base URL of each engine, by the stable name of its first pod; none where the trainer has or needs none."""
    inference = run.config.inference
    if not run.makes_attempts:
        return []
    if inference.url is not None:
        return [inference.url]
    if inference.placement == "colocated":
        hosts = [_rank_host(run, attempt, index) for index in range(run.trainer_replicas)]
        return [url for host in hosts for url in colocated.engine_urls(run.config, host)]
    if not run.has_engines:
        return []
    service, pods = engine_name(run.name), inference.pods_per_engine
    return [f"http://{service}-{number * pods}.{service}:{ENGINE_PORT}" for number in range(inference.replicas)]


def _rank_host(run: RunContext, attempt: int, index: int) -> str:
    """Name of a pod of the gang; not of an attempt before it, whose pods may still be ending."""
    return f"{trainer_job_name(run.name, attempt)}-{index}.{trainer_name(run.name)}"


def _url_host(address: str) -> str:
    return f"[{address}]" if ":" in address else address

"""What the pods of trainer, engine and gateway have in common: volumes, security, the model's preparation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweyard_api.base import ResourceRequirements
from sweyard_api.constants import CONFIG_MOUNT_PATH, STORAGE_MOUNT_PATH, config_map_name
from sweyard_api.pod_options import EnvVar, PodOptions
from sweyard_operator.build.datasets import build_dataset_mounts, build_dataset_volumes
from sweyard_operator.build.overrides import merge_pod_spec
from sweyard_operator.build.pod_affinity import build_affinity
from sweyard_operator.build.run_context import RunContext, RunSettings, component_labels

CONFIG_FILE = f"{CONFIG_MOUNT_PATH}/config.yaml"
RUN_AS_USER = 1000
CONTAINER_PREPARE = "prepare"


@dataclass(frozen=True)
class PodShape:
    """How one component's pods differ from the others'."""

    component: str
    container: Mapping[str, Any]
    """Main container, without what all have in common: name, image, command, ports, probes, env."""
    options: PodOptions
    prepares_model: bool = False
    """Make the model on the volume in an init container."""
    mounts_storage: bool = True
    writes_storage: bool = False
    mounts_datasets: bool = False
    takes_extended_resources: bool = True
    """GPUs and the like, which the options may name."""
    service_account: str | None = None
    """Account whose token the pods carry; None for no token at all."""
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the PodSpec."""


def build_pod_template(run: RunContext, settings: RunSettings, shape: PodShape) -> dict[str, Any]:
    """PodTemplateSpec: locked down as far as the component's work allows, then the user's overrides."""
    spec: dict[str, Any] = {
        "automountServiceAccountToken": shape.service_account is not None,
        # Service links would set variables such as VLLM_PORT where a Service happens to be called vllm.
        "enableServiceLinks": False,
        "securityContext": _build_pod_security(settings),
        "containers": [_build_container(run, settings, shape)],
        "volumes": _build_volumes(run, settings, shape),
        **_build_placement(run, shape),
        **shape.spec,
    }
    if shape.prepares_model:
        spec["initContainers"] = [_build_prepare(run, settings, shape)]
    choice = run.choice(shape.component)
    metadata: dict[str, Any] = {"labels": {**choice.labels, **component_labels(run, shape.component), **shape.labels}}
    if choice.annotations:
        metadata["annotations"] = dict(choice.annotations)
    return {
        "metadata": metadata,
        "spec": merge_pod_spec(spec, shape.options.pod_overrides or {}),
    }


def _build_placement(run: RunContext, shape: PodShape) -> dict[str, Any]:
    options, choice = shape.options, run.choice(shape.component)
    chosen = {
        "serviceAccountName": shape.service_account,
        "nodeSelector": {**options.node_selector, **choice.node_selector},
        "tolerations": [*options.tolerations, *choice.tolerations],
        "priorityClassName": options.priority_class_name,
        "affinity": build_affinity(run, shape.component, options),
    }
    return {key: value for key, value in chosen.items() if value}


def _build_container(run: RunContext, settings: RunSettings, shape: PodShape) -> dict[str, Any]:
    own_env = list(shape.container.get("env", []))
    return {
        **shape.container,
        "env": build_env([*_build_common_env(settings), *own_env], shape.options.env),
        "resources": build_resources(shape.options.resources, extended=shape.takes_extended_resources),
        "securityContext": _build_container_security(),
        # The last lines of the log stand in for a component that dies without a sentence of its own.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _build_mounts(run, settings, shape, writes_storage=shape.writes_storage),
    }


def _build_prepare(run: RunContext, settings: RunSettings, shape: PodShape) -> dict[str, Any]:
    """Init container that makes or downloads the model; it locks, so that pods may race for it."""
    command = ["-m", "sweyard_trainer.prepare", "--config", CONFIG_FILE, "--storage", STORAGE_MOUNT_PATH]
    return {
        "name": CONTAINER_PREPARE,
        "image": settings.image(run.config.trainer.image),
        "command": [settings.python, *command],
        "env": build_env([*_build_common_env(settings), *build_hub_env(run)], shape.options.env),
        # Limited like the main container for quotas that demand limits; extended resources stay with that one.
        "resources": build_resources(shape.options.resources, extended=False),
        "securityContext": _build_container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": _build_mounts(run, settings, shape, writes_storage=True, datasets=True),
    }


def _build_common_env(settings: RunSettings) -> list[dict[str, Any]]:
    """A home that can be written to, and a name for a user id that no passwd file knows."""
    values = {"HOME": "/tmp", "USER": "sweyard", "HF_HOME": f"{STORAGE_MOUNT_PATH}/cache/huggingface"}
    if settings.development is not None:
        values["PYTHONDONTWRITEBYTECODE"] = "1"
    return [{"name": name, "value": value} for name, value in values.items()]


def build_pod_name_env() -> dict[str, Any]:
    """The pod's own name."""
    return {"name": "SWEYARD_POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}


def build_hub_env(run: RunContext) -> list[dict[str, Any]]:
    """The hub token, where the run names a Secret for it."""
    return build_secret_env("HF_TOKEN", run.config.model.token_secret)


def build_secret_env(name: str, secret: str | None, key: str = "token") -> list[dict[str, Any]]:
    """One variable from a Secret; none if there is no Secret."""
    if secret is None:
        return []
    return [{"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}]


def build_env(ours: Sequence[Mapping[str, Any]], users: Sequence[EnvVar]) -> list[dict[str, Any]]:
    """Our variables, then the user's, which win where both name one."""
    by_name = {variable["name"]: dict(variable) for variable in ours}
    for variable in users:
        from_secret = build_secret_env(variable.name, variable.secret, variable.key or variable.name)
        by_name[variable.name] = (
            from_secret[0] if from_secret else {"name": variable.name, "value": variable.value or ""}
        )
    return list(by_name.values())


def build_resources(resources: ResourceRequirements, *, extended: bool = True) -> dict[str, dict[str, str]]:
    """Requests and limits as core/v1 has them; extended resources have a slash in their name."""
    chosen = {
        "requests": {name: value for name, value in resources.requests.items() if extended or "/" not in name},
        "limits": {name: value for name, value in resources.limits.items() if extended or "/" not in name},
    }
    return {kind: amounts for kind, amounts in chosen.items() if amounts}


def _build_pod_security(settings: RunSettings) -> dict[str, Any]:
    user = settings.development.run_as_user if settings.development else RUN_AS_USER
    context: dict[str, Any] = {
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        # A chown of a volume with many checkpoints at every pod start would take minutes.
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if user != 0:
        context["runAsNonRoot"] = True
    return context


def _build_container_security() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }


def _build_volumes(run: RunContext, settings: RunSettings, shape: PodShape) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "config", "configMap": {"name": config_map_name(run.name)}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": shape.options.shared_memory}},
    ]
    if shape.mounts_storage:
        volumes.append({"name": "storage", "persistentVolumeClaim": {"claimName": run.claim}})
    if shape.mounts_datasets or shape.prepares_model:
        volumes.extend(build_dataset_volumes(run))
    for number, path in enumerate(_host_paths(settings)):
        volumes.append({"name": f"host-{number}", "hostPath": {"path": path, "type": "Directory"}})
    return volumes


def _build_mounts(
    run: RunContext, settings: RunSettings, shape: PodShape, *, writes_storage: bool, datasets: bool = False
) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "config", "mountPath": CONFIG_MOUNT_PATH, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]
    if shape.mounts_storage:
        folder = run.config.storage.sub_path
        mount: dict[str, Any] = {"name": "storage", "mountPath": STORAGE_MOUNT_PATH}
        mount |= {"subPath": folder} if folder else {}
        mounts.append(mount if writes_storage else {**mount, "readOnly": True})
    if shape.mounts_datasets or datasets:
        mounts.extend(build_dataset_mounts(run))
    for number, path in enumerate(_host_paths(settings)):
        mounts.append({"name": f"host-{number}", "mountPath": path, "readOnly": True})
    return mounts


def _host_paths(settings: RunSettings) -> Sequence[str]:
    return settings.development.host_paths if settings.development else ()

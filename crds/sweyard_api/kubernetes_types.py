"""Values of Kubernetes' own types: plain dictionaries in their own spelling, typed and described in the schema."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError
from typing_extensions import TypedDict

_AS_WRITTEN = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Toleration(TypedDict):
    """A taint that a pod tolerates, as in core/v1."""

    __pydantic_config__ = _AS_WRITTEN  # type: ignore[misc]

    key: NotRequired[Annotated[str, Field(max_length=317)]]
    """Key of the taint; unset with operator Exists matches every taint."""
    operator: NotRequired[Literal["Exists", "Equal"]]
    """Exists ignores the value. Default: Equal."""
    value: NotRequired[Annotated[str, Field(max_length=63)]]
    """Value of the taint, for operator Equal."""
    effect: NotRequired[Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]]
    """Effect of the taint; unset matches every effect."""
    tolerationSeconds: NotRequired[int]
    """How long a NoExecute taint is tolerated. Default: for ever."""


class Condition(TypedDict):
    """One aspect of the state, as in meta/v1."""

    __pydantic_config__ = _AS_WRITTEN  # type: ignore[misc]

    type: Annotated[str, Field(max_length=316, pattern=r"^[A-Za-z][A-Za-z0-9]*$")]
    """Which aspect."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=1_024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one word for machines."""
    message: Annotated[str, Field(max_length=32_768)]
    """Why, in a sentence for people."""
    lastTransitionTime: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When `status` last changed."""
    observedGeneration: NotRequired[Annotated[int, Field(ge=0)]]
    """Generation of the spec that this speaks of."""


Conditions = Annotated[
    list[Condition],
    Field(
        max_length=16,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]
"""Conditions, one of a type."""

NAMED_LISTS = {
    **dict.fromkeys(("containers", "initContainers", "volumes", "env", "imagePullSecrets"), "name"),
    "volumeMounts": "mountPath",
    "ports": "containerPort",
}
"""Lists of a PodSpec that overrides are merged into, and the key by which their entries are told apart."""


def _check_overrides(overrides: dict[str, Any]) -> dict[str, Any]:
    _check_lists(overrides, "")
    return overrides


def _check_lists(overrides: dict[str, Any], path: str) -> None:
    for name, value in overrides.items():
        at = f"{path}{name}"
        if isinstance(value, list) and name in NAMED_LISTS:
            _check_entries(value, at, NAMED_LISTS[name])
        elif isinstance(value, dict):
            _check_lists(value, f"{at}.")


def _check_entries(entries: list[Any], path: str, key: str) -> None:
    for index, entry in enumerate(entries):
        at = f"{path}[{index}]"
        if not isinstance(entry, dict) or not isinstance(entry.get(key), str | int):
            message = "{at} needs a {key}: an entry is merged into ours of the same {key}, or added"
            raise PydanticCustomError("pod_overrides", message, {"at": at, "key": key})
        _check_lists(entry, f"{at}.")


PodOverrides = Annotated[
    dict[str, Any],
    AfterValidator(_check_overrides),
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""A partial core/v1 PodSpec. The API server keeps it as it is; what it may hold is checked when a pod is made of it."""

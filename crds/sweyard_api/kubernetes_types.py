"""Values of Kubernetes' own types: plain dictionaries in their own spelling, typed and described in the schema."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, WithJsonSchema
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

PodOverrides = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
]
"""A partial core/v1 PodSpec. The API server keeps it as it is; it is checked when a pod is made from it."""

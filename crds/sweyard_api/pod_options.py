"""What a user may set on the pods of one component."""

from typing import Annotated

from pydantic import Field

from sweyard_api.base import (
    DottedName,
    Labels,
    Model,
    PositiveQuantity,
    ResourceRequirements,
    quantity_value,
)
from sweyard_api.kubernetes_types import PodOverrides, Toleration
from sweyard_api.rule import Rule

GPU_RESOURCE = "nvidia.com/gpu"


def enough_gpus(resources: ResourceRequirements, needed: int) -> bool:
    """Whether a limit on GPUs, where there is one, allows `needed`."""
    return GPU_RESOURCE not in resources.limits or quantity_value(resources.limits[GPU_RESOURCE]) >= needed


def enough_gpus_in_cel(needed: str) -> str:
    """The same in CEL, of the field `needed`."""
    limits = "self.resources.limits"
    return (
        f"!has({needed}) || !has(self.resources) || !has({limits}) || !('{GPU_RESOURCE}' in {limits})"
        f" || quantity(string({limits}['{GPU_RESOURCE}'])).asInteger() >= {needed}"
    )


class EnvVar(Model):
    """One environment variable, literal or from a Secret."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
    """Name."""
    value: Annotated[str, Field(max_length=4_096)] | None = None
    """Literal value."""
    secret: DottedName | None = None
    """Secret to read instead."""
    key: Annotated[str, Field(max_length=253)] | None = None
    """Key in the Secret; default the variable's name."""

    rules = (
        Rule(
            "",
            "set exactly one of value and secret (key goes with secret)",
            lambda variable: (
                (variable.value is None) != (variable.secret is None)
                and not (variable.key is not None and variable.secret is None)
            ),
            "has(self.value) != has(self.secret) && (!has(self.key) || has(self.secret))",
        ),
    )


class PodOptions(Model):
    """What a user may set on the pods of one component."""

    image: Annotated[str, Field(max_length=512)] | None = None
    """Image; default the chart's."""
    resources: ResourceRequirements = ResourceRequirements()
    """Requests and limits of the main container."""
    node_selector: Labels = {}
    """Labels a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = []
    """Taints that the pods tolerate."""
    priority_class_name: DottedName | None = None
    """PriorityClass."""
    topology_key: Annotated[str, Field(max_length=317, pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9._-]+$")] | None = None
    """Label of nodes, such as that of a rack or a network block, whose value must be the same for all pods of the
    component."""
    exclusive_nodes: bool = False
    """Share no node with the trainers and engines of other runs."""
    shared_memory: PositiveQuantity = "1Gi"
    """Size of /dev/shm."""
    env: Annotated[list[EnvVar], Field(max_length=64)] = []
    """Further environment variables."""
    pod_overrides: PodOverrides | None = None
    """A partial PodSpec merged over ours, for what no field covers."""

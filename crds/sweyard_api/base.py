"""What all API models share: frozen, strict about unknown keys, camelCase on the wire."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A frozen value with camelCase keys in YAML and snake_case names in Python.

    A docstring below a field becomes its description in the CRD, hence in `kubectl explain`.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )


DnsName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)]
"""A name of a Kubernetes object (RFC 1123 label)."""

ImageName = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\s]+(:[^\s/]+|@sha256:[0-9a-f]{64})$")]
"""A container image with a tag or a digest; a bare name would silently mean :latest."""

Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi)?$", max_length=32)]
"""A Kubernetes quantity such as 500m or 4Gi."""


class ResourceRequirements(Model):
    """Requests and limits of one container, as in core/v1."""

    requests: Annotated[dict[str, Quantity], Field(max_length=16)] = {}
    """What the scheduler reserves, for example {"cpu": "1", "memory": "2Gi"}."""
    limits: Annotated[dict[str, Quantity], Field(max_length=16)] = {}
    """What the kubelet enforces; extended resources such as nvidia.com/gpu belong here."""

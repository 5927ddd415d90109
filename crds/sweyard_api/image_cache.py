"""ImageCache: which images are kept on which nodes, within which disk budget."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic_core import PydanticCustomError

from sweyard_api.base import DottedName, ImageName, Labels, Model, PositiveQuantity, RegistryHost, Repository
from sweyard_api.kubernetes_types import Conditions
from sweyard_api.rule import Rule


class RegistryMirror(Model):
    """Where to pull a registry's images from instead."""

    registry: RegistryHost
    """Host that image names carry, for example docker.io."""
    mirror: Repository
    """Host[:port][/prefix] to pull from."""


_COPIES = "must be a number of nodes from 0 to 10000, or `all`"


def _copies(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    try:
        return validate(value)
    except ValidationError:
        raise PydanticCustomError("copies", _COPIES) from None


ONCE_RULES = (
    Rule(
        "images",
        "names an image twice: keep it once",
        lambda cache: len(set(cache.images)) == len(cache.images),
    ),
    Rule(
        "mirrors",
        "two entries name the same registry: keep one",
        lambda cache: len({mirror.registry for mirror in cache.mirrors}) == len(cache.mirrors),
    ),
)


class ImageCacheSpec(Model):
    """What to keep on the nodes."""

    images: Annotated[
        list[ImageName], Field(max_length=1_000, json_schema_extra={"x-kubernetes-list-type": "set"})
    ] = []
    """Images to hold. Longer lists belong in a ConfigMap."""
    images_from: DottedName | None = None
    """ConfigMap in this namespace whose key `images` has one image a line, and after it, if known, its compressed bytes
    and how many of these its family shares (`sweyard cache plan --sizes --list` writes such lines)."""
    node_selector: Labels = {}
    """Nodes that take part; default all that are schedulable."""
    copies: Annotated[
        Annotated[int, Field(ge=0, le=10_000)] | Literal["all"],
        WrapValidator(_copies),
        WithJsonSchema(
            {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "maxLength": 16,
                "x-kubernetes-validations": [
                    {
                        "rule": "type(self) == int ? self >= 0 && self <= 10000 : self == 'all'",
                        "message": _COPIES,
                    }
                ],
            }
        ),
    ] = "all"
    """On how many nodes each image is held; `all` for every node, 0 for no pre-pull."""
    disk_budget: PositiveQuantity | None = None
    """Bytes that all images on a node may take, those of other pods among them; at most, and by default, three quarters
    of the node's disk, below what the kubelet's own image collection leaves."""
    max_parallel_pulls_per_node: Annotated[int, Field(ge=1, le=64)] = 3
    """Pulls at once on one node."""
    max_parallel_pulls_per_registry: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Pulls at once from one registry, by all nodes together."""
    pull_secrets: Annotated[list[DottedName], Field(max_length=16)] = []
    """Secrets with registry credentials, in this namespace."""
    mirrors: Annotated[
        list[RegistryMirror],
        Field(
            max_length=32,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["registry"]},
        ),
    ] = []
    """Registries to replace: images are pulled, and named in sandboxes, by the mirror's name. For a registry that the
    nodes' own container runtime mirrors nothing is needed here."""
    mode: Literal["agent", "pods"] = "agent"
    """`agent`: a DaemonSet that talks to the node's container runtime. `pods`: unprivileged pods that hold the images,
    for clusters that forbid host sockets."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *ONCE_RULES,
        Rule(
            "",
            "says nowhere which images to hold: list them in images (an empty list, to add them later), or name in "
            "imagesFrom a ConfigMap that lists them",
            lambda cache: cache.images_from is not None or "images" in cache.model_fields_set,
            "has(self.images) || has(self.imagesFrom)",
        ),
    )


class ImageFailure(Model):
    """One image that one node could not pull."""

    image: str
    """The image."""
    node: str
    """The node."""
    reason: str
    """Typed reason, for example NotFound, Unauthorized, CertificateUnknown, RateLimited, Timeout, DiskBudget."""
    message: str
    """What to do where the reason does not tell, and the runtime's own words, shortened."""


class ImageCacheStatus(Model):
    """What the nodes hold, as last reported by them."""

    observed_generation: int | None = None
    """Generation of the spec that this status speaks of."""
    total: int = 0
    """Images asked for."""
    cached: int = 0
    """Images held on as many nodes as asked for."""
    failed: int = 0
    """Images that at least one node could not pull, after retries."""
    nodes: int = 0
    """Nodes that take part."""
    bytes: int = 0
    """Bytes on disk over all nodes, in the runtime's own figures."""
    failures: Annotated[list[ImageFailure], Field(max_length=20)] = []
    """The first failures."""
    conditions: Conditions = []
    """Ready, Progressing, Degraded, DiskPressure, as in meta/v1 Condition."""

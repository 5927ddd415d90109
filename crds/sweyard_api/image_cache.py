"""ImageCache: which images are kept on which nodes, within which disk budget."""

from typing import Annotated, Any, Literal

from pydantic import Field

from sweyard_api.base import DnsName, ImageName, Model, Quantity


class RegistryMirror(Model):
    """Where to pull a registry's images from instead."""

    registry: Annotated[str, Field(min_length=1, max_length=253)]
    """Host that image names carry, for example docker.io."""
    mirror: Annotated[str, Field(min_length=1, max_length=253)]
    """Host[:port][/prefix] to pull from."""


class ImageCacheSpec(Model):
    """What to keep on the nodes."""

    images: Annotated[list[ImageName], Field(max_length=1_000)] = []
    """Images to hold. Longer lists belong in a ConfigMap."""
    images_from: DnsName | None = None
    """ConfigMap in this namespace whose key `images` has one image a line."""
    node_selector: Annotated[dict[str, str], Field(max_length=32)] = {}
    """Nodes that take part; default all that are schedulable."""
    copies: Annotated[int, Field(ge=0, le=10_000)] | Literal["all"] = "all"
    """On how many nodes each image is held; `all` for every node, 0 for no pre-pull."""
    disk_budget: Quantity | None = None
    """Bytes each node may spend on these images; default: what the kubelet's own image collection leaves."""
    max_parallel_pulls_per_node: Annotated[int, Field(ge=1, le=64)] = 3
    """Pulls at once on one node."""
    pull_secrets: Annotated[list[DnsName], Field(max_length=16)] = []
    """Secrets with registry credentials, in this namespace."""
    mirrors: Annotated[list[RegistryMirror], Field(max_length=32)] = []
    """Registries to replace."""
    mode: Literal["agent", "pods"] = "agent"
    """`agent`: a DaemonSet that talks to the node's container runtime. `pods`: unprivileged pods that hold the images,
    for clusters that forbid host sockets."""


class ImageFailure(Model):
    """One image that one node could not pull."""

    image: str
    """The image."""
    node: str
    """The node."""
    reason: str
    """Typed reason, for example NotFound, Unauthorized, RateLimited, Timeout, DiskBudget."""
    message: str
    """The runtime's own words, shortened."""


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
    conditions: Annotated[list[dict[str, Any]], Field(max_length=16)] = []
    """Ready, Progressing, Degraded, DiskPressure, as in meta/v1 Condition."""

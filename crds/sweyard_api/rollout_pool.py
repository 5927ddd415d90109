"""RolloutPool: up to `replicas` sandboxes, some of them warm, claimed by holders with a Lease."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sweyard_api.base import Annotations, Cidr, DnsName, DottedName, ImageName, Labels, Model, ResourceRequirements
from sweyard_api.constants import GROUP
from sweyard_api.kubernetes_types import Conditions, PodOverrides, Toleration
from sweyard_api.rule import Rule


class WarmImage(Model):
    """Sandboxes of one image to keep ready at all times."""

    image: ImageName
    """Image of the sandboxes."""
    replicas: Annotated[int, Field(ge=0, le=10_000)]
    """How many of them to keep free and Ready, beside the claimed ones."""


class SandboxNetwork(Model):
    """What a sandbox may reach. Default: nothing but the gateway of the run it works for."""

    allow_gateway: bool = True
    """Let sandboxes reach the gateways of the runs that use this pool, by address; DNS stays closed."""
    egress_cidrs: Annotated[list[Cidr], Field(max_length=16)] = []
    """Further destinations, as CIDR blocks. Empty keeps sandboxes offline, as grading assumes."""


_OWN = f"{GROUP}/"
_RESERVED = f"has a key that begins with {_OWN}, as the operator's own do: take another prefix"


def _has_own(metadata: Mapping[str, str]) -> bool:
    return any(key.startswith(_OWN) for key in metadata)


def _no_own_key(field: str) -> str:
    return f"!has(self.{field}) || self.{field}.all(key, !key.startsWith('{_OWN}'))"


class SandboxTemplate(Model):
    """How a sandbox pod differs from the safe default."""

    resources: ResourceRequirements = ResourceRequirements(
        requests={"cpu": "500m", "memory": "512Mi"},
        limits={"memory": "4Gi", "ephemeral-storage": "8Gi"},
    )
    """Requests and limits of the sandbox container."""
    run_as_user: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """User id for commands; unset keeps the image's own (SWE-bench images expect root)."""
    image_pull_secrets: Annotated[list[DottedName], Field(max_length=16)] = []
    """Secrets with registry credentials, in the pool's namespace."""
    node_selector: Labels = {}
    """Labels a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] = []
    """Taints that sandboxes tolerate, as in core/v1."""
    priority_class_name: DottedName | None = None
    """PriorityClass of the pods."""
    labels: Labels = {}
    """Labels of the pods, beside the operator's."""
    annotations: Annotations = {}
    """Annotations of the pods, beside the operator's."""
    pod_overrides: PodOverrides | None = None
    """A partial PodSpec merged over the default one (strategic merge by container name), for what no field covers."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("labels", _RESERVED, lambda template: not _has_own(template.labels), _no_own_key("labels")),
        Rule("annotations", _RESERVED, lambda template: not _has_own(template.annotations), _no_own_key("annotations")),
    )


AFFINITY_NEEDS_CACHE = Rule(
    "imageAffinity",
    "required means the nodes of an ImageCache: name it in imageCacheRef, or remove this",
    lambda pool: pool.image_affinity != "required" or pool.image_cache_ref is not None,
    "!has(self.imageAffinity) || self.imageAffinity != 'required' || has(self.imageCacheRef)",
)
"""A run's own pool has its run's cache."""


class RolloutPoolSpec(Model):
    """What the pool must hold and how its sandboxes are made."""

    replicas: Annotated[int, Field(ge=0, le=10_000)] = 16
    """Cap on sandboxes that exist at once, claimed and warm and starting ones together; 0 keeps none, whatever is
    `warm`."""
    warm: Annotated[
        list[WarmImage],
        Field(
            max_length=1_000,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["image"]},
        ),
    ] = []
    """What to keep ready beyond the demand of the holders."""
    template: SandboxTemplate = SandboxTemplate()
    """How sandbox pods are made."""
    runtime_class_name: DottedName | None = None
    """RuntimeClass of the pods, for example gvisor."""
    network: SandboxNetwork = SandboxNetwork()
    """What sandboxes may reach."""
    startup_deadline_seconds: Annotated[int, Field(ge=5, le=86_400)] = 600
    """A sandbox not Ready after this long is replaced, on another node where the node is at fault."""
    max_lifetime_seconds: Annotated[int, Field(ge=60, le=604_800)] = 7_200
    """No sandbox lives longer than this; the kubelet enforces it even without the operator."""
    unclaimed_ttl_seconds: Annotated[int, Field(ge=10, le=86_400, alias="unclaimedTTLSeconds")] = 600
    """A free sandbox that nobody wants any more is removed after this long."""
    max_per_node: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Most sandboxes on one node."""
    image_cache_ref: DnsName | None = None
    """ImageCache whose nodes the sandboxes prefer."""
    image_affinity: Literal["preferred", "required"] = "preferred"
    """How much, with imageCacheRef. `preferred`: where the nodes that hold an image are full, its sandboxes start on
    others and pull it. `required`: so only until all nodes that are to hold it do, or one of its sandboxes missed the
    startup deadline; from then on they wait for those nodes. One that waited for a place in vain is replaced by one
    that may start anywhere."""
    recycle: Literal["never", "verified"] = "never"
    """What becomes of a released sandbox. `never`: it is deleted. `verified`: its container is made anew in its pod,
    and serves again only if nothing that outlives a container shows a trace of the last use; else it is deleted."""
    max_uses: Annotated[int, Field(ge=1, le=1_000)] = 4
    """With recycle: how many holders a sandbox serves before it is deleted. The kubelet restarts it after 0, 10, 20,
    40, ... seconds, anew from 0 after a use of 10 minutes or more."""

    rules: ClassVar[tuple[Rule, ...]] = (
        AFFINITY_NEEDS_CACHE,
        Rule(
            "warm",
            "the warm replicas add up to more than replicas, the cap: raise replicas, keep fewer warm, or scale to 0",
            lambda pool: pool.replicas == 0 or sum(image.replicas for image in pool.warm) <= pool.replicas,
            "!has(self.warm) || !has(self.replicas) || self.replicas == 0"
            " || self.warm.map(image, image.replicas).sum() <= self.replicas",
        ),
        Rule(
            "warm",
            "two entries name the same image: add up their replicas in one",
            lambda pool: len({image.image for image in pool.warm}) == len(pool.warm),
        ),
        Rule(
            "startupDeadlineSeconds",
            "must be below maxLifetimeSeconds, else a sandbox dies before it is given up",
            lambda pool: pool.startup_deadline_seconds < pool.max_lifetime_seconds,
            "!has(self.startupDeadlineSeconds) || !has(self.maxLifetimeSeconds)"
            " || self.startupDeadlineSeconds < self.maxLifetimeSeconds",
        ),
        Rule(
            "unclaimedTTLSeconds",
            "must not exceed maxLifetimeSeconds, after which every sandbox is gone anyway",
            lambda pool: pool.unclaimed_ttl_seconds <= pool.max_lifetime_seconds,
            "!has(self.unclaimedTTLSeconds) || !has(self.maxLifetimeSeconds)"
            " || self.unclaimedTTLSeconds <= self.maxLifetimeSeconds",
        ),
        Rule(
            "recycle",
            "verified cannot vouch for what template.podOverrides adds (volumes, containers, shared namespaces): "
            "remove the overrides or set recycle: never",
            lambda pool: pool.recycle == "never" or pool.template.pod_overrides is None,
            "!has(self.recycle) || self.recycle == 'never' || !has(self.template) || !has(self.template.podOverrides)",
        ),
    )


class StageLatency(Model):
    """Median and tail of one stage over recent sandboxes, in milliseconds."""

    p50_ms: int
    """Median."""
    p99_ms: int
    """99th percentile."""


class RolloutPoolStatus(Model):
    """What the pool holds, as last counted."""

    observed_generation: int | None = None
    """Generation of the spec that this status speaks of."""
    replicas: int = 0
    """Sandboxes that exist, terminating ones included."""
    ready: int = 0
    """Free and Ready: can be claimed now."""
    claimed: int = 0
    """Held by a holder whose Lease is alive."""
    starting: int = 0
    """Created, not yet Ready."""
    terminating: int = 0
    """Being deleted."""
    demand: int = 0
    """Sandboxes that holders have asked for and `warm` wants, before the cap."""
    failures: Annotated[dict[str, int], Field(max_length=32)] = {}
    """Sandboxes replaced since the pool was made, by typed reason."""
    recycled: int = 0
    """Sandboxes that were reset, found clean and offered again, since the pool was made."""
    discarded: Annotated[dict[str, int], Field(max_length=32)] = {}
    """Released sandboxes that were deleted instead, by reason: UsedUp, Outdated, ResetDeadline, Restarted, or what was
    found (Files, Kernel, SharedMemory, Unproven)."""
    latencies: Annotated[dict[str, StageLatency], Field(max_length=8)] = {}
    """How long each stage took: scheduled, networked, pulled, ready, claimed (the wait for a holder), released."""
    warm_start_fraction: Annotated[float, Field(ge=0.0, le=1.0)] | None = None
    """Of the last 1,000 sandboxes, the share whose node had their image before them, by the ImageCache's reports: these
    start without a pull. Unset without imageCacheRef."""
    selector: str = ""
    """Label selector of the pods, for the scale subresource."""
    conditions: Conditions = []
    """Ready, Progressing, Degraded, as in meta/v1 Condition."""

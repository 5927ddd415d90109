"""Where it runs: trainer, sandboxes, storage, checkpoints, restarts, logging."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sweyard_api.base import (
    DOTTED_NAME_OR_EMPTY_PATTERN,
    MAX_STEPS,
    DnsName,
    DottedName,
    Model,
    PositiveQuantity,
    Tokens,
    aliases,
)
from sweyard_api.image_cache import ONCE_RULES, ImageCacheSpec
from sweyard_api.pod_options import PodOptions, enough_gpus, enough_gpus_in_cel
from sweyard_api.rollout_pool import AFFINITY_NEEDS_CACHE, RolloutPoolSpec
from sweyard_api.rule import Rule


def _unset_beside(reference: str, *others: str) -> str:
    """CEL: when `reference` is set, each field of `others` is not."""
    return f"!has(self.{reference}) || !(" + " || ".join(f"has(self.{other})" for other in others) + ")"


class Lora(Model):
    """Low-rank adapters instead of full weights (peft)."""

    rank: Annotated[int, Field(ge=0, le=512)] = 32
    """Rank; 0 switches off a preset's adapters."""
    alpha: Annotated[float, Field(gt=0, le=65_536)] = 64.0
    """Scale."""
    target_modules: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=64)] = []
    """Modules to adapt; default all linear ones."""
    base: Literal["full", "int4", "nf4"] = "full"
    """How the adapted modules' frozen weights lie in memory: whole, or in four bits each (even steps, or QLoRA's)."""
    sync: Literal["merged", "adapter"] = "merged"
    """`merged`: engines get whole weights with the adapters added. `adapter`: vLLM keeps the model that it started
    with and gets the adapters alone, as an engine with quantised weights must."""


class Trainer(PodOptions):
    """The learner: one process per rank, FSDP2 over all of them."""

    replicas: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Pods of the gang."""
    pod_group: bool = False
    """Have the scheduler find places for all pods at once or bind none: a PodGroup of Kubernetes, alpha in 1.36, where
    API server and scheduler run with GenericWorkload and GangScheduling. Otherwise pods that cannot all be placed hold
    what they have until placementDeadlineSeconds."""
    processes_per_replica: Annotated[int, Field(ge=1, le=16)] = 1
    """Ranks in each pod, one per GPU; on CPUs ranks talk over gloo."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes GPUs where the pod has them."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Compute type; master weights are always float32."""
    tokens_per_microbatch: Tokens = 32_768
    """Sequences are packed up to this many tokens."""
    sequence_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Ulysses degree."""
    gradient_checkpointing: bool = False
    """Recompute activations."""
    compile: bool = False
    """Compile the decoder layers with torch.compile."""
    replay_routing: bool = False
    """Mixture of experts: send each token through the experts that the engine sent it to."""
    cpu_offload: bool = False
    """Keep parameters and optimizer state in host memory."""
    lora: Lora | None = None
    """Train adapters only."""

    rules = (
        Rule(
            "sequenceParallel",
            "must divide replicas x processesPerReplica, the number of ranks",
            lambda trainer: trainer.replicas * trainer.processes_per_replica % trainer.sequence_parallel == 0,
            "!has(self.sequenceParallel) || !has(self.replicas) || !has(self.processesPerReplica)"
            " || self.replicas * self.processesPerReplica % self.sequenceParallel == 0",
        ),
        Rule(
            "resources",
            "limits nvidia.com/gpu to fewer GPUs than processesPerReplica, and every rank needs one: raise the limit "
            "or lower processesPerReplica",
            lambda trainer: trainer.device == "cpu" or enough_gpus(trainer.resources, trainer.processes_per_replica),
            enough_gpus_in_cel("self.processesPerReplica"),
        ),
    )


class Sandboxes(RolloutPoolSpec):
    """The run's own pool, or a shared one by name."""

    pool_ref: DnsName | None = None
    """RolloutPool to use; the other fields must then be unset."""
    runtime: Literal["kubernetes", "local", "docker"] | None = None
    """Where sandboxes run; default kubernetes on a cluster and local without one. `local` takes tasks of directories
    alone, `docker` those of container images, in this machine's engine and without a network."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *(rule for rule in RolloutPoolSpec.rules if rule is not AFFINITY_NEEDS_CACHE),
        Rule(
            "poolRef",
            "names a pool that other runs may share, so the pool's own fields cannot be set here too: set them on the "
            "RolloutPool or remove poolRef",
            lambda sandboxes: sandboxes.pool_ref is None or sandboxes.model_fields_set <= {"pool_ref", "runtime"},
            _unset_beside("poolRef", *aliases(RolloutPoolSpec)),
        ),
    )


class Images(ImageCacheSpec):
    """The run's own image cache, or a shared one by name. Default: the images of its tasks, on every node."""

    cache_ref: DnsName | None = None
    """ImageCache to use; the other fields must then be unset."""
    from_tasks: bool = True
    """Take the images from the run's tasks."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *ONCE_RULES,
        Rule(
            "cacheRef",
            "names a cache that other runs may share, so the cache's own fields cannot be set here too: set them on "
            "the ImageCache or remove cacheRef",
            lambda images: images.cache_ref is None or images.model_fields_set <= {"cache_ref", "from_tasks"},
            _unset_beside("cacheRef", *aliases(ImageCacheSpec)),
        ),
    )


class Checkpoint(Model):
    """What survives."""

    every_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = 10
    """Steps between checkpoints."""
    keep: Annotated[int, Field(ge=1, le=1_000)] = 3
    """Complete checkpoints kept."""
    best_by: DnsName | None = None
    """Name of the source in tasks.eval whose solved fraction says which checkpoint is the best; that one is kept
    beside the last ones."""
    url: Annotated[str, Field(max_length=2_048, pattern=r"^[a-z][a-z0-9+.-]*://.+")] | None = None
    """Where checkpoints go instead of the run's volume, as fsspec knows it (s3://bucket/folder): each run makes its own
    folder in it. Credentials come from trainer.env, the package for it from trainer.image."""


class Storage(Model):
    """The run's volume: weights, checkpoints, rollouts, metrics. Mounted by trainer and engines."""

    claim_name: DottedName | None = None
    """An existing PersistentVolumeClaim; otherwise one is made, which is deleted with the run."""
    sub_path: DottedName | None = None
    """The run's own folder of that claim, so that many runs can share it; name it like the run, as the page does."""
    size: PositiveQuantity = "10Gi"
    """Size of the claim that is made."""
    storage_class_name: Annotated[str, Field(max_length=253, pattern=DOTTED_NAME_OR_EMPTY_PATTERN)] | None = None
    """Its class; default the cluster's. Empty: a volume that is there already."""
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = "ReadWriteMany"
    """ReadWriteOnce works while everything runs on one node."""

    rules = (
        Rule(
            "claimName",
            "names an existing claim, so size, storageClassName and accessMode would do nothing: remove either",
            lambda storage: storage.claim_name is None or storage.model_fields_set <= {"claim_name", "sub_path"},
            _unset_beside("claimName", "size", "storageClassName", "accessMode"),
        ),
        Rule(
            "subPath",
            "is a folder of a claim that runs share: name that in claimName, or remove subPath",
            lambda storage: storage.sub_path is None or storage.claim_name is not None,
            "!has(self.subPath) || has(self.claimName)",
        ),
    )


class Restart(Model):
    """What happens when the trainer gang dies, or does nothing any more."""

    limit: Annotated[int, Field(ge=0, le=1_000)] = 5
    """Restarts from the last checkpoint before the run fails."""
    backoff_seconds: Annotated[int, Field(ge=0, le=3_600)] = 10
    """Wait before the first restart; doubles each time up to 10 minutes."""
    stall_deadline_seconds: Annotated[int, Field(ge=0, le=86_400)] = 1_800
    """A trainer reports at least every 30 s, however long a step takes. One that has not for so long while all its pods
    run and the API server answers has stalled: it is told to end, and started again as if it had died. For its first
    report it has 1,800 s at least. 0: it is left alone."""

    rules = (
        Rule(
            "stallDeadlineSeconds",
            "is less than some reports can be late: set it to at least 120, or to 0 for never",
            lambda restart: restart.stall_deadline_seconds == 0 or restart.stall_deadline_seconds >= 120,
            "!has(self.stallDeadlineSeconds) || self.stallDeadlineSeconds == 0 || self.stallDeadlineSeconds >= 120",
        ),
    )


class Wandb(Model):
    """Weights & Biases."""

    project: Annotated[str, Field(min_length=1, max_length=128)]
    """Project."""
    entity: Annotated[str, Field(max_length=128)] | None = None
    """Team."""
    secret: DottedName
    """Secret whose key `token` is the API key."""


class Logging(Model):
    """Where metrics go besides JSONL and the status."""

    tensorboard: bool = True
    """Write TensorBoard events."""
    wandb: Wandb | None = None
    """Send to Weights & Biases."""
    trace_endpoint: Annotated[str, Field(max_length=2_048, pattern=r"^https?://")] | None = None
    """Base URL of an OpenTelemetry collector: each attempt is sent there as a trace, by OTLP over HTTP. Headers come
    from trainer.env, as OTEL_EXPORTER_OTLP_HEADERS."""

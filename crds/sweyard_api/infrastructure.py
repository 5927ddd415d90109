"""Where it runs: trainer, engines, storage, checkpoints, restarts, logging."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from sweyard_api.base import DnsName, Model, Quantity, ResourceRequirements
from sweyard_api.image_cache import ImageCacheSpec
from sweyard_api.rollout_pool import RolloutPoolSpec


class EnvVar(Model):
    """One environment variable, literal or from a Secret."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=128)]
    """Name."""
    value: Annotated[str, Field(max_length=4_096)] | None = None
    """Literal value."""
    secret: DnsName | None = None
    """Secret to read instead."""
    key: Annotated[str, Field(max_length=253)] | None = None
    """Key in the Secret; default the variable's name."""


class PodOptions(Model):
    """What a user may set on the pods of one component."""

    image: Annotated[str, Field(max_length=512)] | None = None
    """Image; default the chart's."""
    resources: ResourceRequirements = ResourceRequirements()
    """Requests and limits of the main container."""
    node_selector: Annotated[dict[str, str], Field(max_length=32)] = {}
    """Labels a node must have."""
    tolerations: Annotated[list[dict[str, Any]], Field(max_length=32)] = []
    """As in core/v1."""
    priority_class_name: Annotated[str, Field(max_length=253)] | None = None
    """PriorityClass."""
    shared_memory: Quantity = "1Gi"
    """Size of /dev/shm."""
    env: Annotated[list[EnvVar], Field(max_length=64)] = []
    """Further environment variables."""
    pod_overrides: dict[str, Any] | None = None
    """A partial PodSpec merged over ours, for what no field covers."""


class Lora(Model):
    """Low-rank adapters instead of full weights (peft)."""

    rank: Annotated[int, Field(ge=1, le=1_024)] = 32
    """Rank."""
    alpha: Annotated[float, Field(gt=0)] = 64.0
    """Scale."""
    target_modules: Annotated[list[Annotated[str, Field(max_length=128)]], Field(max_length=64)] = []
    """Modules to adapt; default all linear ones."""


class Trainer(PodOptions):
    """The learner: one process per rank, FSDP2 over all of them."""

    replicas: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Pods of the gang."""
    processes_per_replica: Annotated[int, Field(ge=1, le=16)] = 1
    """Ranks in each pod, one per GPU; on CPUs ranks talk over gloo."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes GPUs where the pod has them."""
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    """Compute type; master weights are always float32."""
    tokens_per_microbatch: Annotated[int, Field(ge=1)] = 32_768
    """Sequences are packed up to this many tokens."""
    sequence_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Ulysses degree."""
    gradient_checkpointing: bool = False
    """Recompute activations."""
    cpu_offload: bool = False
    """Keep parameters and optimizer state in host memory."""
    lora: Lora | None = None
    """Train adapters only."""


class Inference(PodOptions):
    """The engines that sample."""

    placement: Literal["separate", "colocated", "external"] = "separate"
    """`separate`: own vLLM pods. `colocated`: in the trainer's pods, sharing GPUs by sleep and wake.
    `external`: a vLLM server by URL."""
    engine: Literal["vllm", "transformers"] = "vllm"
    """`transformers` generates inside the rollout process and needs no server: for laptops and tests."""
    replicas: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Engines."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs per engine."""
    max_model_len: Annotated[int, Field(ge=1)] | None = None
    """Context length; default maxPromptTokens + maxResponseTokens."""
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.85
    """Share of GPU memory an engine takes."""
    cpu_kv_cache: Quantity = "1Gi"
    """Key-value cache of a CPU engine."""
    url: Annotated[str, Field(max_length=2_048, pattern=r"^https?://")] | None = None
    """Base URL of an external engine."""
    api_key_secret: DnsName | None = None
    """Secret whose key `token` authorises at `url`."""
    extra_args: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=64)] = []
    """Further vLLM arguments."""
    startup_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] = 1_800
    """An engine that has not loaded by then fails the run's InferenceReady condition."""

    @model_validator(mode="after")
    def _url_where_it_is_used(self) -> "Inference":
        if (self.placement == "external") != (self.url is not None):
            raise ValueError("inference.url must be set if and only if inference.placement is 'external'")
        return self


class Sandboxes(RolloutPoolSpec):
    """The run's own pool, or a shared one by name."""

    pool_ref: DnsName | None = None
    """RolloutPool to use; the other fields must then be unset."""
    runtime: Literal["kubernetes", "local", "docker"] | None = None
    """Where sandboxes run; default kubernetes on a cluster and local without one."""

    @model_validator(mode="after")
    def _ref_or_inline(self) -> "Sandboxes":
        inline = self.model_fields_set - {"pool_ref", "runtime"}
        if self.pool_ref is not None and inline:
            raise ValueError(f"sandboxes.poolRef excludes {', '.join(sorted(inline))}: set them on the pool")
        return self


class Images(ImageCacheSpec):
    """The run's own image cache, or a shared one by name. Default: the images of its tasks, on every node."""

    cache_ref: DnsName | None = None
    """ImageCache to use; the other fields must then be unset."""
    from_tasks: bool = True
    """Take the images from the run's tasks."""

    @model_validator(mode="after")
    def _ref_or_inline(self) -> "Images":
        inline = self.model_fields_set - {"cache_ref", "from_tasks"}
        if self.cache_ref is not None and inline:
            raise ValueError(f"images.cacheRef excludes {', '.join(sorted(inline))}: set them on the cache")
        return self


class Checkpoint(Model):
    """What survives."""

    every_steps: Annotated[int, Field(ge=1)] = 10
    """Steps between checkpoints."""
    keep: Annotated[int, Field(ge=1, le=1_000)] = 3
    """Complete checkpoints kept."""


class Storage(Model):
    """The run's volume: weights, checkpoints, rollouts, metrics. Mounted by trainer and engines."""

    claim_name: DnsName | None = None
    """An existing PersistentVolumeClaim; otherwise one is made."""
    size: Quantity = "10Gi"
    """Size of the claim that is made."""
    storage_class_name: Annotated[str, Field(max_length=253)] | None = None
    """Its class; default the cluster's."""
    access_mode: Literal["ReadWriteMany", "ReadWriteOnce"] = "ReadWriteMany"
    """ReadWriteOnce works while everything runs on one node."""


class Restart(Model):
    """What happens when the trainer gang dies."""

    limit: Annotated[int, Field(ge=0, le=1_000)] = 5
    """Restarts from the last checkpoint before the run fails."""
    backoff_seconds: Annotated[int, Field(ge=0, le=3_600)] = 10
    """Wait before the first restart; doubles each time up to 10 minutes."""


class Wandb(Model):
    """Weights & Biases."""

    project: Annotated[str, Field(min_length=1, max_length=128)]
    """Project."""
    entity: Annotated[str, Field(max_length=128)] | None = None
    """Team."""
    secret: DnsName
    """Secret whose key `token` is the API key."""


class Logging(Model):
    """Where metrics go besides JSONL and the status."""

    tensorboard: bool = True
    """Write TensorBoard events."""
    wandb: Wandb | None = None
    """Send to Weights & Biases."""

"""Where it runs: trainer, engines, storage, checkpoints, restarts, logging."""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sweyard_api.base import (
    DOTTED_NAME_OR_EMPTY_PATTERN,
    MAX_STEPS,
    DnsName,
    DottedName,
    Labels,
    Model,
    PositiveQuantity,
    ResourceRequirements,
    Tokens,
    aliases,
    quantity_value,
)
from sweyard_api.image_cache import ONCE_RULES, ImageCacheSpec
from sweyard_api.kubernetes_types import PodOverrides, Toleration
from sweyard_api.rollout_pool import AFFINITY_NEEDS_CACHE, RolloutPoolSpec
from sweyard_api.rule import Rule

GPU_RESOURCE = "nvidia.com/gpu"


def _gpus(resources: ResourceRequirements, needed: int) -> bool:
    return GPU_RESOURCE not in resources.limits or quantity_value(resources.limits[GPU_RESOURCE]) >= needed


def _enough_gpus(needed: str) -> str:
    limits = "self.resources.limits"
    return (
        f"!has({needed}) || !has(self.resources) || !has({limits}) || !('{GPU_RESOURCE}' in {limits})"
        f" || quantity(string({limits}['{GPU_RESOURCE}'])).asInteger() >= {needed}"
    )


def _unset_beside(reference: str, *others: str) -> str:
    """CEL: when `reference` is set, each field of `others` is not."""
    return f"!has(self.{reference}) || !(" + " || ".join(f"has(self.{other})" for other in others) + ")"


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
            lambda trainer: trainer.device == "cpu" or _gpus(trainer.resources, trainer.processes_per_replica),
            _enough_gpus("self.processesPerReplica"),
        ),
    )


class EngineScaling(Model):
    """As many engines as the attempts under way need, between minReplicas and inference.replicas."""

    min_replicas: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Engines that stay, whatever the load."""
    attempts_per_engine: Annotated[int, Field(ge=1, le=100_000)] = 64
    """The load that calls for one engine: attempts under way, each of which has at most one request that runs or waits
    at an engine."""
    scale_down_after_seconds: Annotated[int, Field(ge=0, le=86_400)] = 600
    """An engine goes once it was not needed for so long, and has ended its replies. A new one takes minutes to load."""


class Inference(PodOptions):
    """The engines that sample."""

    placement: Literal["separate", "colocated", "external"] = "separate"
    """`separate`: own vLLM pods. `colocated`: in the trainer's pods, sharing GPUs by sleep and wake.
    `external`: a vLLM server by URL."""
    engine: Literal["vllm", "transformers"] = "vllm"
    """`transformers` generates inside the rollout process and needs no server: for laptops and tests."""
    replicas: Annotated[int, Field(ge=1, le=1_024)] = 1
    """Engines; with `scaling`, the most."""
    scaling: EngineScaling | None = None
    """Fewer of them while there is less to do. Default: always all."""
    tensor_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """GPUs of an engine that share each layer."""
    pipeline_parallel: Annotated[int, Field(ge=1, le=64)] = 1
    """Parts of an engine that have some of the layers each, on `tensorParallel` GPUs each."""
    pods_per_engine: Annotated[int, Field(ge=1, le=64)] = 1
    """Pods that an engine's tensorParallel x pipelineParallel GPUs are divided among, for models that no node holds."""
    max_model_len: Tokens | None = None
    """Context length. Resolves to rollout.maxPromptTokens + rollout.maxResponseTokens."""
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.85
    """Share of GPU memory an engine takes."""
    weights: Literal["full", "int4"] = "full"
    """`int4`: engines serve the frozen base of trainer.lora as the trainer has it, in four bits each."""
    cpu_kv_cache: PositiveQuantity = "1Gi"
    """Key-value cache of a CPU engine."""
    url: Annotated[str, Field(max_length=2_048, pattern=r"^https?://")] | None = None
    """Of an external engine: its root, to which `/v1` and the routes that take weights are added."""
    api_key_secret: DottedName | None = None
    """Secret whose key `token` authorises at `url`."""
    fixed_weights: bool = False
    """Allow an external engine that takes no weights: it samples with those that it started with, so from the first
    update on no token is on-policy, and rewards do not tell what the trained policy can do. Otherwise it is refused."""
    retokenize_replies: bool = False
    """Allow an external engine that returns text without token ids: its replies are tokenised again, so what is trained
    may be other ids than were sampled, and their sampled logprobs are unknown. Otherwise it is refused."""
    extra_args: Annotated[list[Annotated[str, Field(max_length=512)]], Field(max_length=64)] = []
    """Further vLLM arguments."""
    startup_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] = 1_800
    """An engine that has not loaded by then fails the run's InferenceReady condition."""
    weight_sync: Literal["disk", "nccl", "ipc"] = "disk"
    """How new weights reach the engines: as files on the run's volume, from GPU to GPU (`nccl`, into pods of their
    own), or within the memory of the GPUs that they share with the trainer (`ipc`, for `colocated`)."""
    update_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] = 900
    """An engine that has not loaded new weights by then leaves, until it is back."""
    gone_deadline_seconds: Annotated[int, Field(ge=1, le=86_400)] = 1_800
    """With no engine for so long, the trainer starts again from its last checkpoint."""

    rules = (
        Rule(
            "url",
            "must be set if and only if inference.placement is `external`",
            lambda inference: (inference.placement == "external") == (inference.url is not None),
            "!has(self.url) || !has(self.placement) || self.placement == 'external'",
        ),
        Rule(
            "url",
            "ends in /v1, which is added to it: give the server's root",
            lambda inference: not (inference.url or "").rstrip("/").endswith("/v1"),
            "!has(self.url) || !self.url.matches('/v1/*$')",
        ),
        Rule(
            "fixedWeights",
            "is for inference.placement `external`; other engines take the weights that they are sent: remove it",
            lambda inference: inference.placement == "external" or not inference.fixed_weights,
            "!has(self.fixedWeights) || !self.fixedWeights || !has(self.placement) || self.placement == 'external'",
        ),
        Rule(
            "retokenizeReplies",
            "is for inference.placement `external`; other engines return the ids that they sampled: remove it",
            lambda inference: inference.placement == "external" or not inference.retokenize_replies,
            "!has(self.retokenizeReplies) || !self.retokenizeReplies || !has(self.placement)"
            " || self.placement == 'external'",
        ),
        Rule(
            "engine",
            "`transformers` generates inside the rollout process, so placement must be `separate` (or unset)",
            lambda inference: inference.engine == "vllm" or inference.placement == "separate",
            "!has(self.engine) || !has(self.placement) || self.engine == 'vllm' || self.placement == 'separate'",
        ),
        Rule(
            "scaling.minReplicas",
            "exceeds inference.replicas, the most engines: lower the one or raise the other",
            lambda inference: inference.scaling is None or inference.scaling.min_replicas <= inference.replicas,
            "!has(self.scaling) || !has(self.scaling.minReplicas) || !has(self.replicas)"
            " || self.scaling.minReplicas <= self.replicas",
        ),
        Rule(
            "scaling",
            "is for vLLM in pods of its own that reads new weights as files: remove it, or set placement to `separate` "
            "and weightSync to `disk`",
            lambda inference: (
                inference.scaling is None
                or (inference.engine, inference.placement, inference.weight_sync) == ("vllm", "separate", "disk")
            ),
            "!has(self.scaling) || ((!has(self.engine) || self.engine == 'vllm')"
            " && (!has(self.placement) || self.placement == 'separate')"
            " && (!has(self.weightSync) || self.weightSync == 'disk'))",
        ),
        Rule(
            "resources",
            "limits nvidia.com/gpu to fewer GPUs than tensorParallel: raise the limit or lower tensorParallel",
            lambda inference: inference.spans_pods or _gpus(inference.resources, inference.tensor_parallel),
            "has(self.pipelineParallel) || has(self.podsPerEngine) || " + _enough_gpus("self.tensorParallel"),
        ),
        Rule(
            "resources",
            "limits nvidia.com/gpu to fewer GPUs than tensorParallel x pipelineParallel / podsPerEngine: raise the "
            "limit, or podsPerEngine",
            lambda inference: (
                not inference.spans_pods
                or _gpus(inference.resources, math.ceil(inference.gpus_per_engine / inference.pods_per_engine))
            ),
        ),
        Rule(
            "podsPerEngine",
            "must divide tensorParallel x pipelineParallel, the GPUs of an engine, so that each pod has as many",
            lambda inference: inference.gpus_per_engine % inference.pods_per_engine == 0,
        ),
        Rule(
            "podsPerEngine",
            "and pipelineParallel are for vLLM in pods of its own that reads new weights as files: set them to 1, or "
            "placement to `separate` and weightSync to `disk`",
            lambda inference: (
                not inference.spans_pods
                or (inference.engine, inference.placement, inference.weight_sync) == ("vllm", "separate", "disk")
            ),
        ),
    )

    @property
    def gpus_per_engine(self) -> int:
        """GPUs that hold the weights once."""
        return self.tensor_parallel * self.pipeline_parallel

    @property
    def spans_pods(self) -> bool:
        """Whether an engine has more than the GPUs of one pod that share each layer."""
        return (self.pipeline_parallel, self.pods_per_engine) != (1, 1)


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
    """An existing PersistentVolumeClaim; otherwise one is made."""
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

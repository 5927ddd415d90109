"""The engines that sample: how many, where, with which weights."""

import math
from typing import Annotated, Literal

from pydantic import Field

from sweyard_api.base import (
    DottedName,
    Model,
    PositiveQuantity,
    Tokens,
)
from sweyard_api.pod_options import PodOptions, enough_gpus, enough_gpus_in_cel
from sweyard_api.rule import Rule


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
            lambda inference: inference.spans_pods or enough_gpus(inference.resources, inference.tensor_parallel),
            "has(self.pipelineParallel) || has(self.podsPerEngine) || " + enough_gpus_in_cel("self.tensorParallel"),
        ),
        Rule(
            "resources",
            "limits nvidia.com/gpu to fewer GPUs than tensorParallel x pipelineParallel / podsPerEngine: raise the "
            "limit, or podsPerEngine",
            lambda inference: (
                not inference.spans_pods
                or enough_gpus(inference.resources, math.ceil(inference.gpus_per_engine / inference.pods_per_engine))
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

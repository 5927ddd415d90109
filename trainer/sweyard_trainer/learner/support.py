"""What the learner refuses, in a sentence, rather than ignores."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sweyard_api.engine_command import engine_quantization, engine_takes_adapters, engine_uses_gpu
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.errors import EngineDivergedError, UnsupportedError
from sweyard_trainer.trajectory import Trajectory

logger = logging.getLogger(__name__)

MIN_FRESH_TOKENS = 256
"""Fewer are no measure among stale ones: a single token may be nats away where a mixture of experts rounds."""


def refuse_unsupported(spec: TrainingRunSpec, model: Path) -> None:
    """Before anything is started; `model` is the prepared model. Raises UnsupportedError."""
    trainer = spec.trainer
    ranks, degree = trainer.replicas * trainer.processes_per_replica, trainer.sequence_parallel
    if ranks % degree:
        raise UnsupportedError(
            f"trainer.sequenceParallel is {degree}, which does not divide the {ranks} ranks of "
            "trainer.replicas x trainer.processesPerReplica"
        )
    if degree > 1:
        _refuse_heads(_config(model), degree)
    _refuse_window(_config(model), spec)
    if trainer.cpu_offload and trainer.device == "cpu":
        raise UnsupportedError("trainer.cpuOffload is set, but trainer.device is cpu; remove one of them")
    _refuse_adapters(spec, model)
    _refuse_four_bits_in_float32(spec)
    if trainer.replay_routing and spec.inference.engine != "vllm":
        raise UnsupportedError(
            "trainer.replayRouting is set, but only inference.engine vllm says which experts it took"
        )
    on_vllm = spec.inference.engine == "vllm" and spec.inference.placement != "external"
    if spec.mode == "rl" and on_vllm and not engine_uses_gpu(spec) and _config(model).get("tie_word_embeddings"):
        raise UnsupportedError(
            "model.name has tied embeddings, whose output layer vLLM on CPUs never renews after a weight update; "
            "set inference.engine to transformers, or take an untied model or GPUs"
        )


def _refuse_four_bits_in_float32(spec: TrainingRunSpec) -> None:
    """Its server would start, and die at the first request."""
    on_vllm = spec.inference.engine == "vllm" and spec.inference.placement != "external"
    if on_vllm and spec.inference.weights != "full" and not engine_uses_gpu(spec) and spec.trainer.dtype == "float32":
        raise UnsupportedError(
            f"inference.weights is {spec.inference.weights} and trainer.dtype float32, in which vLLM on CPUs cannot "
            "multiply four bits: set trainer.dtype to bfloat16"
        )


def _refuse_heads(config: dict[str, Any], degree: int) -> None:
    heads = config["num_attention_heads"]
    key_heads = config.get("num_key_value_heads") or heads
    if heads % degree or (key_heads % degree and degree % key_heads):
        raise UnsupportedError(
            f"trainer.sequenceParallel is {degree}, which does not fit the model's {heads} attention heads "
            f"and {key_heads} key-value heads"
        )


def _refuse_window(config: dict[str, Any], spec: TrainingRunSpec) -> None:
    """Training would see what the engine did not."""
    longest = spec.rollout.max_prompt_tokens + spec.rollout.max_response_tokens
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    if window is not None and longest > window:
        raise UnsupportedError(
            f"rollout.maxPromptTokens and rollout.maxResponseTokens are {longest} together, more than the sliding "
            f"window of {window} that the model's attention has: lower them, or take another model"
        )


def _refuse_adapters(spec: TrainingRunSpec, model: Path) -> None:
    if spec.inference.fixed_weights:
        return  # it is sent nothing that could be unfit
    as_adapter = engine_takes_adapters(spec)
    if as_adapter and spec.inference.engine != "vllm":
        raise UnsupportedError("trainer.lora.sync is adapter, but inference.engine is transformers: set merged")
    quantization = engine_quantization(spec) or _config(model).get("quantization_config", {}).get("quant_method")
    if spec.mode == "rl" and spec.inference.engine == "vllm" and quantization and not as_adapter:
        raise UnsupportedError(
            f"the engine holds its weights quantised ({quantization}), and the trainer's whole weights fit neither "
            "their shapes nor their scales; set trainer.lora and its sync to adapter, or remove the quantisation"
        )


def refuse_unrouted(spec: TrainingRunSpec, groups: Sequence[Sequence[Trajectory]]) -> None:
    """Where routing is replayed, each attempt must have brought its own. Raises UnsupportedError."""
    if not spec.trainer.replay_routing:
        return
    for trajectory in (trajectory for group in groups for trajectory in group):
        if any(segment.routed_experts is None for segment in trajectory.segments):
            raise UnsupportedError(
                f"trainer.replayRouting is set, but attempt {trajectory.attempt_id} says nothing of its experts: start "
                "vLLM with --enable-return-routed-experts, or unset trainer.replayRouting"
            )


def refuse_other_policy(spec: TrainingRunSpec, metrics: Mapping[str, float]) -> None:
    """On the weights that sampled a token, engine and trainer must be one policy up to rounding; how far older tokens
    are away is only warned of. Raises EngineDivergedError."""
    most, away = spec.algorithm.max_engine_kl, metrics["engine_kl"]
    if spec.inference.fixed_weights:
        return
    if spec.rollout.max_staleness == 0:
        fresh = away
    else:
        fresh = metrics["fresh_engine_kl"] if metrics["fresh_tokens"] >= MIN_FRESH_TOKENS else 0.0
    if fresh > most:
        raise EngineDivergedError(
            f"the engine's logprobs are {fresh:.2f} nats a token away from the trainer's on the same weights, more "
            f"than algorithm.maxEngineKl ({most:g}); the engine serves other weights, or samples with settings that "
            "its logprobs leave out"
        )
    if away > most:
        logger.warning(
            "the tokens of this step are %.2f nats each away from the weights that they train, more than "
            "algorithm.maxEngineKl (%g): lower rollout.maxStaleness or optimizer.learningRate",
            away,
            most,
        )


def _config(model: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((model / "config.json").read_text(encoding="utf-8"))
    return config

"""What the learner refuses, in a sentence, rather than ignores."""

import json
from pathlib import Path

from sweyard_api.engine_command import engine_uses_gpu
from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.errors import EngineDivergedError, UnsupportedError

MAX_ENGINE_KL = 0.3
"""Nats a token. Kernels and bfloat16 explain thousandths; stale or wrong weights give whole nats."""


def refuse_unsupported(spec: TrainingRunSpec, model: Path) -> None:
    """Before anything is started; `model` is the prepared model. Raises UnsupportedError."""
    trainer = spec.trainer
    if trainer.sequence_parallel > 1:
        raise UnsupportedError(
            f"trainer.sequenceParallel is {trainer.sequence_parallel}, but this version splits no sequence over ranks; "
            "set it to 1 and, for long sequences, set trainer.gradientCheckpointing"
        )
    if trainer.cpu_offload and trainer.device == "cpu":
        raise UnsupportedError("trainer.cpuOffload is set, but trainer.device is cpu; remove one of them")
    on_vllm = spec.inference.engine == "vllm" and spec.inference.placement != "external"
    if spec.mode == "rl" and on_vllm and not engine_uses_gpu(spec) and _is_tied(model):
        raise UnsupportedError(
            "model.name has tied embeddings, whose output layer vLLM on CPUs never renews after a weight update; "
            "set inference.engine to transformers, or take an untied model or GPUs"
        )


def refuse_other_policy(spec: TrainingRunSpec, engine_kl: float) -> None:
    """With nothing stale, engine and trainer must be one policy up to rounding. Raises EngineDivergedError."""
    if spec.rollout.max_staleness == 0 and engine_kl > MAX_ENGINE_KL:
        raise EngineDivergedError(
            f"the engine's logprobs are {engine_kl:.2f} nats a token away from the trainer's on the same weights; "
            "the engine serves other weights, or samples with settings that its logprobs leave out"
        )


def _is_tied(model: Path) -> bool:
    return bool(json.loads((model / "config.json").read_text(encoding="utf-8")).get("tie_word_embeddings"))

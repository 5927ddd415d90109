"""Values that follow from others where nobody set them."""

from typing import Any, TypeVar

from sweyard_api.base import Model
from sweyard_api.sft import Sft
from sweyard_api.training_run import TrainingRunSpec

M = TypeVar("M", bound=Model)


def derive(spec: TrainingRunSpec) -> TrainingRunSpec:
    """`spec` with every dependent default filled in, so that its readers need no rules of their own."""
    return spec.model_copy(
        update={
            "warmup": spec.warmup if spec.warmup and spec.warmup.steps else None,
            "sft": _whole_sft(spec),
            "trainer": spec.trainer.model_copy(
                update={"lora": spec.trainer.lora if spec.trainer.lora and spec.trainer.lora.rank else None}
            ),
            "rollout": _filled(
                spec.rollout,
                max_tokens_per_turn=min(spec.rollout.max_tokens_per_turn, spec.rollout.max_response_tokens),
                max_concurrent=_attempts_at_once(spec),
                step_deadline_seconds=spec.agent.timeout_seconds + spec.reward.timeout_seconds,
            ),
            "algorithm": _filled(
                spec.algorithm,
                normalize_by_std=spec.algorithm.estimator not in ("dr_grpo", "rloo"),
                **_loss_constant(spec),
            ),
            "inference": _filled(
                spec.inference, max_model_len=spec.rollout.max_prompt_tokens + spec.rollout.max_response_tokens
            ),
            "sandboxes": spec.sandboxes
            if spec.sandboxes.pool_ref
            else _filled(spec.sandboxes, replicas=max(spec.rollout.max_concurrent, _warm_sandboxes(spec))),
        }
    )


def _whole_sft(spec: TrainingRunSpec) -> Sft | None:
    if spec.sft is None:
        return None
    least = {"min_reward": spec.reward.solved} if spec.sft.rollouts else {}
    return _filled(spec.sft, max_tokens=spec.rollout.max_prompt_tokens + spec.rollout.max_response_tokens, **least)


def _filled(model: M, **values: Any) -> M:
    unset = values.keys() - model.model_fields_set
    return model.model_copy(update={name: values[name] for name in unset})


def _attempts_at_once(spec: TrainingRunSpec) -> int:
    own_pool = spec.sandboxes.pool_ref is None and "replicas" in spec.sandboxes.model_fields_set
    return max(1, spec.sandboxes.replicas) if own_pool else spec.rollout.max_concurrent


def _warm_sandboxes(spec: TrainingRunSpec) -> int:
    return sum(image.replicas for image in spec.sandboxes.warm)


def _loss_constant(spec: TrainingRunSpec) -> dict[str, int]:
    needed = spec.algorithm.loss_aggregation == "constant"
    return {"loss_constant": spec.rollout.max_response_tokens} if needed else {}

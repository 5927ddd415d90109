"""A gateway as a run's config asks for it."""

from pathlib import Path

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.gateway.gateway import Gateway, Limits
from sweyard_trainer.gateway.rendering import ChatRenderer


def gateway_for(spec: TrainingRunSpec, model: Path) -> Gateway:
    """`model` is the prepared model's directory, whose tokenizer and chat template are used."""
    rollout = spec.rollout
    limits = Limits(rollout.max_prompt_tokens, rollout.max_response_tokens, rollout.max_tokens_per_turn)
    longest_attempt_seconds = spec.agent.timeout_seconds + spec.reward.timeout_seconds
    return Gateway(ChatRenderer.load(model), limits, session_ttl_seconds=2.0 * longest_attempt_seconds)

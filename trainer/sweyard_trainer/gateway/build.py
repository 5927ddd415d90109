"""A gateway, and clients of the engines that are servers, as a run's config asks for them."""

import json
from dataclasses import replace
from pathlib import Path

from sweyard_api.training_run import TrainingRunSpec
from sweyard_trainer.engine.vllm import VllmEngine
from sweyard_trainer.gateway.gateway import Gateway
from sweyard_trainer.gateway.rendering import ChatRenderer, TemplateUnfitError
from sweyard_trainer.gateway.session import Limits


def gateway_for(spec: TrainingRunSpec, model: Path) -> Gateway:
    """`model` is the prepared model's directory, whose tokenizer and chat template are used."""
    rollout = spec.rollout
    limits = Limits(rollout.max_prompt_tokens, rollout.max_response_tokens, rollout.max_tokens_per_turn)
    if spec.agent.type == "cli":  # other agents end by themselves
        limits = replace(limits, max_calls=spec.agent.max_turns, max_seconds=float(spec.agent.timeout_seconds))
    longest_attempt_seconds = spec.agent.timeout_seconds + spec.reward.timeout_seconds
    return Gateway(renderer_for(spec, model), limits, session_ttl_seconds=2.0 * longest_attempt_seconds)


def renderer_for(spec: TrainingRunSpec, model: Path) -> ChatRenderer:
    """Raises TemplateUnfitError."""
    renderer = ChatRenderer.load(model)
    if spec.agent.native_calls and renderer.call_form is None:
        raise TemplateUnfitError(
            "agent.nativeCalls: this model's chat template has no form for calls that is known here (Hermes' or "
            "Qwen3-Coder's); leave it out, and the prompt describes the tools"
        )
    return renderer


def engine_for(spec: TrainingRunSpec, url: str, api_key: str | None, model: Path) -> VllmEngine:
    """The client of one server; `model` as for `gateway_for`."""
    inference = spec.inference
    encode = ChatRenderer.load(model).content_ids if inference.retokenize_replies else None
    return VllmEngine(
        url,
        api_key=api_key,
        fixed_weights=inference.fixed_weights,
        encode=encode,
        streams=not spec.trainer.replay_routing,
        vocabulary_size=json.loads((model / "config.json").read_text(encoding="utf-8")).get("vocab_size"),
    )

"""A reply of /v1/completions, read and refused: what training cannot take is told in a sentence, never trained on."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.engine import Completion, EngineUnfitError
from sweyard_trainer.engine.routing import decode_routing

REMEDY = "start vLLM with --logprobs-mode processed_logprobs and let nothing between strip response fields"
ALLOW_TEXT = "for an external engine inference.retokenizeReplies allows to train on its text instead"
MOST_LOGPROB = 1e-3
"""Rounding may lift a certain token's logprob above 0 by less; logits are far above."""

Encode = Callable[[str], Sequence[int]]
"""Text of a reply to ids, without a stop token."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a server was asked for, against which its answer is held."""

    url: str
    prompt_ids: Sequence[int]
    max_tokens: int
    routing_from: int = 0
    vocabulary_size: int | None = None
    """Ids that the model has; None where that is not known."""

    def completion(self, reply: Any, version: int) -> Completion:
        """The reply, which `version` of the weights sampled. Raises EngineUnfitError for what cannot be trained."""
        choice = self.choice(reply)
        token_ids = choice.get("token_ids")
        logprobs = (choice.get("logprobs") or {}).get("token_logprobs")
        fields = {"choices[0].token_ids": token_ids, "choices[0].logprobs.token_logprobs": logprobs}
        missing = [name for name, value in fields.items() if value is None]
        if token_ids is None or logprobs is None:
            raise EngineUnfitError(
                f"{self.url} returns no {' and no '.join(missing)}, so nothing can be trained; {REMEDY}; {ALLOW_TEXT}"
            )
        echoed = choice.get("prompt_token_ids")
        if echoed is not None and echoed != list(self.prompt_ids):
            raise EngineUnfitError(
                f"{self.url} saw another prompt than it was sent ({len(echoed)} ids, {len(self.prompt_ids)} sent)"
            )
        self._refuse_nonsense(token_ids, logprobs)
        routing = self._routing(choice.get("routed_experts"), len(token_ids))
        return Completion(tuple(token_ids), tuple(map(float, logprobs)), version, _finish_of(choice), routing)

    def retokenized(
        self, choice: dict[str, Any], version: int, encode: Encode, stop_token_ids: Sequence[int]
    ) -> Completion:
        """A choice of which only the text is known: ids that may not be those sampled, with logprobs that are no
        numbers. Raises EngineUnfitError."""
        text, finish = choice.get("text"), _finish_of(choice)
        if not isinstance(text, str):
            raise EngineUnfitError(f"{self.url} returns neither choices[0].token_ids nor choices[0].text; {REMEDY}")
        ids = (*encode(text), *(stop_token_ids[:1] if finish is FinishReason.STOP else ()))
        return Completion(ids, (math.nan,) * len(ids), version, finish)

    def choice(self, reply: Any) -> dict[str, Any]:
        """Its only one. Raises EngineUnfitError."""
        choices = reply.get("choices") if isinstance(reply, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise EngineUnfitError(
                f"{self.url} answers /v1/completions without choices ({str(reply)[:200]}): it must be a vLLM server"
            )
        choice: dict[str, Any] = choices[0]
        return choice

    def _refuse_nonsense(self, token_ids: Sequence[Any], logprobs: Sequence[Any]) -> None:
        if len(token_ids) != len(logprobs):
            raise EngineUnfitError(f"{self.url} returned {len(token_ids)} ids and {len(logprobs)} logprobs; {REMEDY}")
        if len(token_ids) > self.max_tokens:
            raise EngineUnfitError(
                f"{self.url} returned {len(token_ids)} tokens where at most {self.max_tokens} were asked for: let "
                "nothing between change requests"
            )
        for token_id, logprob in zip(token_ids, logprobs, strict=True):
            if type(token_id) is not int or not 0 <= token_id < (self.vocabulary_size or math.inf):
                raise EngineUnfitError(
                    f"{self.url} sampled token {token_id!r}, which is none of the model's "
                    f"{self.vocabulary_size or 'ids'}: have it serve the model of model.name"
                )
            if not isinstance(logprob, int | float) or not -math.inf < logprob <= MOST_LOGPROB:
                raise EngineUnfitError(
                    f"{self.url} gave token {token_id} {logprob!r} for its logprob, which must be a number of at most "
                    f"0; {REMEDY}"
                )

    def _routing(self, sent: str | None, num_sampled: int) -> NDArray[np.unsignedinteger] | None:
        if sent is None:
            return None
        try:
            routing = decode_routing(sent)
        except (ValueError, EOFError) as error:
            raise EngineUnfitError(f"{self.url} returned routed_experts that cannot be read: {error}") from error
        if len(routing) != (unrouted := len(self.prompt_ids) + num_sampled - 1 - self.routing_from):
            raise EngineUnfitError(f"{self.url} returned the experts of {len(routing)} tokens instead of {unrouted}")
        return routing


def _finish_of(choice: dict[str, Any]) -> FinishReason:
    return FinishReason.STOP if choice.get("finish_reason") == "stop" else FinishReason.LENGTH

"""An engine that says again what was recorded: the attempts of a rollout file, through gateway and agent once more.

It needs no model: what followed a prompt, token for token, follows it again, each reply once and in the order in which
they were recorded. A client that says something else than it did then has no reply recorded, and is told so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.engine import Completion, EngineError, OnTokens
from sweyard_trainer.trajectory import Segment


@dataclass(frozen=True, slots=True)
class RecordedEngine:
    """Replies of recorded segments."""

    segments: Sequence[Segment]
    version: int = 0
    """That it says it serves; each reply keeps the version that it was sampled with."""
    name: str = "recorded"
    trouble: str = ""
    _said: set[tuple[int, int]] = field(default_factory=set)
    """Segment and begin of each reply that was given."""

    async def check(self) -> None:
        return None

    async def weight_version(self) -> int:
        return self.version

    async def complete(
        self,
        prompt_ids: Sequence[int],
        *,
        max_tokens: int,
        temperature: float,
        stop_token_ids: Sequence[int],
        seed: int,
        cache_salt: str,
        routing_from: int = 0,
        on_tokens: OnTokens | None = None,
    ) -> Completion:
        """What was sampled after these tokens. Raises EngineError where nothing was."""
        prompt = np.asarray(prompt_ids, np.int32)
        for index, segment in enumerate(self.segments):
            reply = (index, len(prompt))
            if reply not in self._said and (end := _end_of_reply(segment, prompt)) > len(prompt):
                self._said.add(reply)
                return _completion(segment, len(prompt), end, stop_token_ids)
        raise EngineError(f"nothing was recorded after this prompt of {len(prompt)} tokens")

    async def close(self) -> None:
        return None


def _end_of_reply(segment: Segment, prompt: NDArray[np.int32]) -> int:
    """Where the reply to `prompt` ends in the segment; not beyond the prompt's own end where there is none.

    Replies border on each other only where nothing was said between, and then a stop token ends the first.
    """
    begin = len(prompt)
    if len(segment.token_ids) <= begin or not np.array_equal(segment.token_ids[:begin], prompt):
        return begin
    given = np.flatnonzero(~segment.loss_mask[begin:])
    return begin + int(given[0]) if len(given) else len(segment.token_ids)


def _completion(segment: Segment, begin: int, end: int, stop_token_ids: Sequence[int]) -> Completion:
    ids = tuple(segment.token_ids[begin:end].tolist())
    logprobs = tuple(segment.logprobs[begin:end].tolist())
    finish = FinishReason.STOP if ids[-1] in stop_token_ids else FinishReason.LENGTH
    return Completion(ids, logprobs, int(segment.weight_versions[begin]), finish)

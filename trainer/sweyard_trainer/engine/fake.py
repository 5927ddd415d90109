"""A scripted engine: deterministic, without a model. For tests and for trying out an agent."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_trainer.engine.engine import Completion, EngineError, OnTokens

Script = Callable[[Sequence[int], int], Sequence[int]]
"""(prompt ids, seed) -> ids of the reply, the stop token included if the reply is to end by itself."""


class FakeEngine:
    """Answers what its script says; logprobs are a function of the seed and the position."""

    def __init__(self, script: Script, *, name: str = "fake", version: int = 0) -> None:
        self._script = script
        self._name = name
        self._version = version
        self.prompts: list[tuple[int, ...]] = []
        """Every prompt it was given, in order."""
        self.salts: list[str] = []
        self.failures_left = 0
        """So many of the next calls fail as a dead server would."""
        self.hangs = False
        """It does not answer, as a server that has lost its node."""

    @property
    def name(self) -> str:
        return self._name

    @property
    def trouble(self) -> str:
        return f"{self._name} gave no answer" if self.hangs else ""

    async def check(self) -> None:
        return None

    async def weight_version(self) -> int:
        if self.hangs:
            raise EngineError(f"{self._name} gave no answer")
        return self._version

    async def load_weights(self, directory: Path, version: int) -> None:
        self._version = version

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
        if self.hangs:
            await asyncio.Event().wait()
        if self.failures_left > 0:
            self.failures_left -= 1
            raise EngineError(f"{self._name} is down")
        self.prompts.append(tuple(prompt_ids))
        self.salts.append(cache_salt)
        reply = tuple(self._script(prompt_ids, seed))[:max_tokens]
        for token_id in reply if on_tokens else ():
            assert on_tokens is not None
            on_tokens([token_id])
            await asyncio.sleep(0)
        stopped = bool(reply) and reply[-1] in stop_token_ids
        logprobs = tuple(fake_logprob(seed, position) for position in range(len(reply)))
        return Completion(reply, logprobs, self._version, FinishReason.STOP if stopped else FinishReason.LENGTH)

    async def close(self) -> None:
        return None


def fake_logprob(seed: int, position: int) -> float:
    """A number in [-1, 0) that no two positions share by accident."""
    digest = hashlib.blake2b(f"{seed}/{position}".encode(), digest_size=4).digest()
    return -(int.from_bytes(digest, "big") + 1) / 2**32

"""The seam between the gateway and what samples: token ids in, token ids and processed logprobs out.

Invariants every engine keeps (tests/trainer/engine):
- the ids are those that were sampled, the stop token included; nothing is decoded and encoded again on the way;
- logprobs are of the distribution that was sampled from, at the request's temperature;
- an engine says which weights sampled; during one completion they do not change.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sweyard_sandbox.agents.protocol import FinishReason
from sweyard_sandbox.errors import FailureReason, InfrastructureError, SweyardError


class EngineError(InfrastructureError):
    """No usable answer from an engine within its deadline; says nothing about the policy."""

    def __init__(self, message: str) -> None:
        super().__init__(FailureReason.ENGINE, message)


class EngineUnfitError(SweyardError, ValueError):
    """A server that can chat but cannot be trained from: it returns no token ids or no processed logprobs."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled continuation."""

    token_ids: tuple[int, ...]
    """[N] as sampled; the last one is a stop token if and only if `finish_reason` is STOP."""
    logprobs: tuple[float, ...]
    """[N] natural logarithms, at the sampling temperature."""
    weight_version: int
    finish_reason: FinishReason
    routed_experts: NDArray[np.unsignedinteger] | None = field(default=None, compare=False)
    """[R, layers, experts a token] of the tokens from `routing_from` on, all but the last, which was not yet read; None
    where the engine says nothing of it."""


OnTokens = Callable[[Sequence[int]], None]
"""Told of the tokens of a reply as they are sampled, in order."""


class Engine(Protocol):
    """One server, or one model in this process."""

    @property
    def name(self) -> str:
        """For logs and for choosing: a URL, or a word for an embedded one."""
        ...

    @property
    def trouble(self) -> str:
        """Why it does not answer at present, and is asked again and again; empty while it does."""
        ...

    async def check(self) -> None:
        """Sample one token to see that ids and logprobs come back. Raises EngineUnfitError, EngineError."""
        ...

    async def weight_version(self) -> int:
        """Version of the weights that it would sample with now. Raises EngineError."""
        ...

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
        """Continue `prompt_ids`; temperature 0 is greedy. Raises EngineError, EngineUnfitError.

        `routing_from` is the first token whose choice of experts is still unknown. `on_tokens` may be told of tokens
        beforehand: what it was told is the beginning of what is returned, or nothing is.
        """
        ...

    async def close(self) -> None:
        """Stop and free it."""
        ...


@runtime_checkable
class EmbeddedEngine(Engine, Protocol):
    """An engine in this process, which loads new weights itself."""

    async def load_weights(self, directory: Path, version: int) -> None:
        """Load safetensors in HF layout; returns once every later completion uses them."""
        ...

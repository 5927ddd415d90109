"""What rollouts hand to the learner: exact token records, rewards, outcomes. Plain data, no torch.

Shapes: T is the number of tokens of one segment. A trajectory has one segment unless its client rewrote history.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sweyard_sandbox.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Segment:
    """One unbroken token sequence."""

    token_ids: NDArray[np.int32]
    """[T] prompt, replies and observations in order, as the engine saw and produced them."""
    loss_mask: NDArray[np.bool_]
    """[T] true where the engine sampled the token."""
    logprobs: NDArray[np.float32]
    """[T] the engine's logprob of each token at the sampling temperature; 0 where the mask is false."""
    weight_versions: NDArray[np.int32]
    """[T] weight version that sampled the token; -1 where the mask is false."""
    routed_experts: NDArray[np.unsignedinteger] | None = None
    """[R, layers, experts a token], R <= T: the experts that the engine sent each of the first R tokens to, one byte
    each where there are at most 256 of them; None for a model without experts. Tokens that no engine read lack it."""


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at one task."""

    attempt_id: str
    """`<step>/<task id>/<index in group>`; names the attempt for ever, also across restarts."""
    task_id: str
    group_id: str
    """Attempts with one group id share a baseline."""
    segments: tuple[Segment, ...]
    outcome: Outcome
    reward: float
    official: bool | None = None
    """The data set's own verdict; None if not graded."""
    temperature: float = 1.0
    transcript: list[dict[str, str]] = field(default_factory=list)
    """Messages as people read them: [{"role": ..., "content": ...}]."""
    patch: str = ""
    grading_log: str = ""
    infra_reason: str = ""
    timings: dict[str, float] = field(default_factory=dict)
    """Seconds: claim, model, sandbox, grading, total."""

    @property
    def num_sampled_tokens(self) -> int:
        """Tokens that the policy produced."""
        return int(sum(segment.loss_mask.sum() for segment in self.segments))

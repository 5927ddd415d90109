"""LoopState: what the main loop must know to go on exactly; saved with every checkpoint."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class LoopState:
    """JSON-able by `to_dict`."""

    step: int = 0
    """Steps of the main phase done."""
    weight_version: int = 0
    """0 untrained, then one more after the warm-up and after each step."""
    warmup_step: int = 0
    """Steps of the warm-up done."""
    warmed_up: bool = False
    """The warm-up is over. Checkpoints of versions without `warmup_step` are from then or later."""
    cursor: dict[str, Any] = field(default_factory=dict)
    """See TaskCursor.state."""
    backlog: dict[str, Any] = field(default_factory=dict)
    """See Backlog.state; empty before the first step. Its attempts lie beside this, as a rollout file."""
    verified: set[str] = field(default_factory=set)
    """Tasks whose gold patch passes and whose empty patch fails."""
    eval_set_aside: dict[str, str] = field(default_factory=dict)
    """Held-out tasks of which that is not so, and why. What only took too long is not among them."""
    evaluations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Results by label: untrained, warmed-up, step-N, final."""
    silent_steps: int = 0
    """Steps in a row in which no group had signal."""
    agentless_steps: int = 0
    """Steps in a row of whose attempts every one was ended by a failure of its agent."""
    metrics_rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent by phase, over all lives."""

    @property
    def in_warmup(self) -> bool:
        """Weights are between two versions: no engine has them."""
        return self.warmup_step > 0 and not self.warmed_up

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {**asdict(self), "verified": sorted(self.verified)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LoopState":
        """Inverse of `to_dict`."""
        aside = data["eval_set_aside"]
        # A list is of a version that took a busy machine for a faulty task: these are verified again.
        known = aside if isinstance(aside, dict) else {}
        return cls(**{**data, "verified": set(data["verified"]), "eval_set_aside": known})

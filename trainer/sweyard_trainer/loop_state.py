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
    warmed_up: bool = False
    cursor: dict[str, Any] = field(default_factory=dict)
    """See TaskCursor.state."""
    verified: set[str] = field(default_factory=set)
    """Tasks whose gold patch passes and whose empty patch fails."""
    eval_set_aside: set[str] = field(default_factory=set)
    """Held-out tasks of which that is not so."""
    evaluations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Results by label: untrained, warmed-up, step-N, final."""
    silent_steps: int = 0
    """Steps in a row in which no group had signal."""
    metrics_rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    """Time spent by phase, over all lives."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {**asdict(self), "verified": sorted(self.verified), "eval_set_aside": sorted(self.eval_set_aside)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "LoopState":
        """Inverse of `to_dict`."""
        sets = {"verified": set(data["verified"]), "eval_set_aside": set(data["eval_set_aside"])}
        return cls(**{**data, **sets})

"""What a fake API server may do to its client, all of it seen on real ones."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweyard_operator.resources import Manifest


@dataclass(slots=True)
class Lies:
    """Switches; change them while the server runs. Rates are probabilities per request or event."""

    randomness: random.Random = field(default_factory=lambda: random.Random(0))
    latency_seconds: float = 0.001
    """Up to so long for each reply."""
    throttle_rate: float = 0.0
    """429 with Retry-After: 1, nothing done."""
    error_rate: float = 0.0
    """500, nothing done."""
    lost_request_rate: float = 0.0
    """No reply, nothing done."""
    lost_reply_rate: float = 0.0
    """No reply, although it was done."""
    conflict_rate: float = 0.0
    """409 Conflict to a write, nothing done."""
    is_down: bool = False
    """No reply to anything; watches break."""
    stale_revisions: int = 0
    """Lists show the world as it was so many writes ago."""
    duplicate_event_rate: float = 0.0
    lost_event_rate: float = 0.0
    """Never delivered on that watch."""
    swapped_event_rate: float = 0.0
    """Delivered after its successor."""
    broken_watch_rate: float = 0.0
    """The stream breaks after an event."""
    deaf_watches: bool = False
    """Streams stay open and silent, without bookmarks."""
    gone_rate: float = 0.0
    """410 to the start of a watch."""
    unlistable: frozenset[str] = frozenset()
    """Plural names whose lists answer 500."""
    unserved: frozenset[str] = frozenset()
    """Plural names of kinds that the server does not know."""
    refusing: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Status and message of the reply, by method and plural name, as in `POST jobs`: nothing done."""
    broken_rule: str | None = None
    """The words of a rule, as a CRD may hold, that every JSON patch breaks."""
    pod_quota: int | None = None
    """Pods a namespace may hold."""
    forbidden_images: frozenset[str] = frozenset()
    """Refused by an admission rule."""
    unknown_fields: frozenset[str] = frozenset()
    """Of a pod's spec: refused where the server is asked to be strict."""

    def happens(self, rate: float) -> bool:
        """Roll the dice."""
        return rate > 0.0 and self.randomness.random() < rate

    def stop(self) -> None:
        """Tell the truth from now on, and fast."""
        self.latency_seconds = 0.001
        for name in (
            *("throttle_rate", "error_rate", "lost_request_rate", "lost_reply_rate", "conflict_rate"),
            *("duplicate_event_rate", "lost_event_rate", "swapped_event_rate", "broken_watch_rate", "gone_rate"),
        ):
            setattr(self, name, 0.0)
        self.unlistable = frozenset()
        self.stale_revisions, self.deaf_watches, self.is_down = 0, False, False

    def refusal(self, pod: Manifest, num_pods: int) -> str | None:
        """The words with which admission refuses a pod, or None."""
        if self.pod_quota is not None and num_pods >= self.pod_quota:
            quota = self.pod_quota
            return f"exceeded quota: sandboxes, requested: pods=1, used: pods={num_pods}, limited: pods={quota}"
        images: list[Any] = [container["image"] for container in pod["spec"]["containers"]]
        return next((f"image {image} is not allowed" for image in images if image in self.forbidden_images), None)

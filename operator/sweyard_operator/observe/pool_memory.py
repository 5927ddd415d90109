"""What the operator process remembers of a pool. All of it may be lost: a restart only makes it more patient."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from sweyard_operator.observe.parsed_pods import ParsedPods
from sweyard_operator.observe.warm_starts import WarmStarts
from sweyard_operator.plan.failures import find_end, refusal_failure
from sweyard_operator.plan.fault_ledger import FaultLedger
from sweyard_operator.plan.image_binding import found_no_place, was_late
from sweyard_operator.plan.plan import Refusal, RefusalReason
from sweyard_operator.plan.pool_state import PoolPlan
from sweyard_operator.plan.sandbox import Failure, SandboxPod
from sweyard_operator.plan.silence import SilenceClock
from sweyard_operator.plan.start_breaker import StartBreaker

_MAX_REFUSAL_HOLD_SECONDS = 10.0


@dataclass(slots=True)
class PoolMemory:
    """Of one pool, by its UID. `now` is monotonic seconds throughout."""

    pool_uid: str
    failures: Counter[str]
    """Starts from the status that the last process wrote."""
    parsed: ParsedPods = field(default_factory=ParsedPods)
    leases: SilenceClock = field(default_factory=SilenceClock)
    fenced: set[str] = field(default_factory=set)
    """Holders whose Lease we deleted: their sandboxes may be reaped without another wait."""
    node_faults: FaultLedger[str] = field(default_factory=FaultLedger)
    image_faults: FaultLedger[str] = field(default_factory=FaultLedger)
    last_failures: dict[str, Failure] = field(default_factory=dict)
    """By image: of a free sandbox, as long as it is in question whether the next will serve."""
    template: str = ""
    """Hash of what all this was learnt with."""
    late_images: set[str] = field(default_factory=set)
    """A sandbox of theirs was not Ready by the startup deadline."""
    unplaced_images: FaultLedger[str] = field(default_factory=FaultLedger)
    """No node took a sandbox of theirs."""
    breaker: StartBreaker = field(default_factory=StartBreaker)
    warm_starts: WarmStarts = field(default_factory=WarmStarts)
    served: frozenset[str] = frozenset()
    """UIDs of sandboxes that exist and were Ready once."""
    condemned: dict[str, Failure] = field(default_factory=dict)
    unneeded_since: dict[str, float] = field(default_factory=dict)
    recycled: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    """Like failures, both start from the status."""
    discarding: dict[str, str] = field(default_factory=dict)
    """By UID: why a released sandbox is being deleted."""
    released_since: dict[str, float] = field(default_factory=dict)
    """By container ID."""
    blocked_until: dict[int, float] = field(default_factory=dict)
    """Slots whose name met somebody else's object."""
    refusal: Refusal | None = None
    refusal_tries: int = 0
    refused_at: float = 0.0
    status_written_at: float = float("-inf")

    def hear_template(self, template: str) -> None:
        """What failed with another template may serve with this one: whoever mended it need not wait."""
        if self.template not in ("", template):
            self.image_faults, self.breaker = FaultLedger(), StartBreaker()
            self.last_failures, self.refusal, self.refusal_tries = {}, None, 0
        self.template = template

    def keep(self, planned: PoolPlan, now: float) -> None:
        """What the next passes need to know of this plan."""
        self.unneeded_since = {uid: self.unneeded_since.get(uid, now) for uid in planned.unneeded}
        self.released_since = {name: self.released_since.get(name, now) for name in planned.released}
        self.discarding.update(planned.discarded)
        # Who was given up and serves again (its node came back) has not failed.
        self.condemned = {uid: why for uid, why in self.condemned.items() if uid not in planned.serving}
        for _ in planned.ready - self.served:
            self.breaker.record_success(now)
        for uid, (pod, failure) in planned.condemned.items():
            if uid not in self.condemned:
                self._condemn(pod, failure, now)
        kept = planned.in_question
        self.last_failures = {image: why for image, why in self.last_failures.items() if image in kept}
        self.served = self.served & (planned.serving | planned.condemned.keys()) | planned.ready

    def _condemn(self, pod: SandboxPod, failure: Failure, now: float) -> None:
        self.condemned[pod.uid] = failure
        if pod.is_free:
            self.last_failures[pod.image] = failure
        if pod.is_free and pod.uid not in self.served:
            self.breaker.record_failure(failure, now)
            self._record_late(pod.image, failure, now)
        if failure.is_node_at_fault and pod.node is not None:
            self.node_faults.record(pod.node, now)
        elif pod.is_free:
            # A free sandbox runs nothing: if it fails, the image or the template is to blame.
            self.image_faults.record_round(pod.image, now)

    def _record_late(self, image: str, failure: Failure, now: float) -> None:
        """The startup deadline passed: in a pull, or in waiting for a place."""
        if found_no_place(failure):
            self.unplaced_images.record(image, now)
        elif was_late(failure):
            self.late_images.add(image)

    def bury(self, pod: SandboxPod) -> Failure | None:
        """A pod is gone: count it if it had failed. Returns why."""
        failure = self.condemned.pop(pod.uid, None) or find_end(pod)
        if failure is not None:
            self.failures[failure.reason] += 1
        return failure

    def hear_acceptance(self) -> None:
        """The API server took a sandbox again, or none is wanted any more."""
        self.refusal, self.refusal_tries = None, 0

    def hear_refusals(self, refused: tuple[Refusal, ...], images: Mapping[str, str], now: float) -> None:
        """The API server refused something; `images` are those of the sandboxes by pod name."""
        for refusal in refused:
            # A quota cares for no image; any other rule may refuse this one alone, and others must not wait for it.
            if refusal.reason != RefusalReason.QUOTA_EXCEEDED and refusal.name in images:
                self.image_faults.record_round(images[refusal.name], now)
                self.last_failures[images[refusal.name]] = refusal_failure(refusal)
        if self.refusal is None:
            self.failures[refused[0].reason] += 1
        self.refusal, self.refused_at = refused[0], now
        self.refusal_tries += 1

    def refusal_hold_seconds(self, now: float) -> float:
        """Until one more try: 1, 2, 4, 8, then every 10 seconds."""
        hold = min(2.0 ** (self.refusal_tries - 1), _MAX_REFUSAL_HOLD_SECONDS)
        return max(0.0, self.refused_at + hold - now) if self.refusal is not None else 0.0

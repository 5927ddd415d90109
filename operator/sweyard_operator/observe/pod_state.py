"""What a pod's status says, in one typed reason and the kubelet's or scheduler's own words."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sweyard_api.base import quantity_value
from sweyard_api.constants import EXIT_CODE_USER_FAULT, LABEL_COMPONENT
from sweyard_operator.build.run_context import COMPONENT_TRAINER, LABEL_ATTEMPT
from sweyard_operator.conditions import find_condition, parse_time
from sweyard_operator.plan.reasons import Reason
from sweyard_operator.resources import Manifest, labels_of, name_of

_PULL_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})
_CONFIG_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_ACCELERATOR_MEMORY = "torch.OutOfMemoryError"
"""As PyTorch names it, also through Ray."""
_MAX_WORDS = 700
"""Characters of a log's end: the last ten lines or so."""
_QUIET_REASONS = frozenset({"", "ContainerCreating", "PodInitializing"})
_UNSEEN = timedelta(seconds=60)
"""Schedulers say within seconds that they find no node."""
_UNSEEN_ENDS = frozenset({"Unknown", "ContainerStatusUnknown"})
"""What containerd and kubelets say of containers that ended while they were away themselves. The exit codes that go
with it, 255 and 137, are theirs and not the process's."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why something does not run."""

    reason: Reason
    message: str


@dataclass(frozen=True, slots=True)
class Outlived:
    """The end of a pod's trainer."""

    exit_code: int
    since: datetime


@dataclass(frozen=True, slots=True)
class PodState:
    """One pod of a run."""

    name: str
    uid: str
    component: str
    attempt: int | None
    created: datetime
    phase: str
    is_ready: bool
    node: str
    """Empty until it is placed."""
    is_disrupted: bool
    """The cluster ends it for reasons of its own: a drain, a preemption, a lost or stopping node; or it did not see how
    it ended."""
    gpus: int
    """GPUs that its containers hold while it is placed and lives."""
    due_at: datetime | None
    """When it should be gone, grace period included; None while nobody has deleted it."""
    trouble: Trouble | None
    """What keeps it from running, or what ended it."""
    ended_before: str | None
    """How a container that runs again ended."""
    user_fault: str | None
    """What a container said that ended with exit code 2."""
    ended_at: datetime | None
    """When its first container failed."""
    outlived: Outlived | None
    """Of a trainer that has ended, in a pod that has not: a container that somebody added runs on."""

    @property
    def is_terminating(self) -> bool:
        return self.due_at is not None

    @property
    def is_unschedulable(self) -> bool:
        """Whether the scheduler has found no node for it."""
        return self.trouble is not None and self.trouble.reason == Reason.UNSCHEDULABLE

    @property
    def is_live(self) -> bool:
        """Whether its containers may still run."""
        return self.phase not in ("Succeeded", "Failed")

    def is_lost_with(self, nodes: Collection[str]) -> bool:
        """Whether its end was asked for, and its node, one of these, will not tell of it."""
        return self.is_live and self.due_at is not None and self.node in nodes


def read_pod(pod: Manifest, warning: str | None = None, *, now: datetime | None = None) -> PodState:
    """Parse a pod; `warning` is its last Warning event, for what its status does not tell (a missing volume)."""
    metadata, status, spec = pod["metadata"], pod.get("status") or {}, pod.get("spec") or {}
    attempt = labels_of(pod).get(LABEL_ATTEMPT)
    ended = _failures(status)
    return PodState(
        name=name_of(pod),
        uid=metadata["uid"],
        component=labels_of(pod).get(LABEL_COMPONENT, ""),
        attempt=int(attempt) if attempt is not None else None,
        created=parse_time(metadata["creationTimestamp"]),
        phase=status.get("phase", "Pending"),
        is_ready=find_condition(status, "Ready").get("status") == "True",
        node=spec.get("nodeName", ""),
        is_disrupted=_is_disrupted(status),
        gpus=sum(count_gpus(container) for container in spec.get("containers", ())),
        due_at=parse_time(metadata["deletionTimestamp"]) if "deletionTimestamp" in metadata else None,
        trouble=_trouble(status) or _unseen_trouble(pod, warning, now),
        ended_before=_ended_before(status),
        user_fault=_user_fault(status),
        ended_at=min((parse_time(end["finishedAt"]) for _, end in ended if end.get("finishedAt")), default=None),
        outlived=_outlived(status),
    )


def count_gpus(container: Manifest) -> int:
    """GPUs, or parts of one, of a core/v1 container: nvidia.com/gpu, amd.com/gpu, nvidia.com/mig-1g.10gb, ..."""
    limits = (container.get("resources") or {}).get("limits") or {}
    return sum(
        int(quantity_value(str(amount)))
        for name, amount in limits.items()
        if name.partition("/")[2].startswith(("gpu", "mig-"))
    )


def is_waiting_silently(pod: Manifest) -> bool:
    """Whether a pod's containers wait, or it has no node, with no reason in its status: only an event can tell why."""
    status = pod.get("status") or {}
    waiting = any("waiting" in (container.get("state") or {}) for container in _containers(status))
    is_pending = status.get("phase", "Pending") == "Pending"
    return is_pending and (waiting or not _has_node(pod)) and _trouble(status) is None


def _has_node(pod: Manifest) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName"))


def _trouble(status: Manifest) -> Trouble | None:
    return _eviction(status) or _container_trouble(status) or _scheduling(status)


def _unseen_trouble(pod: Manifest, warning: str | None, now: datetime | None) -> Trouble | None:
    """What the status does not tell: an event's words, or that no scheduler has any."""
    if _has_node(pod) or (pod.get("status") or {}).get("phase", "Pending") != "Pending":
        return Trouble(Reason.EVENT, warning) if warning else None
    if warning:
        return Trouble(Reason.UNSCHEDULABLE, warning)
    if now is None or now - parse_time(pod["metadata"]["creationTimestamp"]) < _UNSEEN:
        return None
    return Trouble(
        Reason.UNSCHEDULABLE, "no scheduler has said anything of it: is the one of its schedulerName at work?"
    )


def _outlived(status: Manifest) -> Outlived | None:
    if status.get("phase") != "Running":
        return None
    own = (entry for entry in status.get("containerStatuses") or () if entry["name"] == COMPONENT_TRAINER)
    end = next(((entry.get("state") or {}).get("terminated") for entry in own), None)
    return Outlived(int(end["exitCode"]), parse_time(end["finishedAt"])) if end and end.get("finishedAt") else None


def _eviction(status: Manifest) -> Trouble | None:
    disruption = find_condition(status, "DisruptionTarget")
    if status.get("reason") == "Evicted":
        return Trouble(Reason.EVICTED, str(status.get("message", "")))
    if disruption.get("status") == "True":
        return Trouble(Reason.EVICTED, f"{disruption.get('reason', '')}: {disruption.get('message', '')}")
    return None


def _is_disrupted(status: Manifest) -> bool:
    """Not by the kubelet for want of memory or disk, which may be the pod's own doing."""
    if any(_is_unseen(end) for _, end in _failures(status)):
        return True
    return find_condition(status, "DisruptionTarget").get("status") == "True" and status.get("reason") != "Evicted"


def _is_unseen(end: Manifest) -> bool:
    """Nobody knows how the container ended: its node's runtime was away, or forgot it."""
    return end.get("reason") in _UNSEEN_ENDS


def _scheduling(status: Manifest) -> Trouble | None:
    scheduled = find_condition(status, "PodScheduled")
    if scheduled.get("status") == "False" and scheduled.get("reason") in ("Unschedulable", "SchedulingGated"):
        return Trouble(Reason.UNSCHEDULABLE, str(scheduled.get("message", "")))
    return None


def _container_trouble(status: Manifest) -> Trouble | None:
    failures = {name: end for name, end in _failures(status)}
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting")
        if waiting is not None and (trouble := _waiting_trouble(container["name"], waiting, failures)):
            return trouble
    by_time = sorted(failures.items(), key=lambda failure: str(failure[1].get("finishedAt", "")))
    return _ended_trouble(*by_time[0]) if by_time else None


def _waiting_trouble(name: str, waiting: Manifest, failures: dict[str, Manifest]) -> Trouble | None:
    reason, message = waiting.get("reason", ""), waiting.get("message", "")
    if reason in _QUIET_REASONS:
        return None
    if reason in _PULL_REASONS:
        return Trouble(Reason.IMAGE_PULL, f"{name}: {message or reason}")
    if reason in _CONFIG_REASONS:
        return Trouble(Reason.CONTAINER_CONFIG, f"{name}: {message or reason}")
    if name in failures:
        ended = _ended_trouble(name, failures[name])
        return ended if ended.reason == Reason.OUT_OF_MEMORY else Trouble(Reason.CRASH_LOOP, ended.message)
    return Trouble(Reason.CRASH_LOOP, f"{name}: {message or reason}")


def _ended_trouble(name: str, end: Manifest) -> Trouble:
    if end.get("reason") == "OOMKilled":
        return Trouble(Reason.OUT_OF_MEMORY, f"{name} was killed for using more memory than its limit")
    if _ACCELERATOR_MEMORY in str(end.get("message", "")):
        return Trouble(Reason.ACCELERATOR_MEMORY, f"{name} ran out of the accelerator's memory: {_last_words(end)}")
    said = _last_words(end)
    if _is_unseen(end):
        how = f"{name} ended while its node's container runtime was away, so nobody knows how"
        return Trouble(Reason.EXITED, f"{how}{': ' + said if said else ''}")
    return Trouble(Reason.EXITED, f"{name} ended with exit code {end.get('exitCode')}{': ' + said if said else ''}")


def _last_words(end: Manifest) -> str:
    """The end of the termination message: what a process says last is what it died of."""
    return " ".join(str(end.get("message", "")).split())[-_MAX_WORDS:]


def _user_fault(status: Manifest) -> str | None:
    for name, end in _failures(status):
        if end.get("exitCode") == EXIT_CODE_USER_FAULT:
            return _last_words(end) or f"{name} ended with exit code {EXIT_CODE_USER_FAULT}"
    return None


def _ended_before(status: Manifest) -> str | None:
    for container in _containers(status):
        end = (container.get("lastState") or {}).get("terminated")
        if "running" in (container.get("state") or {}) and end is not None and end.get("exitCode") != 0:
            return _ended_trouble(str(container["name"]), end).message
    return None


def _failures(status: Manifest) -> list[tuple[str, Manifest]]:
    """Each container's latest end that was no success, now or before its restart."""
    found = []
    for container in _containers(status):
        ends = ((container.get(key) or {}).get("terminated") for key in ("state", "lastState"))
        failed = next((end for end in ends if end is not None and end.get("exitCode") != 0), None)
        is_running_again = "running" in (container.get("state") or {})
        if failed is not None and not is_running_again:
            found.append((str(container["name"]), failed))
    return found


def _containers(status: Manifest) -> Iterable[Manifest]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]

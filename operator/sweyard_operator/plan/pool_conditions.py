"""Ready, Progressing and Degraded of a pool, each with a typed reason and a sentence that names the remedy."""

from collections import Counter
from collections.abc import Mapping

from sweyard_operator.conditions import Condition
from sweyard_operator.plan.failures import find_trouble, refusal_failure
from sweyard_operator.plan.plan import RefusalReason
from sweyard_operator.plan.pool_figures import Figures
from sweyard_operator.plan.pool_state import Census, ObservedPool
from sweyard_operator.plan.sandbox import Failure
from sweyard_operator.plan.start_breaker import Breach

_REMEDIES: Mapping[str, str] = {
    RefusalReason.QUOTA_EXCEEDED: "Raise the ResourceQuota of the namespace or lower spec.replicas",
    RefusalReason.FORBIDDEN: "Change the admission rule, or what the pool's spec asks for",
    RefusalReason.INVALID: "Correct the pool's spec",
    "Unschedulable": "Add nodes, lower spec.template.resources.requests or spec.replicas",
    "ImagePull": "Check the image's name, spec.template.imagePullSecrets and the registry",
    "OOMKilled": "Raise spec.template.resources.limits.memory",
    "StartupDeadline": "Raise spec.startupDeadlineSeconds or look at the node",
    "Error": "Check that the image has /bin/sh and runs as spec.template.runAsUser",
}


def plan_conditions(observed: ObservedPool, census: Census, figures: Figures) -> list[Condition]:
    """In the order in which people ask."""
    trouble = _find_trouble(observed, census) or _find_last_failure(observed, figures)
    return [_ready(census, figures, trouble), _progressing(census, figures, trouble), _degraded(observed, trouble)]


def _ready(census: Census, figures: Figures, trouble: Failure | None) -> Condition:
    """Claims take from what is ready and leave a pool as ready as it was: both count."""
    ready = sum(pod.is_ready for pod in census.free)
    if ready + len(census.claimed) >= figures.wanted:
        return Condition("Ready", "True", "SandboxesReady", f"{ready} ready, {len(census.claimed)} claimed")
    reason = trouble.reason if trouble is not None else "SandboxesStarting"
    message = f"{ready} of {figures.wanted} wanted sandboxes are ready"
    return Condition("Ready", "False", reason, message if trouble is None else f"{message}: {trouble.message}")


def _progressing(census: Census, figures: Figures, trouble: Failure | None) -> Condition:
    starting = sum(not pod.is_ready for pod in census.free)
    if figures.creating or starting:
        later = f", {figures.paced} follow as these come up" if figures.paced else ""
        message = f"{figures.creating + starting} sandboxes are starting{later}"
        return Condition("Progressing", "True", "Starting", message)
    if figures.removing or census.terminating:
        leaving = figures.removing + len(census.terminating)
        return Condition("Progressing", "True", "Removing", f"{leaving} sandboxes are being removed")
    if figures.missing and trouble is not None:
        return Condition("Progressing", "False", trouble.reason, trouble.message)
    if figures.missing:
        message = f"{figures.missing} more sandboxes wait for a place; raise spec.replicas to have them sooner"
        return Condition("Progressing", "False", "AtCapacity", message)
    return Condition("Progressing", "False", "Settled", "nothing to do")


def _degraded(observed: ObservedPool, trouble: Failure | None) -> Condition:
    if trouble is not None:
        remedy = _REMEDIES.get(trouble.reason)
        message = trouble.message if remedy is None else f"{trouble.message.rstrip('.')}. {remedy}."
        return Condition("Degraded", "True", trouble.reason, message)
    if observed.quarantined_nodes:
        nodes = ", ".join(sorted(observed.quarantined_nodes))
        message = f"sandboxes failed repeatedly on {nodes}, which new ones avoid for some minutes. Look at these nodes."
        return Condition("Degraded", "True", "NodesQuarantined", message)
    return Condition("Degraded", "False", "Healthy", "no sandbox is in trouble")


def _find_trouble(observed: ObservedPool, census: Census) -> Failure | None:
    """The one thing to say first: a refusal, else what most sandboxes suffer from."""
    if observed.refusal is not None:
        return refusal_failure(observed.refusal)
    if observed.breach is not None:
        return _breach_failure(observed.breach)
    failed = [failure for pod, failure in census.failed if failure is not None and pod.is_free]
    waiting = [trouble for pod in census.free if not pod.is_ready and (trouble := find_trouble(pod)) is not None]
    return Counter(failed + waiting).most_common(1)[0][0] if failed or waiting else None


def _find_last_failure(observed: ObservedPool, figures: Figures) -> Failure | None:
    """Between two tries nothing that exists tells what became of the last one."""
    held = sorted(observed.held_images) if figures.missing else []
    image = next((image for image in (*figures.unserved, *held) if image in observed.last_failures), None)
    if image is None:
        return None
    last = observed.last_failures[image]
    if image not in observed.held_images:
        return last
    said = last.message.rstrip(".")
    return Failure(last.reason, f"sandboxes of {image} are tried again after a pause; the last: {said}")


def _breach_failure(breach: Breach) -> Failure:
    said = breach.failure.message.rstrip(".")
    return Failure(
        breach.failure.reason, f"most sandboxes failed before they served, so one at a time is tried; the last: {said}"
    )

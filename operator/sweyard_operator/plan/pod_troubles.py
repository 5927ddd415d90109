"""One sentence about what keeps a component's pods from running, with the remedy."""

from collections import Counter
from collections.abc import Sequence

from sweyard_operator.observe.pod_state import PodState, Trouble
from sweyard_operator.plan.reasons import REMEDIES, Reason


def summarize_troubles(pods: Sequence[PodState], wanted: int, field: str) -> Trouble | None:
    """The most common trouble among pods that do not serve; `field` is where in the spec they come from."""
    troubled = [pod for pod in pods if pod.trouble is not None and not pod.is_ready and not pod.is_terminating]
    if not troubled:
        return None
    reason, count = Counter(pod.trouble.reason for pod in troubled if pod.trouble).most_common(1)[0]
    first = next(pod for pod in troubled if pod.trouble and pod.trouble.reason == reason)
    assert first.trouble is not None
    said = first.trouble.message.rstrip(".")
    message = (
        f"{count} of {wanted} {first.component} pods {reason}: {first.name}: {said}{_remedy(reason, field, first.name)}"
    )
    return Trouble(reason, message)


def failed_create(warning: str, field: str) -> Trouble:
    """Pods that the API server refused to a Job or StatefulSet."""
    return Trouble(Reason.FAILED_CREATE, warning.rstrip(".") + _remedy(Reason.FAILED_CREATE, field, ""))


def _remedy(reason: Reason, field: str, pod: str) -> str:
    if reason in (Reason.CRASH_LOOP, Reason.EXITED):
        return f"; see kubectl logs {pod} --all-containers --previous"
    if reason not in REMEDIES:
        return ""
    return "; " + REMEDIES[reason].format(field=field)

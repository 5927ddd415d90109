"""One sentence about what keeps a component's pods from running, with the remedy."""

import re
from collections import Counter
from collections.abc import Sequence

from sweyard_operator.observe.pod_state import PodState, Trouble
from sweyard_operator.plan.reasons import REMEDIES, Reason

_BY_WORDS = (
    (re.compile("persistentvolumeclaim", re.IGNORECASE), "see kubectl describe pvc, and storage in the spec"),
    (re.compile("resource ?claim", re.IGNORECASE), REMEDIES[Reason.CONTAINER_CONFIG]),
    (re.compile("not found|no PriorityClass"), REMEDIES[Reason.CONTAINER_CONFIG]),
)
"""What helps where it is not an amount that is too small: neither scheduler nor admission has a word for it."""
_OF_AMOUNTS = re.compile("quota|maximum|minimum|must be less|ratio")
"""In the words of ResourceQuotas and LimitRanges; of any other rule of admission nobody knows what helps."""


def summarize_troubles(pods: Sequence[PodState], wanted: int, field: str) -> Trouble | None:
    """The most common trouble among pods that do not serve; `field` is where in the spec they come from."""
    troubled = [pod for pod in pods if pod.trouble is not None and not pod.is_ready and not pod.is_terminating]
    if not troubled:
        return None
    reason, count = Counter(pod.trouble.reason for pod in troubled if pod.trouble).most_common(1)[0]
    first = next(pod for pod in troubled if pod.trouble and pod.trouble.reason == reason)
    assert first.trouble is not None
    said = first.trouble.message.rstrip(".")
    remedy = _remedy(reason, field, first.name, said)
    message = f"{count} of {wanted} {first.component} pods {reason}: {first.name}: {said}{remedy}"
    return Trouble(reason, message)


def failed_create(warning: str, field: str) -> Trouble:
    """Pods that the API server refused to a Job, a StatefulSet or a Deployment."""
    return Trouble(Reason.FAILED_CREATE, warning.rstrip(".") + _remedy(Reason.FAILED_CREATE, field, "", warning))


def _remedy(reason: Reason, field: str, pod: str, said: str) -> str:
    if reason in (Reason.CRASH_LOOP, Reason.EXITED):
        return f"; see kubectl logs {pod} --all-containers --previous"
    if reason in (Reason.UNSCHEDULABLE, Reason.FAILED_CREATE, Reason.EVENT):
        known = next((remedy for words, remedy in _BY_WORDS if words.search(said)), None)
        if known is not None:
            return f"; {known}"
    if reason == Reason.FAILED_CREATE and not _OF_AMOUNTS.search(said):
        return ""
    if reason not in REMEDIES:
        return ""
    return "; " + REMEDIES[reason].format(field=field)

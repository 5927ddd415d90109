"""One word for `kubectl get`."""

from collections.abc import Sequence

from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.progress import is_evaluating
from sweyard_operator.plan.reasons import ConditionType, Reason
from sweyard_operator.plan.restart_policy import Decision, Running, Waiting
from sweyard_operator.plan.stage import Stage

_WORDS = {
    ConditionType.IMAGES_READY: "Images",
    ConditionType.SANDBOXES_READY: "Sandboxes",
    ConditionType.INFERENCE_READY: "Inference",
}


def active_phase(snapshot: RunSnapshot, gang: Decision, trainer: Stage, stages: Sequence[Stage]) -> str:
    """The phase of a run that is neither suspended nor over."""
    if isinstance(gang, Running):
        if not trainer.is_ready:
            return "Starting"
        return "Evaluating" if is_evaluating(snapshot.status, gang.job.attempt) else "Running"
    if isinstance(gang, Waiting):
        return "Restarting"
    closed = next((stage for stage in stages if not stage.opens), None)
    if closed is None:
        return "Starting"
    return "Pending" if closed.reason == Reason.CREATING else _WORDS[closed.type]

"""The run's own volume: a claim that is lost, going, or without a volume is told, with what that means for the run."""

from sweyard_operator.build.run_context import RunContext
from sweyard_operator.observe.run_snapshot import RunSnapshot
from sweyard_operator.plan.reasons import Reason
from sweyard_operator.resources import PERSISTENT_VOLUME_CLAIMS


def volume_obstacle(run: RunContext, snapshot: RunSnapshot) -> tuple[Reason, str] | None:
    """What keeps pods from being made. The trainer at work goes on, and nothing else is made meanwhile."""
    claim = snapshot.owned(PERSISTENT_VOLUME_CLAIMS, run.name)
    if claim is None or run.config.storage.claim_name is not None:
        return None
    if "deletionTimestamp" in claim["metadata"]:
        message = (
            f"PersistentVolumeClaim {run.name} is being deleted, and goes with the run's last pod: copy its "
            "checkpoints while the trainer runs, for the next attempt begins anew on an empty volume"
        )
        return Reason.VOLUME_LOST, message
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume = claim["spec"].get("volumeName", "")
        message = (
            f"PersistentVolumeClaim {run.name} has lost its PersistentVolume {volume}: restore that, or delete the "
            "claim to begin anew on an empty volume"
        )
        return Reason.VOLUME_LOST, message
    return None


def volume_wait(snapshot: RunSnapshot) -> tuple[Reason, str] | None:
    """Why the claim has no volume, where somebody said so. Many get one with their first pod, so it stops nothing."""
    claim = snapshot.owned(PERSISTENT_VOLUME_CLAIMS, snapshot.name)
    if claim is None or (claim.get("status") or {}).get("phase", "Pending") != "Pending":
        return None
    said = snapshot.warnings.get(claim["metadata"]["uid"])
    if said is None:
        return None
    remedy = "see kubectl get storageclass, and make the run anew with storage.storageClassName or storage.accessMode"
    return Reason.VOLUME_PENDING, f"PersistentVolumeClaim {snapshot.name} has no volume: {said.rstrip('.')}; {remedy}"

"""A trainer whose ServiceAccount was deleted and made anew: its token is of the old one, and no request of it is taken.

A kubelet keeps a token for most of an hour, whatever becomes of the account.
"""

from sweyard_api.constants import trainer_name
from sweyard_operator.build.run_context import COMPONENT_TRAINER
from sweyard_operator.conditions import parse_time
from sweyard_operator.plan.reasons import Reason
from sweyard_operator.plan.restart_policy import Running
from sweyard_operator.plan.run_pass import RunPass
from sweyard_operator.resources import SERVICE_ACCOUNTS


def stale_token(work: RunPass) -> tuple[Reason, str] | None:
    """Why the trainer at work is not heard and has no sandboxes, with what helps at once."""
    account = work.snapshot.owned(SERVICE_ACCOUNTS, trainer_name(work.run.name))
    if account is None or not isinstance(work.gang, Running):
        return None
    made, attempt = parse_time(account["metadata"]["creationTimestamp"]), work.gang.job.attempt
    trainers = [pod for pod in work.snapshot.pods_of(COMPONENT_TRAINER) if pod.attempt == attempt and pod.is_live]
    if all(pod.created >= made for pod in trainers):
        return None
    message = (
        f"ServiceAccount {trainer_name(work.run.name)} was deleted and made anew at {made:%H:%M:%S} UTC, so the token "
        f"that attempt {attempt} began with is refused until its kubelet brings another; to go on from a checkpoint at "
        f"once: kubectl delete job {work.gang.job.name}"
    )
    return Reason.TOKEN_REVOKED, message

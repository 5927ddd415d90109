"""Typed reasons of a TrainingRun's conditions and events: one word each, for machines."""

from enum import StrEnum


class ConditionType(StrEnum):
    """Conditions of a TrainingRun."""

    IMAGES_READY = "ImagesReady"
    SANDBOXES_READY = "SandboxesReady"
    INFERENCE_READY = "InferenceReady"
    TRAINER_READY = "TrainerReady"
    PROGRESSING = "Progressing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    INVALID_SPEC = "InvalidSpec"
    """Present only while the resolved whole is wrong."""
    ADMITTED = "Admitted"
    """Present while the run is in a queue."""
    GPU_BUDGET_LOW = "GPUBudgetLow"
    """Present where there is a budget."""
    UNPLACED = "Unplaced"
    """True while the run holds nothing, since its pods could not all be placed; False, since when that is so, while
    something is refused that it may soon wait for; absent otherwise."""


class Reason(StrEnum):
    """Why a condition is as it is."""

    # Nothing to wait for.
    NOT_NEEDED = "NotNeeded"
    EXTERNAL = "External"
    EMBEDDED = "Embedded"
    COLOCATED = "Colocated"
    READY = "Ready"
    RUNNING = "Running"
    FINISHED = "Finished"
    NOT_FINISHED = "NotFinished"
    NOT_FAILED = "NotFailed"
    NOT_SUSPENDED = "NotSuspended"
    RELEASED = "Released"
    ADMITTED = "Admitted"
    WITHIN_BUDGET = "WithinBudget"

    # On its way.
    CREATING = "Creating"
    WAITING = "Waiting"
    STARTING = "Starting"
    QUEUED = "Queued"
    PULLING = "Pulling"
    BACK_OFF = "BackOff"
    TERMINATING = "Terminating"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RESTARTING = "Restarting"

    # In the way, or soon.
    GPU_BUDGET_LOW = "GPUBudgetLow"
    INVALID_SPEC = "InvalidSpec"
    NAME_CONFLICT = "NameConflict"
    QUEUE_MISSING = "QueueMissing"
    POD_GROUP_MISSING = "PodGroupMissing"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    QUOTA_EXCEEDED = "QuotaExceeded"
    FORBIDDEN = "Forbidden"
    REFUSED = "Refused"
    DATASET_MISSING = "DatasetMissing"
    CACHE_MISSING = "CacheMissing"
    POOL_MISSING = "PoolMissing"
    POOL_NOT_READY = "PoolNotReady"
    VOLUME_LOST = "VolumeLost"
    VOLUME_PENDING = "VolumePending"
    UNSCHEDULABLE = "Unschedulable"
    PLACEMENT_DEADLINE = "PlacementDeadline"
    IMAGE_PULL = "ImagePull"
    CONTAINER_CONFIG = "ContainerConfig"
    CRASH_LOOP = "CrashLoop"
    OUT_OF_MEMORY = "OOMKilled"
    ACCELERATOR_MEMORY = "AcceleratorOutOfMemory"
    EVICTED = "Evicted"
    DISRUPTED = "Disrupted"
    EXITED = "Exited"
    EVENT = "NotStarted"
    FAILED_CREATE = "FailedCreate"
    TOKEN_REVOKED = "TokenRevoked"
    JOB_SUSPENDED = "JobSuspended"
    STARTUP_DEADLINE = "StartupDeadline"
    NO_REPORT = "NoReport"
    STALLED = "Stalled"

    # The end.
    USER_ERROR = "UserError"
    RESTART_LIMIT = "RestartLimitReached"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    GPU_BUDGET_SPENT = "GPUBudgetSpent"


REMEDIES = {
    Reason.UNSCHEDULABLE: "lower {field}.resources, loosen {field}.nodeSelector, or add nodes",
    Reason.IMAGE_PULL: "check {field}.image and the pull secrets",
    Reason.CONTAINER_CONFIG: "create what is missing, or correct the name in the spec",
    Reason.OUT_OF_MEMORY: "raise {field}.resources.limits.memory",
    Reason.ACCELERATOR_MEMORY: "take less memory of the accelerator: lower trainer.tokensPerMicrobatch, set "
    "trainer.gradientCheckpointing or trainer.cpuOffload, or lower inference.memoryFraction",
    Reason.FAILED_CREATE: "raise the quota or lower {field}.resources",
}
"""What a person can do; `field` is the part of the spec that the pods come from."""

MEMORY = (Reason.OUT_OF_MEMORY, Reason.ACCELERATOR_MEMORY)
"""Ends that come again at the same step, since the same work needs the same memory."""

REFUSALS = frozenset(
    {
        *(Reason.QUOTA_EXCEEDED, Reason.FORBIDDEN, Reason.REFUSED, Reason.FAILED_CREATE),
        *(Reason.NAME_CONFLICT, Reason.POD_GROUP_MISSING, Reason.JOB_SUSPENDED, Reason.VOLUME_LOST),
    }
)
"""Somebody says no to something that the run needs: quota, admission, rights, validation, a name that is taken, a kind
that is not known, a queue that the run is not in, a volume that is gone."""

WARNINGS = frozenset(Reason) - {
    *(Reason.NOT_NEEDED, Reason.EXTERNAL, Reason.EMBEDDED, Reason.COLOCATED, Reason.READY, Reason.RUNNING),
    *(Reason.FINISHED, Reason.NOT_FINISHED, Reason.NOT_FAILED, Reason.NOT_SUSPENDED, Reason.RELEASED),
    *(Reason.WITHIN_BUDGET, Reason.ADMITTED),
    *(Reason.CREATING, Reason.WAITING, Reason.STARTING, Reason.QUEUED, Reason.PULLING, Reason.TERMINATING),
    *(Reason.SUSPENDING, Reason.SUSPENDED),
}
"""Reasons that are worth a Warning event."""

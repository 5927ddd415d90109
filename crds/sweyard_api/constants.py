"""Group, labels, annotations, field managers and object names that more than one component relies on."""

GROUP = "sweyard.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

LABEL_RUN = f"{GROUP}/run"
"""Name of the TrainingRun that an object belongs to."""
LABEL_POOL = f"{GROUP}/pool"
"""Name of the RolloutPool that a sandbox pod or a holder's demand belongs to."""
LABEL_CACHE = f"{GROUP}/cache"
"""Name of the ImageCache that an object belongs to."""
LABEL_COMPONENT = f"{GROUP}/component"
"""One of trainer, engine, gateway, sandbox, cache-agent, operator."""

ANNOTATION_HOLDER = f"{GROUP}/holder"
"""On a sandbox pod: the name of the Lease that holds it; empty while it is free (an annotation: CNIs watch labels)."""
ANNOTATION_IMAGE = f"{GROUP}/image"
"""On a sandbox pod: the image it was made for; admission may rewrite the container's own."""
ANNOTATION_CLAIMED_AT = f"{GROUP}/claimed-at"
"""On a sandbox pod: RFC 3339 time of the claim, by the client's clock; informative only."""
ANNOTATION_TEMPLATE_HASH = f"{GROUP}/template-hash"
"""On a sandbox pod: hash of the pool's template it was made from."""

ANNOTATION_RELEASE = f"{GROUP}/release"
"""On a held sandbox pod of a pool that recycles: its holder is done with the container of this ID, and has ended it."""
ANNOTATION_RECYCLED = f"{GROUP}/recycled"
"""On a sandbox pod: how often it was reset and given to the next holder; absent: never."""

FIELD_MANAGER_OPERATOR = "sweyard-operator"
FIELD_MANAGER_TRAINER = "sweyard-trainer"

CONTAINER_SANDBOX = "sandbox"
"""Name of the container in a sandbox pod that commands run in."""
DEMAND_KEY = "demand.json"
"""Key in a holder's demand ConfigMap (same name as its Lease): {"images": [...]} in order of need."""

IMAGES_KEY = "images"
"""Key in a ConfigMap that lists images, one a line: a data set's own, or what an ImageCache's imagesFrom names."""
CONFIG_KEY = "config.yaml"
"""Key of the resolved config in a run's ConfigMap."""
STORAGE_MOUNT_PATH = "/var/lib/sweyard"
"""Where the run's volume is mounted in trainer and engine pods: weights/, checkpoints/, rollouts/, metrics/."""
CONFIG_MOUNT_PATH = "/etc/sweyard"
DATASET_MOUNT_PATH = "/datasets"
"""A dataset ConfigMap NAME is mounted at /datasets/NAME, holding tasks.jsonl.gz."""
DEMO_DATASET = "tiny"
"""What `make demo` makes, and the first examples use."""

GATEWAY_PORT = 8000
"""Sandboxes may reach this port: /v1/..., authorised by a session's own token."""
GATEWAY_ADMIN_PORT = 8001
"""Only trainer pods may reach this port: sessions, weight versions."""
ENGINE_PORT = 8000
METRICS_PORT = 9090

EXIT_CODE_USER_FAULT = 2
"""Of a trainer's process: not to be started again, since the same would happen."""
EXIT_CODE_SANDBOX_TERMINATED = 143
"""What a sandbox's first process makes of SIGTERM. Not 0: of a pod whose containers all ended so the kubelet says
Succeeded, and no longer that it evicted it and why."""
RUN_FILE = "trainingrun.yaml"
"""In the directory of a run without a cluster: the run as it was asked for, from which it can be gone on with."""


def config_map_name(run: str) -> str:
    """ConfigMap with the resolved config of a run."""
    return f"{run}-config"


def engine_name(run: str) -> str:
    """StatefulSet and headless Service of a run's inference engines."""
    return f"{run}-engine"


def gateway_name(run: str) -> str:
    """Deployment and Service of a run's gateway."""
    return f"{run}-gateway"


def trainer_name(run: str) -> str:
    """ServiceAccount, Role and headless Service of a run's trainer."""
    return f"{run}-trainer"


def trainer_job_name(run: str, attempt: int) -> str:
    """Indexed Job of one attempt (0 is the first) of a run's trainer gang."""
    return f"{run}-trainer-{attempt}"

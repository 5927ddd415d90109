"""Environment: where this process runs, read once by the entry points."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sweyard_api.constants import DATASET_MOUNT_PATH, STORAGE_MOUNT_PATH


@dataclass(frozen=True, slots=True)
class Environment:
    """What differs between a cluster and a laptop. Picklable: rollout workers in other processes get it too."""

    run: str
    storage: Path
    on_cluster: bool = False
    run_uid: str = ""
    namespace: str = ""
    pool: str = ""
    pod_name: str = ""
    attempt: int = 0
    engine_urls: tuple[str, ...] = ()
    """Engines that are servers; empty: an engine in this process."""
    engine_api_key: str | None = None
    hub_token: str | None = None
    gateway_url: str = ""
    gateway_admin_url: str = ""
    head_address: str = ""
    """Host of rank 0."""
    rank: int = 0
    """Index of this pod in the gang."""
    datasets: tuple[Path, ...] = (Path(DATASET_MOUNT_PATH),)
    """Directories that plain data set names are looked up in."""
    allow_unisolated: bool = False
    """Local sandboxes may run without namespaces where the system has none."""

    @classmethod
    def of_pod(cls, variables: Mapping[str, str]) -> "Environment":
        """From the variables that the operator sets (docs/architecture.md). Raises KeyError for a missing one."""
        return cls(
            run=variables["SWEYARD_RUN"],
            storage=Path(variables.get("SWEYARD_STORAGE", STORAGE_MOUNT_PATH)),
            on_cluster=True,
            run_uid=variables["SWEYARD_RUN_UID"],
            namespace=variables["SWEYARD_NAMESPACE"],
            pool=variables["SWEYARD_POOL"],
            pod_name=variables["SWEYARD_POD_NAME"],
            attempt=int(variables["SWEYARD_ATTEMPT"]),
            engine_urls=tuple(url for url in variables.get("SWEYARD_ENGINE_URLS", "").split(",") if url),
            engine_api_key=variables.get("SWEYARD_ENGINE_API_KEY"),
            hub_token=variables.get("HF_TOKEN"),
            gateway_url=variables.get("SWEYARD_GATEWAY_URL", ""),
            gateway_admin_url=variables.get("SWEYARD_GATEWAY_ADMIN_URL", ""),
            head_address=variables["SWEYARD_HEAD_ADDRESS"],
            rank=int(variables.get("JOB_COMPLETION_INDEX", "0")),
        )

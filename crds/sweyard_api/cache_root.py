"""Where this machine keeps what can be made again: downloads, data sets, built programs."""

from collections.abc import Mapping
from pathlib import Path

from sweyard_api.constants import DATASET_MOUNT_PATH


def cache_root(environment: Mapping[str, str]) -> Path:
    """SWEYARD_CACHE, else sweyard under XDG_CACHE_HOME, else ~/.cache/sweyard; as `make` and the cluster tool say."""
    if explicit := environment.get("SWEYARD_CACHE"):
        return Path(explicit).absolute()
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".cache")
    return Path(base).absolute() / "sweyard"


def dataset_directories(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """Where data sets with a plain name are looked for: mounted into the pod, then in the cache."""
    return (Path(DATASET_MOUNT_PATH), cache_root(environment) / "datasets")

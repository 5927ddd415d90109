"""Where everything lies: one cache for all clusters, one directory for each cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DEFAULT_NAME = "default"


def cache_root(environment: Mapping[str, str]) -> Path:
    """SWEYARD_CACHE, else sweyard under XDG_CACHE_HOME, else ~/.cache/sweyard."""
    if explicit := environment.get("SWEYARD_CACHE"):
        return Path(explicit).absolute()
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".cache")
    return Path(base).absolute() / "sweyard"


@dataclass(frozen=True)
class Cache:
    """What outlives clusters: built binaries, Go caches, image storage."""

    root: Path

    @property
    def binaries(self) -> Path:
        return self.root / "bin"

    @property
    def go_build(self) -> Path:
        return self.root / "go-build"

    @property
    def go_modules(self) -> Path:
        return self.root / "go-mod"

    @property
    def go_path(self) -> Path:
        """Go's other files, such as those of its checksum database."""
        return self.root / "go"

    @property
    def go_config(self) -> Path:
        """Where Go counts its own use."""
        return self.root / "go-config"

    @property
    def kubectl(self) -> Path:
        """What kubectl and helm learn of API servers."""
        return self.root / "kubectl"

    @property
    def image_storage(self) -> Path:
        return self.root / "buildah"

    @property
    def clusters(self) -> Path:
        return self.root / "clusters"

    def cluster(self, name: str) -> "ClusterPaths":
        return ClusterPaths(name, self.clusters / name)


@dataclass(frozen=True)
class ClusterPaths:
    """The state of one cluster; `down` removes `root`."""

    name: str
    root: Path

    @property
    def spec(self) -> Path:
        return self.root / "cluster.json"

    @property
    def lock(self) -> Path:
        return self.root.with_name(f".{self.name}.lock")

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def processes(self) -> Path:
        return self.root / "processes"

    @property
    def etcd(self) -> Path:
        return self.root / "etcd"

    @property
    def registry(self) -> Path:
        return self.root / "registry"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def users(self) -> Path:
        return self.root / "users"

    @property
    def host_changes(self) -> Path:
        return self.root / "host-changes.json"

    def node(self, node: str) -> Path:
        return self.root / "nodes" / node

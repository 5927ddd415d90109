"""From nothing to a cluster and back: `up` brings about what is missing, `down` removes everything."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from .api import Kubectl
from .binaries import Binaries
from .control_plane import ControlPlane
from .errors import ClusterError
from .locking import exclusive
from .paths import Cache, ClusterPaths
from .processes import ProcessTable
from .slots import take_slot
from .spec import ClusterSpec, check_request, grown, read_spec, write_spec
from .terminal import Progress


@dataclass(frozen=True)
class Tool:
    """What every command works with: the cache, the environment that children get, the terminal."""

    cache: Cache
    environment: Mapping[str, str]
    progress: Progress

    @property
    def binaries(self) -> Binaries:
        return Binaries(self.cache, self.environment)

    def processes(self, paths: ClusterPaths) -> ProcessTable:
        return ProcessTable(paths.processes, paths.logs, str(paths.root))

    def control_plane(self, spec: ClusterSpec) -> ControlPlane:
        paths = self.cache.cluster(spec.name)
        return ControlPlane(spec, paths, self.binaries, self.processes(paths))

    def kubectl(self, name: str) -> Kubectl:
        return Kubectl(self.binaries.path("kubectl"), self.cache.cluster(name).kubeconfig, self.environment)

    def spec(self, name: str) -> ClusterSpec:
        """The spec of an existing cluster; raises ClusterError if there is none."""
        if spec := read_spec(self.cache.cluster(name).spec):
            return spec
        up = f"python -m sweyard_cluster up --name {name}"
        raise ClusterError(f"there is no cluster {name!r}; make it with: {up}")


def up(tool: Tool, name: str, nodes: int, fake_nodes: int = 0, audit: bool = False) -> ClusterSpec:
    """Bring the cluster to what is asked for, from whatever state it is in; 0 nodes is a control plane only."""
    check_request(name, nodes, fake_nodes)
    paths = tool.cache.cluster(name)
    groups = ["control-plane", *(["node"] if nodes else []), *(["fake-nodes"] if fake_nodes else [])]
    tool.binaries.ensure(groups, tool.progress)
    with exclusive(paths.lock):
        existing = read_spec(paths.spec)
        spec = grown(existing, nodes, fake_nodes, audit) if existing else take_slot(
            tool.cache, name, nodes, fake_nodes, audit
        )  # fmt: skip
        write_spec(paths.spec, spec)
        tool.processes(paths).stop_strays()
        with tool.progress.step("control plane"):
            tool.control_plane(spec).start()
    return spec


def down(tool: Tool, name: str) -> bool:
    """Remove the cluster and all it made; False if there was none."""
    paths = tool.cache.cluster(name)
    with exclusive(paths.lock):
        existed = paths.root.exists()
        if spec := read_spec(paths.spec):
            with tool.progress.step("control plane stopped"):
                tool.control_plane(spec).stop()
        tool.processes(paths).stop_strays()
        if existed:
            shutil.rmtree(paths.root)
    paths.lock.unlink(missing_ok=True)
    return existed

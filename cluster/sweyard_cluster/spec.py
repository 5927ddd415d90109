"""What a cluster is: decided once by `up`, kept in its directory, read by every other command."""

import dataclasses
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

from .addresses import API_PORT, MAX_NODES, Addresses
from .errors import ClusterError

NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class ClusterRequest:
    """`nodes` real nodes (0: control plane only) and `fake_nodes` simulated ones."""

    nodes: int = 0
    fake_nodes: int = 0
    audit: bool = False
    gangs: bool = False
    """With PodGroups, alpha in Kubernetes 1.36, and a scheduler that heeds them."""
    kueue: bool = False
    """With Kueue's queues."""


@dataclass(frozen=True, kw_only=True)
class ClusterSpec(ClusterRequest):
    """What was asked for, in an address slot."""

    name: str
    slot: int

    @property
    def addresses(self) -> Addresses:
        return Addresses(self.slot)

    @property
    def control_plane_only(self) -> bool:
        return self.nodes == 0

    @property
    def api_host(self) -> str:
        return "127.0.0.1" if self.control_plane_only else self.addresses.host

    @property
    def api_port(self) -> int:
        return self.addresses.local_api_port if self.control_plane_only else API_PORT

    @property
    def api_url(self) -> str:
        return f"https://{self.api_host}:{self.api_port}"

    @property
    def node_names(self) -> tuple[str, ...]:
        return tuple(node_name(index) for index in range(1, self.nodes + 1))


def node_name(index: int) -> str:
    return f"node{index}"


def check_request(name: str, wanted: ClusterRequest) -> None:
    """Refuse what no cluster can be, naming the option and the remedy."""
    if not NAME.fullmatch(name):
        raise ClusterError(f"--name {name!r} must be 1 to 40 of a-z, 0-9 and '-', not starting or ending with '-'")
    if not 0 <= wanted.nodes <= MAX_NODES:
        raise ClusterError(f"--nodes {wanted.nodes} must be between 1 and {MAX_NODES}")
    if wanted.fake_nodes < 0:
        raise ClusterError(f"--fake-nodes {wanted.fake_nodes} must not be negative")


def grown(existing: ClusterSpec, wanted: ClusterRequest) -> ClusterSpec:
    """The existing cluster with what is now asked for; raises ClusterError where it would have to shrink."""
    down = f"python -m sweyard_cluster down --name {existing.name}"
    if (wanted.nodes == 0) != existing.control_plane_only:
        kind = "only a control plane" if existing.control_plane_only else "a cluster with nodes"
        raise ClusterError(f"cluster {existing.name!r} exists as {kind}; take another --name or run: {down}")
    if wanted.nodes < existing.nodes or wanted.fake_nodes < existing.fake_nodes:
        raise ClusterError(f"cluster {existing.name!r} has more nodes than asked for; to shrink it, first run: {down}")
    if wanted.gangs and not existing.gangs:
        raise ClusterError(f"cluster {existing.name!r} runs without --gangs; take another --name or run: {down}")
    return dataclasses.replace(
        existing,
        nodes=wanted.nodes,
        fake_nodes=wanted.fake_nodes,
        audit=existing.audit or wanted.audit,
        kueue=existing.kueue or wanted.kueue,
    )


def write_spec(path: Path, spec: ClusterSpec) -> None:
    """Write atomically, so that a killed `up` leaves the old or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(dataclasses.asdict(spec), indent=2) + "\n")
    os.replace(temporary, path)


def read_spec(path: Path) -> ClusterSpec | None:
    """The stored spec, or None where no cluster was begun.

    Checkouts of several versions share a cache: what a newer one wrote and this one does not know is left aside.
    """
    try:
        stored = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    known = {each.name for each in dataclasses.fields(ClusterSpec)}
    return ClusterSpec(**{name: value for name, value in stored.items() if name in known})

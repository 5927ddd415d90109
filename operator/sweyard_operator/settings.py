"""What the operator process is told by its environment, read once by the entry point."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from sweyard_api.constants import METRICS_PORT
from sweyard_operator.errors import OperatorError

RUNTIME_SOCKET = "/run/containerd/containerd.sock"


class SettingsError(OperatorError, ValueError):
    """An environment variable is wrong; the message names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The operator's own configuration."""

    namespaces: tuple[str, ...] = ()
    """SWEYARD_WATCH_NAMESPACES, comma separated; empty: the whole cluster."""
    trainer_image: str = ""
    """SWEYARD_TRAINER_IMAGE: trainer, engine and gateway pods."""
    cache_agent_image: str = ""
    """SWEYARD_CACHE_AGENT_IMAGE."""
    runtime_socket: str = RUNTIME_SOCKET
    """SWEYARD_RUNTIME_SOCKET: of the nodes' container runtime (CRI); agents mount its directory."""
    development: str = ""
    """SWEYARD_DEVELOPMENT: JSON; host paths to mount into trainer pods instead of a full image."""
    namespace: str | None = None
    """POD_NAMESPACE: where the leader Lease lives; default the namespace of the credentials."""
    identity: str = ""
    """POD_NAME, else host name and process id: who holds the leader Lease."""
    kubeconfig: Path | None = None
    """KUBECONFIG; unset in a pod."""
    http_host: str = "0.0.0.0"
    http_port: int = METRICS_PORT
    """SWEYARD_HTTP_PORT: /metrics, /healthz, /readyz. 0 takes a free one."""
    resync_seconds: float = 60.0
    """Every object is looked at this often even if no event came."""
    num_workers: int = 8
    """Objects worked on at once."""
    max_starting_per_node: int = 32
    """SWEYARD_MAX_STARTING_PER_NODE: sandboxes of a pool that may be starting at once, for each node they reached."""
    leader_lease_seconds: int = 15
    """SWEYARD_LEADER_LEASE_SECONDS: after a crash another process takes over no sooner than this."""


def read_settings(environ: Mapping[str, str], *, hostname: str, pid: int) -> Settings:
    """From the environment. Raises SettingsError."""
    kubeconfig = environ.get("KUBECONFIG")
    namespaces = environ.get("SWEYARD_WATCH_NAMESPACES", "").split(",")
    return Settings(
        namespaces=tuple(sorted({name.strip() for name in namespaces if name.strip()})),
        trainer_image=environ.get("SWEYARD_TRAINER_IMAGE", ""),
        cache_agent_image=environ.get("SWEYARD_CACHE_AGENT_IMAGE", ""),
        runtime_socket=_socket(environ, "SWEYARD_RUNTIME_SOCKET", RUNTIME_SOCKET),
        development=environ.get("SWEYARD_DEVELOPMENT", ""),
        namespace=environ.get("POD_NAMESPACE") or None,
        identity=environ.get("POD_NAME") or f"{hostname}-{pid}",
        kubeconfig=Path(kubeconfig) if kubeconfig else None,
        http_port=_number(environ, "SWEYARD_HTTP_PORT", METRICS_PORT),
        max_starting_per_node=_number(environ, "SWEYARD_MAX_STARTING_PER_NODE", 32),
        leader_lease_seconds=_number(environ, "SWEYARD_LEADER_LEASE_SECONDS", 15),
    )


def _socket(environ: Mapping[str, str], name: str, default: str) -> str:
    path = PurePosixPath(environ.get(name, "") or default)
    # Its directory is mounted into agents: never the whole disk.
    if not path.is_absolute() or len(path.parts) < 3 or ".." in path.parts:
        raise SettingsError(
            f"{name} is {str(path)!r}; set it to the socket's path on the nodes, such as {default}, or leave it out"
        )
    return str(path)


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "")
    if not text:
        return default
    if not text.isdigit():
        raise SettingsError(f"{name} is {text!r}; set it to a whole number or leave it out")
    return int(text)

"""What nodes need of the machine: root, and programs of the distribution, installed when missing."""

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping

from .errors import ClusterError
from .terminal import Progress

CNI_PLUGINS = "/usr/lib/cni"

NODE_PACKAGES: Mapping[str, str] = {
    "runc": "runc",
    f"{CNI_PLUGINS}/ptp": "containernetworking-plugins",
    "iptables": "iptables",
    "ipset": "ipset",
    "nft": "nftables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "nsenter": "util-linux",
    "docker-registry": "docker-registry",
    "skopeo": "skopeo",
    "openssl": "openssl",
}
"""Program (or file) to the Debian package that brings it."""


def missing_packages(packages: Mapping[str, str]) -> list[str]:
    """The packages whose program is not on this machine."""
    return sorted({package for program, package in packages.items() if not shutil.which(program)})


def require_root(what: str) -> None:
    if os.geteuid() != 0:
        raise ClusterError(f"{what} needs root; run it with sudo, or use --control-plane-only for tests of the API")


def ensure_packages(packages: Mapping[str, str], progress: Progress) -> None:
    """Install what is missing with apt; raises ClusterError naming it where that cannot be done."""
    missing = missing_packages(packages)
    if not missing:
        return
    names = " ".join(missing)
    if shutil.which("apt-get") is None:
        raise ClusterError(f"these programs are missing; install their packages (Debian's names): {names}")
    if os.geteuid() != 0:
        raise ClusterError(f"packages are missing; run: sudo apt-get install {names}")
    with progress.step(f"installing {names}"):
        install(missing)


def install(packages: Iterable[str]) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-qy", "--no-install-recommends", *packages]):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-1500:]}")

"""What must be on this machine before anything long begins, told in one message."""

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping

from .errors import ClusterError
from .host import ensure_packages, missing_packages
from .terminal import Progress

OLDEST_GO = (1, 21)
"""From here on, Go fetches the version that a module names."""
GO_TO_INSTALL = "1.26.8"
ARCHITECTURES: Mapping[str, str] = {"x86_64": "amd64", "aarch64": "arm64"}


def ensure(packages: Mapping[str, str], progress: Progress, *, go: Mapping[str, str] | None) -> None:
    """Install missing packages with apt; `go` is the environment of a build, None without one.

    Raises ClusterError naming all that is missing where that cannot be done, or is not all.
    """
    packaged = missing_packages(packages)
    installable = shutil.which("apt-get") is not None and os.geteuid() == 0
    lacks_go = go is not None and not go_suffices(go_version(go))
    if lacks_go or (packaged and not installable):
        raise ClusterError(missing_sentence(packaged, go=lacks_go))
    ensure_packages(packages, progress)


def missing_sentence(packages: list[str], *, go: bool) -> str:
    """Everything that is missing, each with the command that installs it."""
    lines = []
    if packages:
        lines.append(f"packages, by Debian's names: sudo apt-get install -y {' '.join(packages)}")
    if go:
        architecture = ARCHITECTURES.get(platform.machine(), "amd64")
        archive = f"https://go.dev/dl/go{GO_TO_INSTALL}.linux-{architecture}.tar.gz"
        oldest = ".".join(map(str, OLDEST_GO))
        lines.append(
            f"Go {oldest} or later, which builds the cluster's programs once: curl -fsSL {archive} | "
            "sudo tar -C /usr/local -xz && export PATH=$PATH:/usr/local/go/bin"
        )
    return "this machine lacks what a cluster needs; install it and repeat:\n" + "\n".join(
        f"  {line}" for line in lines
    )


def go_version(environment: Mapping[str, str]) -> str:
    """What `go version` says; empty without Go."""
    if shutil.which("go") is None:
        return ""
    told = subprocess.run(["go", "version"], env=dict(environment), capture_output=True, text=True, check=False)
    return told.stdout


def go_suffices(told: str) -> bool:
    """Whether `go version` names one that can build or fetch one that can."""
    found = re.search(r"go(\d+)\.(\d+)", told)
    return found is not None and (int(found[1]), int(found[2])) >= OLDEST_GO

"""A Python environment for a peer: its own pinned package over the very libraries that this project runs on.

What the host has installed is linked in, all but what is named; so both run the same PyTorch, and nothing of the peer
reaches the host.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from sweyard_cluster.paths import cache_root


def peer_python(name: str, version: str, hidden: tuple[str, ...] = ()) -> Path:
    """The interpreter of an environment with `name` == `version`, made once, by the uv on PATH or that of `make`.

    `hidden` begin the names of the host's packages that the peer is not to see.
    """
    cache = cache_root(os.environ)
    peers, uv = cache / "peers", shutil.which("uv") or str(cache / "uv" / "bin" / "uv")
    directory = peers / f"{name}-{version}"
    python = directory / "bin" / "python"
    peers.mkdir(parents=True, exist_ok=True)
    with (peers / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "COMPLETE").exists():
            shutil.rmtree(directory, ignore_errors=True)
            _run(uv, "venv", "--quiet", "--python", sys.executable, str(directory))
            _link_packages(directory, hidden)
            _run(uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps", f"{name}=={version}")
            (directory / "COMPLETE").touch()
    return python


def _link_packages(directory: Path, hidden: tuple[str, ...]) -> None:
    host = Path(sysconfig.get_path("purelib"))
    [target] = directory.glob("lib/python*/site-packages")
    for entry in host.iterdir():
        left_out = entry.suffix == ".pth" or entry.name.startswith(("sweyard", *hidden))
        if not left_out and not (target / entry.name).exists():
            (target / entry.name).symlink_to(entry)


def _run(*command: str) -> None:
    if shutil.which(command[0]) is None:
        raise SystemExit("uv is not installed, and the peer's environment is made with it: run `make venv` first")
    subprocess.run(command, check=True)

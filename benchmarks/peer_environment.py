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

PEERS = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "sweyard" / "peers"


def peer_python(name: str, version: str, hidden: tuple[str, ...] = ()) -> Path:
    """The interpreter of an environment with `name` == `version`, made the first time. Needs uv then.

    `hidden` begin the names of the host's packages that the peer is not to see.
    """
    directory = PEERS / f"{name}-{version}"
    python = directory / "bin" / "python"
    PEERS.mkdir(parents=True, exist_ok=True)
    with (PEERS / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (directory / "COMPLETE").exists():
            shutil.rmtree(directory, ignore_errors=True)
            _run("uv", "venv", "--quiet", "--python", sys.executable, str(directory))
            _link_packages(directory, hidden)
            _run("uv", "pip", "install", "--quiet", "--python", str(python), "--no-deps", f"{name}=={version}")
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
        raise SystemExit(f"{command[0]} is not installed, and the peer's environment is made with it")
    subprocess.run(command, check=True)

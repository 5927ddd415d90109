"""A registry that is nobody's cluster's, by Debian's package."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from sweyard_cluster.host import ensure_packages
from sweyard_cluster.registry import registry_config
from sweyard_cluster.scratch_image import request


def free_address() -> str:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{listening.getsockname()[1]}"


@contextlib.contextmanager
def serving(directory: Path) -> Iterator[str]:
    """The address of a registry of its own, over plain HTTP."""
    ensure_packages({"docker-registry": "docker-registry"}, print)
    directory.mkdir()
    address, config = free_address(), directory / "registry.yaml"
    config.write_text(registry_config(address, str(directory / "data")))
    with (directory / "log").open("w") as log:
        process = subprocess.Popen(["docker-registry", "serve", str(config)], stdout=log, stderr=log)
    try:
        while True:
            with contextlib.suppress(OSError):
                if request(address, "GET", "/v2/")[0] == 200:
                    break
            assert process.poll() is None, (directory / "log").read_text()
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait()

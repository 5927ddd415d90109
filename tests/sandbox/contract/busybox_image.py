"""An image of busybox alone: neither bash nor coreutils, as the smallest images are."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.sandbox.contract.host_image import GROUP, PASSWD, find_libraries

from sweyard_cluster.host import ensure_packages
from sweyard_cluster.scratch_image import push, scratch_image
from sweyard_cluster.terminal import Progress


def push_busybox_image(registry: str) -> str:
    """Push and return the image's name; brings busybox to this machine if need be."""
    ensure_packages({"busybox": "busybox-static"}, Progress())
    program = Path(shutil.which("busybox") or "busybox").resolve()
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"/bin/{name}": "busybox" for name in listed if name != "busybox"}
    with tempfile.TemporaryDirectory() as directory:
        texts = {"/etc/passwd": PASSWD, "/etc/group": GROUP, "/testbed/a.txt": "hello\n", "/tmp/.keep": ""}
        files = {"/bin/busybox": program, **dict(find_libraries(program))}
        for number, (inside, text) in enumerate(texts.items()):
            files[inside] = Path(directory) / str(number)
            files[inside].write_text(text)
        push(scratch_image(files, ["/bin/sh"], links=links), registry, "sandbox-busybox", "1")
    return f"{registry}/sandbox-busybox:1"

"""An image of this machine's shell, tools, git and python, made without any registry and any image tool."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sweyard_cluster.scratch_image import Image, push, scratch_image

_TOOLS = """
cat chmod cut date dd dirname echo env false git grep head id kill ls mkdir mkfifo mktemp mv nohup ps pwd rm sed seq
setpriv setsid sh sleep sort stat tail tee touch tr true wc yes
"""
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
GROUP = "root:x:0:\nnogroup:x:65534:\n"


def push_host_image(registry: str) -> str:
    """Push and return the image's name."""
    push(host_image(), registry, "sandbox-contract", "3")
    return f"{registry}/sandbox-contract:3"


def import_host_image() -> str:
    """Bring it into the Docker engine and return its name."""
    name = "sweyard-sandbox-contract:3"
    command = ["docker", "import", "--change", "WORKDIR /testbed", "-", name]
    subprocess.run(command, input=host_image().layer.content, check=True, capture_output=True)
    return name


def host_image() -> Image:
    """Of the tools that the contract's commands call."""
    with tempfile.TemporaryDirectory() as directory:
        texts = {"/etc/passwd": PASSWD, "/etc/group": GROUP, "/testbed/a.txt": "hello\n", "/tmp/.keep": ""}
        # With the cache of libraries, as real images have it; without, every program start searches for its own.
        files = {"/etc/ld.so.cache": Path("/etc/ld.so.cache"), **dict(collect_files())}
        for number, (inside, text) in enumerate(texts.items()):
            path = Path(directory) / str(number)
            path.write_text(text)
            files[inside] = path
        return scratch_image(files, ["/bin/sh"])


def collect_files() -> Iterator[tuple[str, Path]]:
    """Path inside to file here: the tools, the libraries they load, and python's own modules."""
    programs = [Path(f"/bin/{tool}") for tool in _TOOLS.split()]
    programs += [Path("/usr/bin/python3"), Path("/usr/lib/git-core/git-remote-https")]
    for program in programs:
        yield str(program), program.resolve()
        yield from find_libraries(program)
    standard_library = Path("/usr/lib/python3.11")
    for path in standard_library.rglob("*"):
        if path.is_file() and not {"test", "__pycache__", "dist-packages", "lib2to3"} & set(path.parts):
            yield str(path), path


def find_libraries(program: Path) -> Iterator[tuple[str, Path]]:
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    for name in re.findall(r"(/\S+\.so\S*)", listing):
        yield name, Path(name).resolve()

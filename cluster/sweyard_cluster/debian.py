"""A Debian base image from the distribution's own packages, for machines that reach no image registry."""

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from .errors import ClusterError
from .foreground import running
from .host import ensure_packages
from .terminal import Progress

SUITE = "bookworm"
SOURCES = Path("/etc/apt")


def mirror_of(sources: str) -> str | None:
    """The first address in apt's sources, in either format, that serves Debian itself."""
    one_line = r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S"
    deb822 = r"^URIs:\s*(\S+)"
    found = re.findall(f"{one_line}|{deb822}", sources, re.MULTILINE)
    addresses = [first or second for first, second in found]
    return next((address for address in addresses if address.rstrip("/").endswith("/debian")), None)


def host_mirror(directory: Path = SOURCES) -> str:
    """The mirror that this machine uses. Raises ClusterError where apt names none."""
    files = [directory / "sources.list", *sorted(directory.glob("sources.list.d/*.sources")),
             *sorted(directory.glob("sources.list.d/*.list"))]  # fmt: skip
    texts = [file.read_text() for file in files if file.is_file()]
    mirror = mirror_of("\n".join(texts))
    if mirror is None:
        raise ClusterError(f"no Debian mirror is named in {directory}; add one there")
    return mirror


def make_root_archive(archive: Path, progress: Progress) -> None:
    """Write a tar of a minimal Debian to `archive`, once; the mirror's address is not in it."""
    if archive.exists():
        return
    ensure_packages({"debootstrap": "debootstrap"}, progress)
    root = archive.with_suffix(".root")
    shutil.rmtree(root, ignore_errors=True)
    root.parent.mkdir(parents=True, exist_ok=True)
    with progress.step("Debian base system by debootstrap (1 to 2 min, once)"):
        debootstrap(root, progress)
        (root / "etc/apt/sources.list").unlink(missing_ok=True)
        for pattern in ("var/cache/apt/archives/*.deb", "var/lib/apt/lists/*_*", "var/log/*.log"):
            for file in root.glob(pattern):
                file.unlink()
        unfinished = archive.with_suffix(".new")
        with tarfile.open(unfinished, "w") as tar:
            tar.add(root, arcname=".", filter=without_devices)
        unfinished.rename(archive)
        shutil.rmtree(root)


def without_devices(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if entry.isdev() else entry


def debootstrap(root: Path, progress: Progress) -> None:
    command = ["debootstrap", "--variant=minbase", SUITE, str(root), host_mirror()]
    lines: list[str] = []
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            progress.note(line.strip())
    if process.returncode:
        raise ClusterError("debootstrap failed:\n" + "\n".join(lines[-10:]))

"""Building and keeping images with what the machine has: docker where its engine can get the base, else buildah."""

import configparser
import io
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .errors import ClusterError
from .foreground import running
from .host import ensure_packages, require_root
from .locking import exclusive
from .mounts import unmount_below
from .paths import Cache
from .terminal import Progress

APT_SETTINGS = ("/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/apt.conf.d")
HOST_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CERTIFICATES_IN_BUILD = "/run/host-certificates.crt"
PIP_SETTINGS = Path("/etc/pip.conf")
NPM_SETTINGS = "~root/.npmrc"
"""Of whom images are built by, here and in a build."""


PUBLIC_BASE = "debian:bookworm-slim"
"""What images/base/Dockerfile starts from where it can be pulled."""
BUILD_PACKAGES: Mapping[str, str] = {"buildah": "buildah", "debootstrap": "debootstrap"}
"""What builds images where Docker cannot."""


@dataclass(frozen=True)
class Build:
    """One image to build: `tag` from `dockerfile` with `context` as its root."""

    tag: str
    dockerfile: Path
    context: Path
    arguments: Mapping[str, str]
    target: str | None = None

    def options(self) -> list[str]:
        arguments = [part for name, value in self.arguments.items() for part in ("--build-arg", f"{name}={value}")]
        target = ["--target", self.target] if self.target else []
        return [*arguments, *target, "--tag", self.tag, "--file", str(self.dockerfile)]


class Builder(Protocol):
    """A tool that builds and stores images."""

    def build(self, build: Build, progress: Progress) -> None: ...

    def size_bytes(self, tag: str) -> int | None:
        """Size of a stored image, or None if there is none."""
        ...

    def source(self, tag: str) -> str:
        """The image in skopeo's notation."""
        ...

    @property
    def has_registry(self) -> bool:
        """Whether public base images can be pulled."""
        ...


def run_logged(command: Sequence[str], progress: Progress, environment: Mapping[str, str] | None = None) -> None:
    """Run with the last output line beside the running step; raises ClusterError with the end of it on failure."""
    lines: list[str] = []
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            progress.note(line.strip())
    if process.returncode:
        raise ClusterError(f"{' '.join(command[:3])} ... failed:\n" + "\n".join(lines[-20:]))


def host_settings(scratch: Path) -> list[str]:
    """Options that lend a build this machine's mirrors and certificates, read-only and in no layer of the image."""
    mounts = [(path, path) for path in APT_SETTINGS if Path(path).exists()]
    if HOST_CERTIFICATES.exists():
        mounts.append((str(HOST_CERTIFICATES), CERTIFICATES_IN_BUILD))
    (scratch / "pip.conf").write_text(pip_settings(PIP_SETTINGS.read_text() if PIP_SETTINGS.exists() else ""))
    mounts.append((f"{scratch}/pip.conf", str(PIP_SETTINGS)))
    npm = Path(NPM_SETTINGS).expanduser()
    (scratch / "npmrc").touch(mode=0o600)
    (scratch / "npmrc").write_text(npm_settings(npm.read_text() if npm.exists() else ""))
    mounts.append((f"{scratch}/npmrc", str(npm)))
    return [part for source, place in mounts for part in ("--volume", f"{source}:{place}:ro")]


def pip_settings(host: str) -> str:
    """The machine's pip.conf, trusting the certificates that a build is lent instead of the image's own."""
    config = configparser.RawConfigParser()
    config.read_string(host)
    if not config.has_section("global"):
        config.add_section("global")
    config.set("global", "cert", CERTIFICATES_IN_BUILD)
    text = io.StringIO()
    config.write(text)
    return text.getvalue()


def npm_settings(host: str) -> str:
    """The machine's .npmrc, trusting the same certificates; of two values npm takes the last."""
    return f"{host.rstrip()}\ncafile={CERTIFICATES_IN_BUILD}\n".lstrip()


@dataclass(frozen=True)
class Docker:
    @property
    def has_registry(self) -> bool:
        return True

    def build(self, build: Build, progress: Progress) -> None:
        run_logged(["docker", "build", *build.options(), str(build.context)], progress)

    def size_bytes(self, tag: str) -> int | None:
        told = subprocess.run(
            ["docker", "image", "inspect", "--format", "{{.Size}}", tag], capture_output=True, text=True, check=False
        )
        return int(told.stdout) if told.returncode == 0 else None

    def source(self, tag: str) -> str:
        return f"docker-daemon:{tag}"


@dataclass(frozen=True)
class Buildah:
    """buildah as root without containers of its own (chroot), its storage in our cache."""

    storage: Path
    driver: str

    @property
    def has_registry(self) -> bool:
        return False

    def command(self, *arguments: str) -> list[str]:
        return ["buildah", "--root", f"{self.storage}/root", "--runroot", f"{self.storage}/run",
                "--storage-driver", self.driver, *arguments]  # fmt: skip

    def build(self, build: Build, progress: Progress) -> None:
        temporary = self.storage / "tmp"
        temporary.mkdir(parents=True, exist_ok=True)
        fixed = ["--isolation", "chroot", "--network", "host", "--layers", "--pull-never", "--force-rm"]
        settings = host_settings(temporary)
        command = self.command("build", *fixed, *settings, *build.options(), str(build.context))
        with exclusive(build_lock(self.storage), lambda: progress.await_turn("another build of images")):
            self._tidy("rm", "--all")
            # Scratch space must be where the file system is large.
            run_logged(command, progress, {**os.environ, "TMPDIR": str(temporary)})
            self._tidy("rmi", "--prune")

    def _tidy(self, *arguments: str) -> None:
        """Remove working containers of a killed build, or layers that no image needs any more."""
        done = subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"buildah {' '.join(arguments)}: {done.stderr.strip()[-300:]}")

    def size_bytes(self, tag: str) -> int | None:
        told = subprocess.run(self.command("images", "--json", tag), capture_output=True, text=True, check=False)
        if told.returncode:
            return None
        return parse_size(json.loads(told.stdout)[0]["size"])

    def source(self, tag: str) -> str:
        return f"containers-storage:[{self.driver}@{self.storage}/root+{self.storage}/run]{tag}"


def build_lock(storage: Path) -> Path:
    return storage / ".build.lock"


def unmount_storage(storage: Path) -> None:
    """Take away what image tools left mounted, after any build that runs; they mount again what they need."""
    if storage.exists():
        with exclusive(build_lock(storage)):
            unmount_below(storage)


def parse_size(text: str) -> int:
    """Bytes of a size such as '134 MB'."""
    number, unit = text.split()
    return int(float(number) * {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}[unit.upper()])


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "version"], capture_output=True, check=False).returncode == 0


def docker_can_build() -> bool:
    """Whether an engine answers that has the public base image, or gets it now."""
    return docker_answers() and any(
        subprocess.run(["docker", *command, PUBLIC_BASE], capture_output=True, check=False).returncode == 0
        for command in (("image", "inspect"), ("pull", "--quiet"))
    )


def choose_builder(cache: Cache, progress: Progress) -> Builder:
    """docker if its engine can, else buildah; raises ClusterError where neither can work."""
    if docker_can_build():
        return Docker()
    if docker_answers():
        progress.say(f"The Docker engine cannot pull {PUBLIC_BASE}: images are built by buildah, on a Debian made here")
    require_root("building images without a Docker engine that can pull their base")
    ensure_packages({"buildah": "buildah"}, progress)
    accept_local_images(Path("/etc/containers/policy.json"), cache.image_storage)
    return Buildah(cache.image_storage, storage_driver(cache.image_storage))


def accept_local_images(policy: Path, storage: Path) -> None:
    """buildah and skopeo refuse to work without a policy; Debian's package brings one, other systems may not."""
    storage.mkdir(parents=True, exist_ok=True)
    if not policy.exists():
        raise ClusterError(f"{policy} is missing; it comes with the package golang-github-containers-common")


def storage_driver(storage: Path) -> str:
    """overlay where the kernel can mount one on this file system, else vfs (which copies every layer)."""
    storage.mkdir(parents=True, exist_ok=True)
    # Of its own: several builds may begin at once.
    with tempfile.TemporaryDirectory(prefix="probe-", dir=storage) as probe:
        lower, upper, work, merged = [Path(probe, name) for name in ("lower", "upper", "work", "merged")]
        for place in (lower, upper, work, merged):
            place.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
        if mounted:
            subprocess.run(["umount", str(merged)], check=True)
    return "overlay" if mounted else "vfs"

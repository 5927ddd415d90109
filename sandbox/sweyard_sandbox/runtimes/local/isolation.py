"""Turns a freshly forked process into the first process of a sandbox: its own root, processes, network and users.

Invariants:
- the host's files are seen only where listed, and read-only; the task's tree is an overlay, so it is never changed;
- all that is written goes to memory of bounded size and is gone with the sandbox;
- the mounts belong to an outer user namespace than the commands', so commands cannot undo them.
"""

import fcntl
import os
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from sweyard_sandbox.runtimes.local import kernel

NAMESPACES = kernel.CLONE_NEWNS | kernel.CLONE_NEWPID | kernel.CLONE_NEWNET | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS
_ETC = (
    *("alternatives", "ca-certificates", "group", "host.conf", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"),
    *("localtime", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki", "protocols", "services", "ssl"),
    "timezone",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_LEAST_PID_MAX = 512
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


@dataclass(frozen=True, slots=True)
class Layout:
    """What a sandbox sees."""

    staging: str
    """An empty directory of the host to build the root on."""
    image: str
    """The task's tree."""
    working_directory: str
    """Where it appears."""
    read_only_paths: tuple[str, ...]
    """Host paths that appear in their own place."""
    memory_bytes: int
    """Bound on all that is written."""
    max_processes: int
    """More are killed; where the kernel can, twice as many cannot even be."""


def build_root(layout: Layout, *, privileged: bool) -> None:
    """Build the sandbox's root in the caller's own mount namespace and move into it."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    root = layout.staging
    kernel.mount("tmpfs", root, "tmpfs", kernel.MS_NOSUID, f"size={layout.memory_bytes},mode=755")
    for path in layout.read_only_paths:
        _show(root, path)
    for name in _ETC:
        _show(root, f"/etc/{name}")
    for path, mode in (("tmp", 0o1777), ("var/tmp", 0o1777), ("run", 0o755), ("root", 0o700), ("home", 0o755)):
        os.makedirs(f"{root}/{path}", exist_ok=True)
        os.chmod(f"{root}/{path}", mode)
    _show_task(layout, privileged=privileged)
    _make_devices(root)
    _make_proc(root, layout.max_processes)
    kernel.pivot_root(root)
    socket.sethostname("sandbox")
    _loopback_up()


def _show(root: str, path: str) -> None:
    """Let `path` of the host be seen under `root`, read-only; a missing one is left out, a symbolic link copied."""
    target = root + path
    if os.path.lexists(target) or not os.path.lexists(path):
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if os.path.islink(path):
        os.symlink(os.readlink(path), target)
        return
    _bind(path, target, kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV)


def _bind(source: str, target: str, flags: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        Path(target).touch()
    kernel.mount(source, target, None, kernel.MS_BIND)
    if flags:
        # Flags that the source's mount has may be locked, so a remount must repeat them.
        locked = os.statvfs(target).f_flag & (kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        kernel.mount("none", target, None, kernel.MS_BIND | kernel.MS_REMOUNT | flags | locked)


def _show_task(layout: Layout, *, privileged: bool) -> None:
    """An overlay over the task's tree, or a copy where the kernel refuses one."""
    target, layers = layout.staging + layout.working_directory, f"{layout.staging}/.layers"
    for path in (target, f"{layers}/upper", f"{layers}/work"):
        os.makedirs(path)
    # A mount of its own, so that it can be taken out of the sandbox's sight.
    kernel.mount("tmpfs", layers, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"size={layout.memory_bytes}")
    for path in ("upper", "work"):
        os.mkdir(f"{layers}/{path}")
    lower = layout.image.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")
    options = f"lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work"
    try:
        kernel.mount("overlay", target, "overlay", 0, options + (",redirect_dir=on" if privileged else ",userxattr"))
    except OSError:
        subprocess.run(["cp", "-a", f"{layout.image}/.", target], check=True, capture_output=True)
    kernel.detach(layers)
    for path in (f"{layers}/upper", f"{layers}/work", layers):
        os.rmdir(path)


def _make_devices(root: str) -> None:
    device = f"{root}/dev"
    os.mkdir(device)
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{device}/{name}", 0)
    for name, target in (("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")):
        os.symlink(f"/proc/self/{target}", f"{device}/{name}")
    os.mkdir(f"{device}/shm")
    os.chmod(f"{device}/shm", 0o1777)
    os.mkdir(f"{device}/pts")
    kernel.mount("devpts", f"{device}/pts", "devpts", kernel.MS_NOSUID, "newinstance,ptmxmode=0666,mode=0620")
    os.symlink("pts/ptmx", f"{device}/ptmx")


def _make_proc(root: str, max_processes: int) -> None:
    """/proc of the new process namespace. The kernel's switches are owned by the host's root, so they are read-only."""
    proc = f"{root}/proc"
    os.mkdir(proc)
    kernel.mount("proc", proc, "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    # The network's own root may use low ports; the commands' root, one user namespace further in, would not be it.
    Path(f"{proc}/sys/net/ipv4/ip_unprivileged_port_start").write_text("0")
    if kernel.counts_processes_by_namespace():
        Path(f"{proc}/sys/kernel/pid_max").write_text(str(max(_LEAST_PID_MAX, 2 * max_processes)))
    for name in _READ_ONLY_PROC:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            kernel.mount(path, path, None, kernel.MS_BIND)
            flags = kernel.MS_RDONLY | kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
            kernel.mount("none", path, None, kernel.MS_BIND | kernel.MS_REMOUNT | flags)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(control, _SIOCGIFFLAGS, request + bytes(22)), 16)
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", flags | _IFF_UP) + bytes(22))

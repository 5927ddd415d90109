"""The few system calls that Python does not offer, by ctypes; Linux only."""

import ctypes
import os
import platform
import re
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    """mount(2). Raises OSError naming the target."""
    _check(
        _libc.mount(_encode(source), _encode(target), _encode(kind), ctypes.c_ulong(flags), _encode(options)),
        f"mount {kind or 'bind'} on {target}",
    )


def detach(target: str) -> None:
    """Take a mount out of sight; it lives while it is in use."""
    _check(_libc.umount2(_encode(target), _MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str) -> None:
    """Make `new_root`, a mount point, the root, and drop the old one."""
    os.chdir(new_root)
    _check(_libc.syscall(_SYS_PIVOT_ROOT[platform.machine()], b".", b"."), f"pivot_root {new_root}")
    detach(".")
    os.chdir("/")


def unshare(flags: int) -> None:
    """unshare(2)."""
    _check(_libc.unshare(flags), "unshare")


def fork_into(flags: int) -> int:
    """Fork into new namespaces; 0 in the child. The caller must have one thread, and the child should soon exec."""
    pid = _libc.syscall(_SYS_CLONE[platform.machine()], ctypes.c_ulong(flags | signal.SIGCHLD), 0, 0, 0, 0)
    _check(pid, "clone")
    return int(pid)


def counts_processes_by_namespace() -> bool:
    """Whether kernel.pid_max is of the process namespace; before Linux 6.14 it is of the whole machine."""
    major, minor = re.findall(r"\d+", platform.release())[:2]
    return (int(major), int(minor)) >= (6, 14)


def die_with_parent() -> None:
    """SIGKILL this process when the thread that forked it ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl PDEATHSIG")


def hide_from_others() -> None:
    """Let no process but the host's root look into this one, or trace it, until it executes a program."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl DUMPABLE")


def _encode(text: str | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

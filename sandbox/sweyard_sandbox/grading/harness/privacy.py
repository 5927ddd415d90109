"""What keeps the watching process to itself where the tests must run as its own user.

The kernel lets a process look into another of its user, unless that one is not dumpable; a capability outranks this.
"""

import ctypes

PR_SET_DUMPABLE, PR_CAPBSET_DROP = 4, 24
CAP_SYS_PTRACE = 19
CAPABILITIES_VERSION = 0x20080522


def hide_from_children() -> None:
    """Close this process to /proc and ptrace of its own user."""
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)


def forbid_inspection() -> None:
    """Give up for good, in this process and its children, what would open a process that is hidden."""
    libc = ctypes.CDLL(None)
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then the same for capabilities from 32
    libc.prctl(PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0)
    libc.capget(header, sets)
    for index in range(3):
        sets[index] &= ~(1 << CAP_SYS_PTRACE)
    libc.capset(header, sets)

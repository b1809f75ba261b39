"""Namespaces: processes, network and messages of a subject's own, where the user may have them (Linux).

With the standard library alone. Root makes them as such; others inside a user namespace of their own, in which they
are themselves. Whoever may make none goes without.
"""

import ctypes
import os

# CLONE_NEWIPC, NEWUSER, NEWPID, NEWNET of linux/sched.h.
_IPC, _USER, _PROCESSES, _NETWORK = 0x8000000, 0x10000000, 0x20000000, 0x40000000
_OWN = _IPC | _PROCESSES | _NETWORK
_KEPT_RIGHTS = (1, 2, 3)  # DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER: root reads the files of others, as it did before
_DROP_FROM_BOUNDING_SET = 24  # of prctl
_CAPABILITY_VERSION = 0x20080522
CLOSED = ["network", "ipc"]


def enter() -> bool:
    """Put what this process will start into namespaces of its own; False where it may not.

    Tried in a child first: where some security module allows half of it, nothing is done.
    """
    trial = os.fork()
    if trial == 0:
        os._exit(0 if _entered() else 1)
    return os.waitpid(trial, 0)[1] == 0 and _entered()


def _entered() -> bool:
    user, group = os.geteuid(), os.getegid()
    try:
        libc = ctypes.CDLL(None)
        if user == 0 and libc.unshare(_OWN) == 0:
            return True
        if libc.unshare(_OWN | _USER):
            return False
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
                file.write(text)
    except (OSError, AttributeError):
        return False
    return True


def drop_rights() -> None:
    """Drop root's capabilities, in a namespace or outside, except for reading files; this cannot be undone."""
    try:
        libc = ctypes.CDLL(None)
        for right in range(64):
            if right not in _KEPT_RIGHTS:
                libc.prctl(_DROP_FROM_BOUNDING_SET, right, 0, 0, 0)
        header, rights = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
        if libc.capget(header, rights) == 0:
            kept = sum(1 << right for right in _KEPT_RIGHTS)
            for field in (0, 1):  # effective and permitted; nothing is inheritable
                rights[field] &= kept
                rights[3 + field] = 0
            rights[2] = rights[5] = 0
            libc.capset(header, rights)
    except (OSError, AttributeError):
        pass

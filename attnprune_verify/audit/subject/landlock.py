"""Landlock: what a process of Linux closes to itself, and to whatever it starts, without root.

With the standard library alone. The three system calls and their flags are those of the kernel's
``Documentation/userspace-api/landlock.rst``; a kernel says by the ABI's number how many of them it has.
"""

import ctypes
import os
import stat
import struct
from collections.abc import Iterable

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION = 1  # flag of _CREATE: only tell the ABI
_EXECUTE, _WRITE, _READ_FILE, _READ_FOLDER = 1, 2, 4, 8
_TRUNCATE, _CONTROL_DEVICE = 1 << 14, 1 << 15  # of linux/landlock.h
_OF_A_FILE = _EXECUTE | _WRITE | _READ_FILE | _TRUNCATE | _CONTROL_DEVICE  # all others are of folders alone
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many there are, by ABI: REFER, TRUNCATE, IOCTL_DEV were added
_TCP_FROM, _SCOPE_FROM = 4, 6  # the ABI that has them
_BIND_AND_CONNECT = _ABSTRACT_SOCKETS_AND_SIGNALS = 3
_NO_NEW_PRIVILEGES = 38  # of prctl; the kernel wants it first

READ = _EXECUTE | _READ_FILE | _READ_FOLDER
LISTED = _READ_FOLDER
USED = _READ_FILE | _WRITE | _CONTROL_DEVICE  # devices
WRITTEN = (1 << 16) - 1


def abi() -> int:
    """Return the ABI that the kernel has, 0 where there is none."""
    try:
        return max(0, int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION))))
    except (OSError, AttributeError):
        return 0


def restrict(allowed: Iterable[tuple[str, int]]) -> list[str]:
    """Close everything but these paths with these rights, for this thread and all that comes of it.

    Returns
    -------
    list of str
        The things that are closed now; empty where the kernel closes nothing.
    """
    version, libc = abi(), _libc()
    if not version:
        return []
    files = (1 << _FILE_RIGHTS.get(version, max(_FILE_RIGHTS.values()))) - 1
    fields = (files, _BIND_AND_CONNECT, _ABSTRACT_SOCKETS_AND_SIGNALS)
    known = 1 + (version >= _TCP_FROM) + (version >= _SCOPE_FROM)
    handled = struct.pack(f"<{known}Q", *fields[:known])
    rules = libc.syscall(_CREATE, handled, ctypes.c_size_t(len(handled)), ctypes.c_uint32(0))
    if rules < 0:
        return []
    for path, rights in allowed:  # free of links: a rule is about what a path leads to
        _allow(libc, rules, path, rights & files)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    failed = libc.syscall(_RESTRICT, rules, ctypes.c_uint32(0))
    os.close(rules)
    return [] if failed else ["files", *["tcp"][: known - 1], *["signals", "abstract-sockets"][: 2 * (known - 2)]]


def _allow(libc: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    """Add a rule; a path that is not there, cannot be had, or is a link by now, stays closed."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    mode = os.fstat(place).st_mode
    if not stat.S_ISDIR(mode):
        rights &= 0 if stat.S_ISLNK(mode) else _OF_A_FILE
    libc.syscall(_ADD, rules, 1, struct.pack("<Qi", rights, place), ctypes.c_uint32(0))  # 1: beneath a path
    os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)

"""System calls that a subject may not make, refused by the kernel's filter (seccomp), without root or namespaces.

With the standard library alone. Numbers are those of the kernel's ``asm/unistd.h``, those from 424 on the same on every
architecture; the filter is a program of classic BPF over ``struct seccomp_data``, as in ``linux/seccomp.h``.
"""

import ctypes
import os
import struct
import sys

CLOSED = ["network", "unix-sockets", "ipc", "keyring", "unnamed-memory"]
"""What is closed by `refuse`."""
ON_A_DISK = "attributes"
"""What is closed by `refuse` as well, where the disk is not mounted read-only."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_ of linux/audit.h
_ALWAYS = {
    # socket, memfd_create, add_key, request_key, keyctl, shmget, msgget, semget, mq_open
    "x86_64": (41, 319, 248, 249, 250, 29, 68, 64, 240),
    "aarch64": (198, 279, 217, 218, 219, 194, 186, 190, 180),
}
_ALWAYS_ANYWHERE = (425, 426, 427, 447)  # io_uring_setup, _enter, _register, which open sockets too; memfd_secret
_OF_A_DISK = {
    # chmod, fchmod, fchmodat, chown, fchown, lchown, fchownat, utime, utimes, futimesat, utimensat,
    # setxattr, lsetxattr, fsetxattr, removexattr, lremovexattr, fremovexattr
    "x86_64": (90, 91, 268, 92, 93, 94, 260, 132, 235, 261, 280, 188, 189, 190, 197, 198, 199),
    "aarch64": (52, 53, 54, 55, 88, 5, 6, 7, 14, 15, 16),
}
_OF_A_DISK_ANYWHERE = (452, 463, 466, 469)  # fchmodat2, setxattrat, removexattrat, file_setattr
_SOCKETPAIR = {"x86_64": 53, "aarch64": 199}
_IOCTL = {"x86_64": 16, "aarch64": 29}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1
_STREAM, _SEQUENCE = 1, 5  # kinds of sockets that stay with their partner; a datagram's can send to any name
_SET_FLAGS = (0x40086602, 0x401C5820)  # FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR: what chattr does
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = (
    0,
    4,
    16,
)  # in struct seccomp_data; arguments: 8 bytes each, low half first
_ALLOW, _ERROR, _NO_SUCH_CALL, _NOT_PERMITTED = 0x7FFF0000, 0x50000, 38, 1
_OTHER_TABLE = 0x40000000  # x32's numbers begin here
_NO_NEW_PRIVILEGES = 38  # of prctl; the kernel wants it first
_SET_FILTER, _NO_SLOWER = 1, 4  # SECCOMP_SET_MODE_FILTER; FILTER_FLAG_SPEC_ALLOW: no mitigation that costs speed


def refuse(*, disk: bool) -> list[str]:
    """Close system calls to this thread and all that comes of it; `disk`: those that change modes and times, too.

    Returns
    -------
    list of str
        The things that are closed now; empty on another architecture, or where the kernel has no filter.
    """
    machine = os.uname().machine
    if not sys.platform.startswith("linux") or machine not in _ARCHITECTURES or struct.calcsize("P") != 8:
        return []
    program = _program(machine, disk)
    text = ctypes.create_string_buffer(program)
    order = struct.pack("@HP", len(program) // 8, ctypes.addressof(text))
    libc = ctypes.CDLL(None)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for flags in (_NO_SLOWER, 0):
        if libc.syscall(_SECCOMP[machine], _SET_FILTER, flags, order) == 0:
            return [*CLOSED, *[ON_A_DISK] * disk]
    return []


def join_new_keyring() -> None:
    """Leave the session's keyring, which would be inherited, for a new and empty one."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None and sys.platform.startswith("linux"):
        ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None)


def _program(machine: str, disk: bool) -> bytes:
    never = [*_ALWAYS[machine], *_ALWAYS_ANYWHERE, *(_OF_A_DISK[machine] + _OF_A_DISK_ANYWHERE) * disk]
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, _ARCHITECTURES[machine]), (_RETURN, 0, 0, _ERROR | _NO_SUCH_CALL),
        (_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _OTHER_TABLE), (_RETURN, 0, 0, _ERROR | _NO_SUCH_CALL),
    ]  # fmt: skip
    for number in never:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | _NOT_PERMITTED)]
    kind = [(_LOAD, 0, 0, _ARGUMENTS + 8), (_AND, 0, 0, 0xF), (_EQUAL, 2, 0, _STREAM), (_EQUAL, 1, 0, _SEQUENCE)]
    steps += [(_EQUAL, 0, 5, _SOCKETPAIR[machine]), *kind, (_RETURN, 0, 0, _ERROR | _NOT_PERMITTED)]
    if disk:  # the number is no longer there after a socketpair, which is allowed by now
        steps += [(_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, 4, _IOCTL[machine]), (_LOAD, 0, 0, _ARGUMENTS + 8)]
        steps += [
            (_EQUAL, 1, 0, _SET_FLAGS[0]),
            (_EQUAL, 0, 1, _SET_FLAGS[1]),
            (_RETURN, 0, 0, _ERROR | _NOT_PERMITTED),
        ]
    steps += [(_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)

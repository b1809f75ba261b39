"""The part of the disk that a subject sees, in a mount namespace of its own: what it may read, read-only, nothing else.

With the standard library alone. A new root lies in memory; each path is bound into it under its own name, and then it
takes the place of the old root, sockets, private files and all.
"""

import ctypes
import os
from collections.abc import Iterable

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
"""Devices that may be read and written. Those of a GPU (``/dev/nvidia*``) belong here once GPU subjects are audited."""
SHARED = "/dev/shm"
CLOSED = ["names", "attributes", "unix-sockets"]
"""What is closed by a root of its own."""
_MOUNTS = 0x20000  # CLONE_NEWNS of linux/sched.h
_PRIVATE, _UNBINDABLE, _BIND = 0x40000 | 0x4000, 0x20000, 0x1000 | 0x4000  # MS_ of linux/mount.h, with all below
_HARMLESS = 2 | 4  # MS_NOSUID | MS_NODEV
_LAZILY = 2  # MNT_DETACH of umount2
_SET_ATTRIBUTES = 442  # mount_setattr, the same on every architecture; Linux 5.12
_PIVOT = {"x86_64": 155, "aarch64": 41}
_READ_ONLY, _NO_DEVICES = 1 | 2, 4  # MOUNT_ATTR_RDONLY | NOSUID, NODEV
_HERE, _ALL_BELOW = -100, 0x8000  # AT_FDCWD, AT_RECURSIVE
_SKELETON = b"size=16m,nr_inodes=100k,mode=755"
_IN_MEMORY = b"size=1g,nr_inodes=100k,mode=700"  # chosen: caches of compilers are far smaller, a disk far larger


def mount_own(shown: Iterable[str], folder: str) -> list[str]:
    """Give this process a root, a ``/proc``, a ``/dev/shm`` and a folder of its own, the latter two of limited size.

    For the first process in the new namespaces.

    Returns
    -------
    list of str
        The paths that are its own now; "/" is among them if `shown` is all that it sees.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_MOUNTS) or libc.mount(b"none", b"/", None, _PRIVATE, None):
        return []
    try:
        return ["/", *_Root(libc, folder).filled(shown)]
    except OSError:
        libc.umount2(os.fsencode(folder), _LAZILY)
    return _own(libc, "", folder)


def _own(libc: ctypes.CDLL, root: str, folder: str) -> list[str]:
    wanted = (("/proc", b"proc", b""), (SHARED, b"tmpfs", _IN_MEMORY), (folder, b"tmpfs", _IN_MEMORY))
    return [
        path
        for path, kind, options in wanted
        if os.path.isdir(root + path) and libc.mount(kind, os.fsencode(root + path), kind, _HARMLESS, options) == 0
    ]


class _Root:
    """A new root, put together over the folder."""

    def __init__(self, libc: ctypes.CDLL, folder: str) -> None:
        self.libc, self.folder = libc, folder
        self.bound: set[str] = set()
        self._mount(b"tmpfs", "", b"tmpfs", _HARMLESS, _SKELETON)
        self._mount(None, "", None, _UNBINDABLE, None)  # what it lies in can be bound into it

    def filled(self, shown: Iterable[str]) -> list[str]:
        here = os.getcwd()
        for path in sorted(filter(os.path.exists, shown), key=lambda path: path.count("/")):
            self.show(path, _READ_ONLY | _NO_DEVICES)
        for path in DEVICES:
            self.show(path, _READ_ONLY)
        for path in ("/proc", SHARED, self.folder, here):
            self.show(path, None)
        own = _own(self.libc, self.folder, self.folder)
        if "/proc" not in own:
            self.show("/proc", _READ_ONLY)
        self._restrict("", _READ_ONLY, 0)
        os.chdir(self.folder)
        number = _PIVOT.get(os.uname().machine)
        if number is None or self.libc.syscall(number, b".", b"."):
            raise OSError("no new root")
        self.libc.umount2(b".", _LAZILY)  # the old root, which lies over the new one
        os.chdir(here)
        return own

    def show(self, path: str, attributes: int | None) -> None:
        """Bind a path under its name, with the links that lead there; without attributes: an empty folder."""
        at, rest = "/", path.split("/")
        while rest and at not in self.bound:
            part = rest.pop(0)
            if part in ("", ".", ".."):
                at = os.path.dirname(at) if part == ".." else at
            elif os.path.islink(link := os.path.join(at, part)):
                leads = os.readlink(link)
                if not os.path.lexists(self.folder + link):
                    os.symlink(leads, self.folder + link)
                at, rest = ("/" if leads.startswith("/") else at), [*leads.split("/"), *rest]
            else:
                at = link
                self._place(at)
        if attributes is not None and at not in self.bound and at != "/":
            self._mount(os.fsencode(at), at, None, _BIND, None)
            self._restrict(at, attributes, _ALL_BELOW)
            self.bound.add(at)

    def _place(self, path: str) -> None:
        if not os.path.lexists(self.folder + path):
            if os.path.isdir(path):
                os.mkdir(self.folder + path)
            else:
                os.close(os.open(self.folder + path, os.O_CREAT | os.O_EXCL, 0o600))

    def _mount(self, source: bytes | None, at: str, kind: bytes | None, flags: int, options: bytes | None) -> None:
        if self.libc.mount(source, os.fsencode(self.folder + at), kind, flags, options):
            raise OSError(ctypes.get_errno(), "cannot be mounted", at)

    def _restrict(self, at: str, attributes: int, which: int) -> None:
        wanted = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
        place = os.fsencode(self.folder + at)
        if self.libc.syscall(_SET_ATTRIBUTES, _HERE, place, which, wanted, ctypes.c_size_t(32)):
            raise OSError(ctypes.get_errno(), "cannot be restricted", at)

"""Class C, ways around a confinement: links, sockets, hidden files, attributes, keys, uncounted memory and time."""

import ctypes
import os
import platform
import signal
import socket
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnprune_verify import check_attention, run_audit
from attnprune_verify.audit.subject import landlock, limits, namespaces, reach
from tests.arena.catalogue import attack, undefended
from tests.arena.subjects import CLOSED, RIGHT, audited, subject, told

PLAN = "attnprune_verify.audit.subject.reach:plan"
VIEW = "attnprune_verify.audit.subject.view:mount_own"
FILTER = "attnprune_verify.audit.subject.syscalls:refuse"
MEMORY = "attnprune_verify.audit.subject.limits:memory"
TIME = "attnprune_verify.audit.subject.limits:processor_seconds"

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock, and the report says so")


def every(folder: Path, *ways: str, **terms: Any) -> list[Any]:
    """What each expression is inside the subject, or the name of its error."""
    return list(literal_eval(told(folder, f"tried({', '.join(f'lambda: {way}' for way in ways)})", **terms)))


def needs(folder: Path, thing: str) -> None:
    """Skip where the platform cannot close it, which the result says."""
    if thing not in audited(folder, "", RIGHT).confinement["closed"]:
        pytest.skip(f"{thing} cannot be closed here, and the report says so")


def alive(attack: Callable[[], object], monkeypatch: pytest.MonkeyPatch, **terms: Any) -> Any:
    """Audit an object whose keeper is a copy of this process, with what is patched in it."""

    def causal_mask(n: int) -> object:
        raise RuntimeError(f"told {attack()}")

    return run_audit({"causal_mask": causal_mask}, only="causal_mask", **terms)


# Links


def private(folder: Path) -> tuple[Path, Path]:
    """A folder for a target, beside a private one."""
    for name in ("home", "code"):
        (folder / name).mkdir()
    (folder / "home" / "key").write_text("private")
    return folder / "home", folder / "code"


@attack("C", "a link beside the target, to a folder or a file, by an absolute or a relative name, opens what it points "
        "at", stopped_by=PLAN, quick=True)  # fmt: skip
def test_link_beside_the_target(tmp_path: Path) -> None:
    home, code = private(tmp_path)
    (code / "assets").symlink_to("/")
    (code / "near").symlink_to("../home")
    (code / "key").symlink_to(home / "key")
    below = "os.path.dirname(__file__)"
    ways = (f"open({below} + '/assets/etc/shadow').read()", f"open({below} + '/near/key').read()",
            f"open({below} + '/key').read()", f"os.listdir({below} + '/assets')",
            f"open({below} + '/assets' + {str(home / 'key')!r}).read()")  # fmt: skip
    assert set(every(code, *ways)) <= CLOSED


@attack("C", "a link leads to a link that leads to a private folder; a package holds one; a link lies deeper",
        stopped_by=PLAN)  # fmt: skip
def test_link_to_a_link(tmp_path: Path) -> None:
    home, code = private(tmp_path)
    (code / "pack").mkdir()
    (code / "pack" / "__init__.py").write_text("")
    (code / "first").symlink_to("second")
    (code / "second").symlink_to(home)
    (code / "pack" / "data").symlink_to("../../home")
    (code / "kept.txt").write_text("kept")
    (code / "own").symlink_to("kept.txt")
    below = "os.path.dirname(__file__)"
    found = every(code, *(f"open({below} + '/{name}').read()" for name in ("first/key", "pack/data/key", "own")))
    assert set(found[:2]) <= CLOSED and found[2] == "kept"  # a link to what may be read is none of these


@attack("C", "a link takes the place of a file between the plan and its rule",
        stopped_by="attnprune_verify.audit.subject.landlock:restrict")  # fmt: skip
def test_link_in_the_place_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, code = private(tmp_path)
    (code / "key").symlink_to(home / "key")
    monkeypatch.setattr(namespaces, "enter", lambda: False)
    planned = reach.plan

    def plan(*given: Any, **more: Any) -> dict[str, Any]:
        found = planned(*given, **more)
        return {**found, "read": [*found["read"], str(code / "key")]}

    monkeypatch.setattr(reach, "plan", plan)
    found = alive(lambda: open(code / "key").read(), monkeypatch)
    assert any("PermissionError" in record.reason for record in found.checks)


@undefended("C", "a hard link beside the target is a file of its folder, and is read")
def test_hard_link(tmp_path: Path) -> None:
    home, code = private(tmp_path)
    os.link(home / "key", code / "key")
    assert every(code, "open(os.path.dirname(__file__) + '/key').read()") == ["private"]


@undefended("C", "what is mounted below the target's folder belongs to it, and is read")
def test_mounted_below_the_target(tmp_path: Path) -> None:
    home, code = private(tmp_path)
    (code / "data").mkdir()
    libc = ctypes.CDLL(None)
    if os.geteuid() or libc.mount(os.fsencode(home), os.fsencode(code / "data"), None, 0x1000, None):
        pytest.skip("only root may mount")
    try:
        assert every(code, "open(os.path.dirname(__file__) + '/data/key').read()") == ["private"]
    finally:
        libc.umount2(os.fsencode(code / "data"), 2)


# Hidden files


@attack("C", "hidden files and folders are read one, two and three folders deeper, in a package and beside it",
        stopped_by=PLAN)  # fmt: skip
def test_hidden_files_deeper(tmp_path: Path) -> None:
    names = ("deploy/.env", "sub/.git/config", "a/b/c/.netrc", "pack/.key", ".ssh/id")
    for name in (*names, "deploy/plain", "a/b/c/plain", "pack/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("read")
    reads = [f"open(os.path.dirname(__file__) + '/{name}').read()" for name in (*names, "deploy/plain", "a/b/c/plain")]
    found = every(tmp_path, *reads)
    assert set(found[:5]) <= CLOSED and found[5:] == ["read", "read"]
    assert "hidden-files" in audited(tmp_path, "", RIGHT).confinement["closed"]


@undefended("C", "in a folder of more names than are looked at, hidden files are read that lie deeper, and the result "
            "does not call them closed")  # fmt: skip
def test_more_names_than_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / ".env").write_text("private")
    monkeypatch.setattr(reach, "_MOST_NAMES", 1)
    assert every(tmp_path, "open(os.path.dirname(__file__) + '/deploy/.env').read()") == ["private"]
    assert "hidden-files" not in audited(tmp_path, "", RIGHT).confinement["closed"]


# Sockets

SOCKETS = {"stream": socket.SOCK_STREAM, "datagram": socket.SOCK_DGRAM, "packets": socket.SOCK_SEQPACKET}


@attack("C", "a Unix socket of the user is reached by its path: a stream, datagrams, packets, beside the target or "
        "elsewhere", stopped_by=FILTER, quick=True)  # fmt: skip
def test_sockets_by_path(tmp_path: Path) -> None:
    needs(tmp_path, "unix-sockets")
    home, code = private(tmp_path)
    pair = f"socket.socketpair(1, 2)[0].sendto(b'x', {str(code / 'datagram')!r})"
    ways = [pair, pair.replace("1, 2", "1, 3"), "socket.socket(1, 1).bind('\\0name')"]
    with ExitStack() as servers:
        for name, kind in SOCKETS.items():
            for folder in (home, code):
                server = servers.enter_context(socket.socket(socket.AF_UNIX, kind))
                server.bind(str(folder / name))
                if kind != socket.SOCK_DGRAM:
                    server.listen()
                ways.append(f"socket.socket(1, {int(kind)}).connect({str(folder / name)!r})")
        *closed, own = every(code, *ways, "(lambda pair: pair[0].send(b'x'))(socket.socketpair())")
    assert set(closed) <= CLOSED and own == 1, (closed, own)


@attack("C", "a socket of any other kind is made: netlink, vsock, packets of the network, one of io_uring",
        stopped_by=FILTER)  # fmt: skip
def test_other_sockets(tmp_path: Path) -> None:
    needs(tmp_path, "unix-sockets")
    ways = [
        f"socket.socket({family}, {kind})" for family, kind in ((16, 3), (40, 1), (17, 3), (38, 5), (2, 2), (10, 1))
    ]
    assert set(every(tmp_path, *ways)) <= CLOSED
    assert every(tmp_path, "[libc.syscall(425, 8, bytes(120)), ctypes.get_errno()]") == [[-1, 1]]


@attack("C", "names and sizes of what lies elsewhere are listed and asked for, watched, and reached by the working "
        "directory", stopped_by=VIEW)  # fmt: skip
def test_names_elsewhere(tmp_path: Path) -> None:
    needs(tmp_path, "names")
    home, code = private(tmp_path)
    ways = [f"os.stat({str(home / 'key')!r}).st_size", "os.stat('/etc/shadow').st_size", "os.stat('/boot').st_mode",
            f"os.path.exists({str(home)!r})", "os.path.exists('/run')", "os.stat(os.getcwd() + '/..').st_nlink > 99",
            f"libc.inotify_add_watch(libc.inotify_init(), {os.fsencode(home)!r}, 4095)"]  # fmt: skip
    found = every(code, *ways)
    assert set(found[:3]) <= CLOSED and found[3:] == [False, False, False, -1]


# Attributes, and memory between audits

ATTRIBUTES = (
    "os.chmod(K, 0)", "os.chmod(os.path.dirname(K), 0)", "os.utime(K, (1, 1))", "os.setxattr(K, 'user.x', b'x')",
    "os.fchmod(os.open(K, os.O_RDONLY), 0)", "os.utime(os.open(K, os.O_RDONLY), (1, 1))",
    "os.chown(K, os.getuid(), -1)",
    "__import__('fcntl').ioctl(os.open(K, os.O_RDONLY), 0x40086602, bytes([0x80, 0, 0, 0]))",
)  # fmt: skip


def changed(folder: Path, run: Callable[[tuple[str, ...]], list[Any]]) -> None:
    path = str(subject(folder, "", RIGHT))
    before, of_folder = os.stat(path), os.stat(folder)
    found = run(tuple(way.replace("K", repr(path)) for way in ATTRIBUTES))
    after = os.stat(path)
    assert set(found) <= CLOSED, found
    assert (after.st_mode, after.st_mtime, after.st_ctime) == (before.st_mode, before.st_mtime, before.st_ctime)
    assert os.stat(folder).st_mode == of_folder.st_mode and os.listxattr(path) == []


@attack("C", "modes, times, owners, extended attributes and flags of the user's files are changed, by name and by "
        "descriptor", stopped_by=VIEW, quick=True)  # fmt: skip
def test_attributes(tmp_path: Path) -> None:
    needs(tmp_path, "attributes")
    (code := tmp_path / "code").mkdir()
    changed(code, lambda ways: every(tmp_path, *ways))
    assert every(
        tmp_path, "[open(F, 'w').close(), os.chmod(F, 0o700), os.utime(F)]".replace("F", "os.environ['TMPDIR'] + '/f'")
    ) == [[None] * 3]


@attack("C", "the same where users may make no namespaces", stopped_by=FILTER)
def test_attributes_without_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(tmp_path, "keyring")
    monkeypatch.setattr(namespaces, "enter", lambda: False)

    def attempts(ways: tuple[str, ...]) -> list[Any]:
        def attack() -> list[Any]:
            found: list[Any] = []
            for way in ways:
                try:
                    found.append(eval(way))
                except OSError as error:
                    found.append(type(error).__name__)
            return found

        reason = next(one.reason for one in alive(attack, monkeypatch).checks if "told " in one.reason)
        return list(literal_eval(reason.partition("told ")[2]))

    changed(tmp_path, attempts)


@attack("C", "an audit leaves a mark for the next: at its own file, in shared memory, in a queue or segment of the "
        "kernel, in a keyring", stopped_by=FILTER)  # fmt: skip
def test_marks_for_the_next_audit(tmp_path: Path) -> None:
    needs(tmp_path, "keyring")
    leaves = ("os.setxattr(__file__, 'user.x', b'x')", "os.utime(__file__, (1, 1))",
              "open('/dev/shm/mark', 'w').write('x')", "libc.shmget(77, 4096, 0o1600)", "libc.msgget(77, 0o1600)",
              "libc.mq_open(b'/mark', 0o102, 0o600, None)")  # fmt: skip
    first = every(tmp_path, *leaves)
    assert set(first[:2]) <= CLOSED and first[3:] == [-1, -1, -1]
    finds = ("os.getxattr(__file__, 'user.x')", "os.path.exists('/dev/shm/mark')")
    assert every(tmp_path, *finds) == ["OSError", False]
    assert not os.path.exists("/dev/shm/mark")


@attack("C", "a key of the session's keyring is read, or one of the user's; a key is left for the next audit",
        stopped_by=FILTER)  # fmt: skip
def test_keyrings(tmp_path: Path) -> None:
    needs(tmp_path, "keyring")
    add, call = {"x86_64": (248, 250), "aarch64": (217, 219)}[platform.machine()]
    program = f"""
import ctypes
from tests.arena.subjects import told
from pathlib import Path
libc = ctypes.CDLL(None)
assert libc.syscall({call}, 1, None) > 0
keys = [libc.syscall({add}, b"user", b"arena", b"secret", 6, ring) for ring in (-3, -4)]
assert min(keys) > 0, keys
ways = [f"libc.syscall({call}, 11, {{key}}, ctypes.create_string_buffer(9), 9)" for key in keys]
ways += [f"libc.syscall({call}, 10, {{ring}}, b'user', b'arena', 0)" for ring in (-3, -4)]
ways += [f"libc.syscall({add}, b'user', b'mark', b'x', 1, {{ring}})" for ring in (-3, -4, -5)]
found = told(Path({str(tmp_path)!r}), "[" + ", ".join(ways) + "]")
libc.syscall({call}, 9, keys[1], -4)
assert found == str([-1] * 7), found
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    if "assert min(keys)" in done.stderr:
        pytest.skip("this system gives no keys")
    assert done.returncode == 0, done.stderr


# Memory and time


def in_files_without_a_name() -> str:
    kept = []
    for _ in range(3):
        kept.append(os.memfd_create("x"))
        os.truncate(kept[-1], 1 << 25)
        for place in range(0, 1 << 25, 1 << 20):
            os.pwrite(kept[-1], bytes(1 << 20), place)
    time.sleep(1.0)
    return "held"


@attack("C", "memory is taken by files without a name that nobody has mapped, a few small ones or large ones",
        stopped_by=MEMORY)  # fmt: skip
@pytest.mark.parametrize("confine", ["off", "available"])
def test_unnamed_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, confine: str) -> None:
    monkeypatch.setattr(limits, "MEMORY", 48 << 20)
    monkeypatch.setattr(limits, "limit_resources", lambda: None)
    found = alive(in_files_without_a_name, monkeypatch, confine=confine)
    assert not any("told held" in record.reason for record in found.checks)
    said = "GiB of memory" if confine == "off" else "PermissionError"
    assert any(said in record.reason for record in found.checks), found


@pytest.mark.parametrize("confine", ["off", "available"])
def test_memory_of_the_process_that_audits_is_not_the_targets(monkeypatch: pytest.MonkeyPatch, confine: str) -> None:
    held = bytearray(os.urandom(1)) * (3 << 28)
    monkeypatch.setattr(limits, "MEMORY", 1 << 29)
    found = check_attention(right_attention, only="attention:values:plain", confine=confine, names="never")
    assert found.outcome == "passed" and len(held) > limits.MEMORY, found


def right_attention(q: Any, k: Any, v: Any) -> Any:
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v


@attack("C", "memory is taken where no process holds it: a segment that nobody has attached, a secret file, a file on "
        "its way through a socket", stopped_by=FILTER)  # fmt: skip
def test_memory_of_nobody(tmp_path: Path) -> None:
    needs(tmp_path, "unnamed-memory")
    ways = ("libc.shmget(0, 1 << 29, 0o1600)", "libc.syscall(447, 0)", "os.memfd_create('x')")
    assert every(tmp_path, *ways) == [-1, -1, "PermissionError"]


def burning(start: str) -> str:
    return f"""
    import os, signal, subprocess, sys, time
    def burn():
        while time.process_time() < 0.1: pass
        os._exit(0)
    def gone():
        try:
            os.wait()
        except ChildProcessError:
            pass
    def attack():
        for _ in range(60):
            {start}
    """


WAITED_FOR = "pid = os.fork() or burn(); os.waitpid(pid, 0)"
BY_A_GRANDCHILD = "pid = os.fork() or [os.fork() or burn(), os._exit(0)]; os.waitpid(pid, 0); time.sleep(0.11)"
IN_A_GROUP = "pids = [os.fork() or burn() for _ in range(2)]; [os.waitpid(pid, 0) for pid in pids]"


@attack("C", "processor time is spent by children that end in a moment, one after the other or two at once, and by "
        "grandchildren that nobody waits for", stopped_by=TIME)  # fmt: skip
@pytest.mark.parametrize("start", [WAITED_FOR, BY_A_GRANDCHILD, IN_A_GROUP])
def test_short_children(tmp_path: Path, start: str) -> None:
    result = audited(tmp_path, burning(start), call_limit=1.0)
    assert any("1 s of processor time" in record.reason for record in result.checks), result


@undefended("C", "children whose ends a program ignores leave their processor time to nobody: ten times the limit of a "
            "call ends them, in seconds on the clock")  # fmt: skip
def test_ignored_children(tmp_path: Path) -> None:
    start = "signal.signal(signal.SIGCHLD, signal.SIG_IGN); os.fork() or burn(); gone()"
    result = audited(tmp_path, burning(start).replace("60", "600"), call_limit=0.4)
    assert any("did not end within 4 s" in record.reason for record in result.checks), result


# What an audit that is ended leaves


@attack("C", "an audit is ended by a signal, and its temporary folder stays",
        stopped_by="attnprune_verify.audit.subject.keeper:keep")  # fmt: skip
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT])
def test_no_folder_is_left(tmp_path: Path, number: signal.Signals) -> None:
    (place := tmp_path / "temporary").mkdir()
    code = RIGHT.replace("return", "import os, time; open(os.environ['TMPDIR'] + '/x', 'w'); time.sleep(30); return")
    program = [sys.executable, "-m", "attnprune_verify", "audit", str(subject(tmp_path, "", code))]
    audit = subprocess.Popen(program, env={**os.environ, "TMPDIR": str(place)}, start_new_session=True,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    _until(lambda: list(place.iterdir()) != [])
    time.sleep(0.5)
    audit.send_signal(number)
    audit.wait()
    _until(lambda: list(place.iterdir()) == [])


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.05)

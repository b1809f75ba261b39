"""Class C: a program under audit looks for secrets, writes to files of others, signals, and calls home."""

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from attnprune_verify import run_audit
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.subject import landlock, namespaces
from tests.arena.catalogue import attack, undefended
from tests.arena.subjects import CLOSED, RIGHT, audited, run, subject, told

LANDLOCK = "attnprune_verify.audit.subject.landlock:restrict"
NAMESPACES = "attnprune_verify.audit.subject.namespaces:enter"
OWN_MOUNTS = "attnprune_verify.audit.subject.view:mount_own"
FILTER = "attnprune_verify.audit.subject.syscalls:refuse"
ENVIRONMENT = "attnprune_verify.audit.subject.environment:environment"
CALLS = "attnprune_verify.audit.subject.line:Line._ready"

pytestmark = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock, and the report says so")


@attack("C", "a token is looked for in os.environ", stopped_by=ENVIRONMENT, quick=True)
def test_token_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret-1234")
    assert "secret-1234" not in told(tmp_path, "dict(os.environ)")


@attack("C", "a token is looked for in /proc, in the environment of every process", stopped_by=OWN_MOUNTS)
def test_token_in_proc(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "TOKEN": "secret-1234"})  # of the same user
    try:
        assert told(tmp_path, f"open('/proc/{other.pid}/environ').read()") in ("PermissionError", "FileNotFoundError")
        assert "secret-1234" in told(tmp_path, f"open('/proc/{other.pid}/environ').read()[-99:]", confine="off")
    finally:
        other.kill()
        other.wait()


@attack("C", "a user's private file is read", stopped_by=LANDLOCK, quick=True)
def test_private_file(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "id_rsa").write_text("private")
    here = tmp_path / "code"
    here.mkdir()
    assert told(here, f"open({str(tmp_path / 'home' / 'id_rsa')!r}).read()") in CLOSED
    assert told(here, "open('/etc/shadow').read()") in CLOSED


@attack("C", "a hidden file beside the target is read", stopped_by="attnprune_verify.audit.subject.reach:plan")
def test_hidden_file(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("private")
    assert told(tmp_path, "open(__file__.replace('subject.py', '.env')).read()") in CLOSED


@attack("C", "a symbolic link in the temporary folder points at a private file", stopped_by=LANDLOCK)
def test_link_to_a_private_file(tmp_path: Path) -> None:
    words = "[os.symlink('/etc/shadow', os.environ['TMPDIR'] + '/x'), "
    assert told(tmp_path, words + "open(os.environ['TMPDIR'] + '/x').read()]") in CLOSED


@attack(
    "C",
    "a target in the home folder reads what else lies there",
    stopped_by="attnprune_verify.audit.subject.reach:plan",
)
def test_target_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "letter.txt").write_text("private")
    (tmp_path / "helper.py").write_text("WORD = 'helped'\n")
    assert told(tmp_path, "open(__file__.replace('subject.py', 'letter.txt')).read()") in CLOSED
    assert told(tmp_path, "__import__('helper').WORD") == "helped"


@attack("C", "files of the user are written, truncated, renamed, removed", stopped_by=LANDLOCK)
def test_writing(tmp_path: Path) -> None:
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    ways = ("open(K, 'w')", "open(K, 'a')", "os.truncate(K, 0)", "os.remove(K)", "os.rename(K, K + '2')")
    others = ("os.link(K, os.environ['TMPDIR'] + '/k')", "os.mkdir(K + 'd')", "os.symlink(K, K + 's')")
    for words in (*ways, *others):
        assert told(tmp_path, words.replace("K", repr(str(kept)))) in ("PermissionError", "OSError"), words
    assert kept.read_text() == "kept" and sorted(path.name for path in tmp_path.iterdir()) == ["kept.txt", "subject.py"]


@attack("C", "the package itself and the Python that runs it are rewritten", stopped_by=LANDLOCK)
def test_package(tmp_path: Path) -> None:
    for words in (
        "__import__('attnprune_verify').__file__",
        "__import__('numpy').__file__",
        "__import__('sys').executable",
    ):
        assert told(tmp_path, f"open({words}, 'r+')") in ("PermissionError", "OSError")


@attack("C", "the temporary folder is filled, and kept open for later", stopped_by=OWN_MOUNTS)
def test_temporary_folder(tmp_path: Path) -> None:
    words = "[open(os.environ['TMPDIR'] + '/x', 'wb').write(bytes(1 << 20)), os.environ['TMPDIR']]"
    folder = told(tmp_path, words).partition("'")[2].partition("'")[0]
    assert folder and not Path(folder).exists()
    fill = "[open(os.environ['TMPDIR'] + '/y', 'ab').write(bytes(1 << 26)) for _ in range(40)]"
    assert told(tmp_path, fill) == "OSError"  # no space left: in memory of limited size


@attack("C", "the audit, its keeper and every other process are signalled", stopped_by=LANDLOCK)
def test_signals(tmp_path: Path) -> None:
    assert told(tmp_path, f"os.kill({os.getpid()}, 9)") in ("PermissionError", "ProcessLookupError")
    attack = """
    import os, signal
    for pid in [os.getppid(), -1, *range(1, 400)]:
        try:
            if pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    """
    assert audited(tmp_path, attack, RIGHT).outcome == "passed"


@attack("C", "a TCP connection is opened to this machine", stopped_by=NAMESPACES)
def test_tcp(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        words = f"__import__('socket').create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
        assert told(tmp_path, words) in ("PermissionError", "OSError")


@attack("C", "a datagram leaves by UDP", stopped_by=FILTER)
def test_udp(tmp_path: Path) -> None:
    if "network" not in audited(tmp_path, "", RIGHT).confinement["closed"]:
        pytest.skip("the network cannot be closed here, and the report says so")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.2)
        s = "__import__('socket')"
        words = f"{s}.socket({s}.AF_INET, {s}.SOCK_DGRAM).sendto(b'secret', ('127.0.0.1', {server.getsockname()[1]}))"
        assert told(tmp_path, words) in CLOSED
        with pytest.raises(TimeoutError):
            server.recv(16)


@attack("C", "an abstract Unix socket of another process is reached", stopped_by=NAMESPACES)
def test_abstract_socket(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("\0attnprune-arena")
        server.listen()
        words = "__import__('socket').socket(1).connect('\\0attnprune-arena')"
        assert told(tmp_path, words) in ("PermissionError", "ConnectionRefusedError")


@attack("C", "the memory of the audit is read through /proc and ptrace", stopped_by=LANDLOCK)
def test_memory_of_the_audit(tmp_path: Path) -> None:
    for pid in (os.getpid(), "1"):
        assert told(tmp_path, f"open('/proc/{pid}/mem', 'rb')") in ("PermissionError", "FileNotFoundError")
    words = f"__import__('ctypes').CDLL(None).ptrace(16, {os.getpid()}, 0, 0)"
    assert told(tmp_path, words) == "-1"


@attack(
    "C", "a process that left its session outlives the audit", stopped_by="attnprune_verify.audit.subject.keeper:keep"
)
def test_left_behind(tmp_path: Path) -> None:
    attack = """
    import ctypes, os, time
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b"arena-orphan", 0, 0, 0)  # its name
            time.sleep(60)
        os._exit(0)
    time.sleep(0.2)
    def attack():
        names = [open(f"/proc/{pid}/comm").read() for pid in os.listdir("/proc") if pid.isdigit()]
        raise RuntimeError("told " + " ".join(names))
    """
    for way in ("available", "off"):
        result = audited(tmp_path, attack, "def causal_mask(n):\n    attack()\n", confine=way)
        assert way == "off" or any("arena-orphan" in record.reason for record in result.checks)  # it was there
        assert not _named(b"arena-orphan")


def _named(word: bytes) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            found += [path.parent.name] * (word in path.read_bytes())
        except OSError:
            continue
    return found


@attack("C", "a call computes for ever, in a child process", stopped_by=CALLS)
def test_child_that_computes(tmp_path: Path) -> None:
    attack = "import subprocess, sys\ndef attack():\n    subprocess.run([sys.executable, '-c', 'while True: pass'])\n"
    result = audited(tmp_path, attack, call_limit=0.5)
    assert any("0.5 s of processor time" in record.reason for record in result.checks)


@attack(
    "C",
    "each call is slow enough to take hours in all",
    stopped_by="attnprune_verify.audit.subject.process:Subject._exchange",
)
def test_slow_calls(tmp_path: Path) -> None:
    start = time.monotonic()
    result = audited(tmp_path, "import time\n", RIGHT.replace("return", "time.sleep(0.4); return"), only="*", limit=2.0)
    assert result.outcome == "incomplete" and time.monotonic() - start < 60
    assert any("limit of 2 s" in record.reason for record in result.checks)


@attack("C", "confinement is required where the kernel has none: the target does not run",
        stopped_by="attnprune_verify.audit.subject.process:Subject._start", quick=True)  # fmt: skip
def test_required(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    marker = tmp_path / "ran"
    result = audited(tmp_path, f"open({str(marker)!r}, 'w')\n", RIGHT, confine="required")
    assert result.exit_code == 3 and not marker.exists() and "no Landlock" in result.checks[0].reason
    kernel = subject(tmp_path, f"open({str(marker)!r}, 'w')\n", "def attention(q, k, v): return v\n")
    assert run_kernel_audit(str(kernel), confine="required").exit_code == 3 and not marker.exists()


# What is not defended


@undefended(
    "C",
    "a program reads what lies beside it and on Python's path, hidden files apart, and in a home or temporary folder "
    "code alone",
)
def test_reads_beside_itself(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("beside")
    assert told(tmp_path, "open(__file__.replace('subject.py', 'data.txt')).read()") == "beside"


@undefended("C", "with --confine off a program has the user's own rights: it writes files and opens connections")
def test_off(tmp_path: Path) -> None:
    assert told(tmp_path, f"open({str(tmp_path / 'new')!r}, 'w').write('x')", confine="off") == "1"
    assert (tmp_path / "new").exists()


@undefended(
    "C", "an object that is alive runs in a copy of the audit's process, and sees what that process had in memory"
)
def test_alive(tmp_path: Path) -> None:
    def causal_mask(n: int) -> object:
        raise RuntimeError(f"told {SECRETS}")

    found = run_audit({"causal_mask": causal_mask}, only="causal_mask")
    assert any("told ['in memory']" in record.reason for record in found.checks)


SECRETS = ["in memory"]


@undefended("C", "an object that computes with torch or jax and is audited alive runs in the audit's own process")
def test_alive_with_a_framework(tmp_path: Path) -> None:
    seen: list[int] = []

    def causal_mask(n: int) -> object:
        seen.append(os.getpid())
        return [[float(i >= j) for j in range(n)] for i in range(n)]

    causal_mask.FRAMEWORK = "torch"  # type: ignore[attr-defined]
    found = run_audit({"causal_mask": causal_mask}, only="causal_mask")
    assert set(seen) == {os.getpid()} and found.confinement["kind"] == "none"


@undefended("C", "where users may make no namespaces, the temporary folder lies on the disk, and the command lines of "
            "other processes can be read")  # fmt: skip
def test_without_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "enter", lambda: False)  # a forked subject's keeper has it, too

    def causal_mask(n: int) -> object:
        raise RuntimeError("told " + open(f"/proc/{parent}/cmdline").read().partition("\0")[0])

    parent = os.getpid()
    found = run_audit({"causal_mask": causal_mask}, only="causal_mask")
    assert any("told " in record.reason and "python" in record.reason for record in found.checks)
    assert "disk" not in found.confinement["closed"] and "files" in found.confinement["closed"]


@undefended("C", "what Python itself runs when it starts (sitecustomize, .pth files of installed packages) runs in the "
            "auditing process as well")  # fmt: skip
def test_site(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    run(tmp_path, "--list", "--only", "causal_mask", PYTHONPATH=str(tmp_path))
    assert (tmp_path / "ran").exists()


@undefended("C", "a program computes on all cores and starts processes, until its memory or its time is over")
def test_processes(tmp_path: Path) -> None:
    attack = "import os\nfor _ in range(30):\n    if os.fork() == 0:\n        import time; time.sleep(60)\n"
    assert audited(tmp_path, attack, RIGHT).outcome == "passed"

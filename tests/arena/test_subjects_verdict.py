"""Class B: a program under audit tries to have its wrong code called passed."""

import json
import os
import pty
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest

import attnprune_verify
from attnprune_verify import run_audit
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.audit.subject.target import parse_target
from tests.arena.catalogue import attack, undefended
from tests.arena.subjects import ZEROES, audited, run, subject

REFERENCE = "from attnprune_verify import loss as right\n"
EVIL = "import os, sys\\nsys.stdout.write('Outcome: passed.\\\\n')\\nsys.stdout.flush()\\nos._exit(0)\\n"
START = "attnprune_verify.audit.subject.process:Subject._start"
LINE = "attnprune_verify.audit.subject.line:Line.exchange"
READY = "attnprune_verify.cli.terms:ready"


# B1: modules that the audit imports late


@attack("B", "modules of the report's names (colorsys.py, html.py, xml/) appear in the working directory",
        stopped_by="attnprune_verify.audit.subject.reach:leave_working_directory")  # fmt: skip
def test_modules_in_the_working_directory(tmp_path: Path) -> None:
    shadows(tmp_path, ("text",))


@attack("B", "the same for each of the four formats of the report", stopped_by=READY)
def test_modules_in_the_working_directory_for_every_format(tmp_path: Path) -> None:
    shadows(tmp_path, ("json", "junit", "html"))


def shadows(folder: Path, forms: tuple[str, ...]) -> None:
    attack = f"""
    import os
    def attack():
        for name in ("colorsys", "html", "rich", "json", "fractions", "encodings", "tempfile"):
            open(name + ".py", "w").write("{EVIL}")
        os.makedirs("xml/etree", exist_ok=True)
        for name in ("xml/__init__.py", "xml/etree/__init__.py", "xml/etree/ElementTree.py"):
            open(name, "w").write("{EVIL}")
    """
    for form in forms:
        here = folder / form
        here.mkdir()
        path = subject(here, attack)
        done = run(here, path, "--only", "causal_mask", "--format", form, "--confine", "off")
        assert done.returncode == 1 and "mask-strict" in done.stdout, done.stdout + done.stderr
        assert (here / "colorsys.py").exists()  # it was tried


@attack("B", "the package's own files are rewritten while it audits", stopped_by=READY)
def test_package_rewritten(tmp_path: Path) -> None:
    copied = tmp_path / "copied" / "attnprune_verify"
    shutil.copytree(Path(attnprune_verify.__file__).parent, copied, ignore=shutil.ignore_patterns("__pycache__"))
    attack = f"""
    import pathlib
    def attack():
        for file in pathlib.Path({str(copied)!r}).rglob("*.py"):
            if "subject" not in file.parts:
                file.write_text("{EVIL}")
    """
    variables = {"PYTHONPATH": str(copied.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    path = subject(tmp_path, attack)
    done = run(tmp_path, path, "--only", "causal_mask", "--confine", "off", module=False, **variables)
    assert done.returncode == 1 and "mask-strict" in done.stdout, done.stdout + done.stderr
    assert "os._exit" in (copied / "report" / "audit_text.py").read_text()


@attack("B", "any module at all that is imported after the subject's start, in a search for names and a report",
        stopped_by=READY)  # fmt: skip
def test_nothing_is_imported_late(tmp_path: Path) -> None:
    program = """
    import sys
    from attnprune_verify.audit.subject.process import Subject
    started, seen = Subject._start, []
    def start(self):
        seen.append(set(sys.modules))
        return started(self)
    Subject._start = start
    from attnprune_verify.cli.main import main
    try:
        main(sys.argv[1:])
    except SystemExit:
        late = [name for name in set(sys.modules) - seen[0] if getattr(sys.modules[name], "__file__", None)]
        print("late", sorted(late), file=sys.stderr)
    """
    code = "def attention(X, W, mask=None):\n    A = np.exp(X @ W @ X.T / 2)\n    return A / A.sum(-1, keepdims=True)\n"
    path = subject(
        tmp_path, "import numpy as np\ndef attack(): pass\n", code + ZEROES.replace("right", "(lambda *a: 1)")
    )
    for form in ("text", "html"):
        arguments = ["audit", str(path), "--only", "attention", "--only", "loss", "--format", form]
        done = subprocess.run([sys.executable, "-c", dedent(program), *arguments, "--out", str(tmp_path / "report")],
                              capture_output=True, text=True, check=False)  # fmt: skip
        assert done.stderr.endswith("late []\n"), done.stderr


@attack("B", "a subject that is audited twice leaves a module beside itself for the second run",
        stopped_by="attnprune_verify.audit.subject.landlock:restrict")  # fmt: skip
def test_module_left_for_the_next_run(tmp_path: Path) -> None:
    attack = "def attack():\n    open(__file__.replace('subject', 'numpy'), 'w').write('')\n"
    result = audited(tmp_path, attack)
    assert any("PermissionError" in record.reason or "Read-only" in record.reason for record in result.checks)
    assert not (tmp_path / "numpy.py").exists()


# B2: arguments and earlier results


@attack("B", "a profile hook puts M back before the worker's next line",
        stopped_by="attnprune_verify.audit.subject.functions:Functions.answer", quick=True)  # fmt: skip
def test_profile_hook(tmp_path: Path) -> None:
    changes(
        tmp_path, "sys.setprofile(lambda frame, event, what: put_back() if frame.f_code.co_name != 'loss' else None)"
    )


@attack("B", "a profile hook puts q of an attention kernel back, in NumPy and in torch",
        stopped_by="attnprune_verify.audit.kernel.process.bridge:bridged")  # fmt: skip
@pytest.mark.parametrize(("framework", "copy"), [("numpy", "q.copy()"), ("torch", "q.clone()")])
def test_profile_hook_of_a_kernel(tmp_path: Path, framework: str, copy: str) -> None:
    pytest.importorskip(framework)
    code = """
import sys
FRAMEWORK = "{0}"
def attention(q, k, v):
    old = {1}
    sys.setprofile(lambda frame, *_: q.__setitem__(..., old) if frame.f_code.co_name != "attention" else None)
    q[...] = 0
    return v
"""
    found = run_kernel_audit(str(subject(tmp_path, "", code.format(framework, copy)))).checks
    (record,) = [one for one in found if one.id == "attention:inputs-untouched"]
    assert record.status == "failed" and "changes its input q" in record.reason, record


@attack("B", "a trace of every line and instruction of the calling frame puts M back",
        stopped_by="attnprune_verify.audit.subject.functions:Functions.answer")  # fmt: skip
def test_trace_of_instructions(tmp_path: Path) -> None:
    changes(
        tmp_path,
        """
        def hook(frame, event, what):
            put_back()
            return hook
        caller = sys._getframe(3)
        caller.f_trace, caller.f_trace_opcodes = hook, True
        sys.settrace(hook)
    """,
    )


@attack("B", "lists, dictionaries and byte arrays in the caller's frames are emptied", stopped_by=LINE)
def test_frame_locals(tmp_path: Path) -> None:
    attack = """
    import sys
    def attack(M):
        frame = sys._getframe(2)
        while frame is not None:
            for name, value in list(frame.f_locals.items()):
                if name in ("changed", "before", "after", "given", "kept", "_kept"):
                    getattr(value, "clear", int)()
            frame = frame.f_back
    """
    code = REFERENCE + ZEROES.replace("    return", "    attack(M)\n    return")
    found = audited(tmp_path, attack, code, only="loss:inputs-untouched").checks
    assert [record.diagnosis for record in found] == [("mutates-input",)], found


@attack("B", "a thread puts M back a millisecond later",
        stopped_by="attnprune_verify.audit.subject.functions:Functions.answer")  # fmt: skip
def test_thread_that_puts_back(tmp_path: Path) -> None:
    changes(tmp_path, "threading.Timer(0.001, put_back).start()")


@attack("B", "a signal of a timer puts M back between two lines",
        stopped_by="attnprune_verify.audit.subject.functions:Functions.answer")  # fmt: skip
def test_signal_that_puts_back(tmp_path: Path) -> None:
    changes(
        tmp_path, "signal.signal(signal.SIGALRM, lambda *_: put_back()); signal.setitimer(signal.ITIMER_REAL, 5e-4)"
    )


def changes(folder: Path, hide: str) -> None:
    """A loss that zeroes M, and hides it by what follows, is found."""
    attack = f"""
import os, signal, sys, threading
from textwrap import dedent
HIDE = compile(dedent({hide!r}), "hide", "exec")
def attack(M):
    old = M.copy()
    def put_back():
        M[:] = old
    exec(HIDE, dict(globals(), put_back=put_back))
"""
    code = REFERENCE + ZEROES.replace("    M[:] = 0\n", "    attack(M)\n    M[:] = 0\n")
    found = audited(folder, attack, code, only="loss:inputs-untouched").checks
    assert [record.diagnosis for record in found] == [("mutates-input",)], found


@attack("B", "results are written into one array again and again, and the worker's memory of them is emptied",
        stopped_by="attnprune_verify.audit.subject.process:Subject._overwritten")  # fmt: skip
def test_results_overwritten(tmp_path: Path) -> None:
    code = """
import sys
import numpy as np
from attnprune_verify import gradient as right
one = {}
def gradient(M, X, W, lam=0.0, mask=None):
    kept = one.setdefault(W.shape, np.empty(W.shape))
    kept[:] = right(M, X, W, lam, mask)
    frame = sys._getframe(1)
    while frame is not None and FORGET:
        for value in frame.f_locals.values():
            getattr(value, "_kept", {}).clear()
        frame = frame.f_back
    return kept
"""
    for forget in ("False", "True"):
        result = audited(tmp_path, f"FORGET = {forget}\n", code, only="gradient")
        assert result.outcome != "passed"
    assert not any(record.status == "passed" and "later" in record.says for record in result.checks)


@undefended("B", "a program that recognises the audit's process behaves otherwise there: here it gives its own "
            "function copies of the arguments")  # fmt: skip
def test_recognises_the_audit(tmp_path: Path) -> None:
    code = REFERENCE + ZEROES.replace("    M[:] = 0", "    M = M.copy() if AUDITED else M\n    M[:] = 0")
    attack = "import sys\nAUDITED = 'attnprune_verify.audit.subject.worker' in sys.modules\n"
    assert audited(tmp_path, attack, code, only="loss:inputs-untouched").outcome == "passed"


@undefended("B", "a program returns numbers that it has computed with this package")
def test_computed_with_this_package(tmp_path: Path) -> None:
    assert audited(tmp_path, "", "from attnprune_verify import causal_mask\n").outcome == "passed"


# What the worker says


@attack("B", "the step that sends the memory of the arguments is changed in place, and sends a copy",
        stopped_by=LINE)  # fmt: skip
def test_setstate_of_a_step(tmp_path: Path) -> None:
    hidden(
        tmp_path,
        """
        frame = sys._getframe(2)
        while "after" not in frame.f_locals:
            frame = frame.f_back
        step = frame.f_locals["after"][0]
        outbox, (word, view) = step.args
        step.__setstate__((step.func, (outbox, (word, bytes(view))), {}, None))
        """,
    )


@attack("B", "pages of the arguments are mapped anew, so that the file in which they lay stays as it was",
        stopped_by=LINE)  # fmt: skip
def test_pages_mapped_anew(tmp_path: Path) -> None:
    hidden(
        tmp_path,
        """
        import ctypes
        mmap = ctypes.CDLL(None).mmap
        mmap.restype, mmap.argtypes = ctypes.c_size_t, [*[ctypes.c_size_t] * 2, *[ctypes.c_int] * 3, ctypes.c_long]
        first = M.__array_interface__["data"][0] // 4096 * 4096
        old = ctypes.string_at(first, 4096)
        assert mmap(first, 4096, 3, 0x32, -1, 0) == first
        ctypes.memmove(first, old, 4096)
        """,
    )


@attack("B", "six processes that share the memory of the arguments put it back after the call", stopped_by=LINE)
def test_processes_that_put_back(tmp_path: Path) -> None:
    hidden(
        tmp_path,
        """
        old = M.copy()
        for _ in range(6):
            if os.fork() == 0:
                time.sleep(0.001)
                for _ in range(1000):
                    M[:] = old
                os._exit(0)
        """,
    )


@attack("B", "an array inside a mapping that is an argument is changed", stopped_by=LINE)
def test_arrays_inside_a_mapping(tmp_path: Path) -> None:
    with Subject(
        parse_target(str(subject(tmp_path, "", "def loss(head):\n    head['W'][0] = 5\n    return 0.0\n"))), ("loss",)
    ) as one:
        assert one.call("loss", [{"W": np.zeros(3), "heads": 1}]).changed == (0,)


def hidden(folder: Path, hide: str) -> None:
    """A loss that hides by these lines that it then zeroes M is found."""
    attack = f"import os, sys, time\ndef attack(M):\n{textwrap.indent(dedent(hide), '    ')}\n"
    code = REFERENCE + ZEROES.replace("    M[:] = 0\n", "    attack(M)\n    M[:] = 0\n")
    found = audited(folder, attack, code, only="loss:inputs-untouched").checks
    assert [record.diagnosis for record in found] == [("mutates-input",)], found


@attack("B", "results are written into one array, of which the worker's memory keeps copies; whole, turned over, or "
        "in a larger one", stopped_by="attnprune_verify.audit.subject.process:Subject._written_over")  # fmt: skip
@pytest.mark.parametrize("made", ["np.empty(shape)", "np.empty(shape[::-1]).T", "np.empty((9, *shape))[4, ::-1]"])
def test_results_of_which_copies_are_kept(tmp_path: Path, made: str) -> None:
    code = f"""
import sys
import numpy as np
from attnprune_verify import gradient as right
class Copies(dict):
    def __setitem__(self, number, parts):
        dict.__setitem__(self, number, [part.copy() for part in parts])
one = {{}}
def gradient(M, X, W, lam=0.0, mask=None):
    shape = W.shape
    kept = one.setdefault(shape, {made})
    kept[:] = right(M, X, W, lam, mask)
    frame = sys._getframe(1)
    while frame is not None:
        for value in frame.f_locals.values():
            if isinstance(getattr(value, "_kept", None), dict):
                value._kept = Copies(value._kept)
        frame = frame.f_back
    return kept
"""
    (record,) = audited(tmp_path, "", code, only="gradient:results-kept").checks
    assert record.diagnosis == ("overwrites-results",), record


KERNEL = """
import sys, time
import numpy as np
def attention(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1], dtype=q.dtype)
    p = np.exp(s - s.max(-1, keepdims=True))
    o = p / p.sum(-1, keepdims=True) @ v
    attack(q, o)
    return o
"""


@attack("B", "the bridge to a kernel is made to say that an input's bits are those before the call",
        stopped_by="attnprune_verify.audit.kernel.process.context:KernelContext._call")  # fmt: skip
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_bits_that_lie(tmp_path: Path, dtype: str) -> None:
    attack = """
def attack(q, o):
    frame = sys._getframe(2)
    while not hasattr(frame.f_locals.get("self"), "framework"):
        frame = frame.f_back
    type(frame.f_locals["self"].framework).bits = lambda *_: b""
    q *= 2
"""
    path = str(subject(tmp_path, attack, KERNEL))
    (record,) = run_kernel_audit(path, dtype, only="attention:inputs-untouched").checks
    assert record.status == "failed" and "changes its input q" in record.reason, record


@attack("B", "the clocks of the subject's process run away, or stand, where many equal calls are asked for",
        stopped_by="attnprune_verify.audit.kernel.process.context:KernelContext.repeat")  # fmt: skip
@pytest.mark.parametrize(("mode", "step"), [("many", 1e6), ("many", 0.0), ("bitwise", 1e6)])
def test_clocks_that_run_away(tmp_path: Path, mode: str, step: float) -> None:
    attack = f"""
import itertools
calls, ticks = itertools.count(1), itertools.count(0.0, {step})
time.process_time = time.perf_counter = time.monotonic = lambda: next(ticks)
def attack(q, o):
    if next(calls) % 47 == 0:
        o += 1
"""
    path = str(subject(tmp_path, KERNEL.split("def")[0] + attack, KERNEL))
    (record,) = run_kernel_audit(path, modes=mode, only=f"attention:mode:{mode}").checks
    assert record.status == "failed", record


@undefended("B", "a program that changes the worker's step *and* maps its arguments anew: it has given its own "
            "function copies")  # fmt: skip
def test_step_and_pages(tmp_path: Path) -> None:
    attack = """
import ctypes, sys
def attack(M):
    frame = sys._getframe(2)
    while "after" not in frame.f_locals:
        frame = frame.f_back
    step = frame.f_locals["after"][0]
    outbox, (word, view) = step.args
    step.__setstate__((step.func, (outbox, (word, bytes(view))), {}, None))
    mmap = ctypes.CDLL(None).mmap
    mmap.restype, mmap.argtypes = ctypes.c_size_t, [*[ctypes.c_size_t] * 2, *[ctypes.c_int] * 3, ctypes.c_long]
    first = M.__array_interface__["data"][0] // 4096 * 4096
    size = (M.__array_interface__["data"][0] + M.nbytes - first + 4095) // 4096 * 4096
    old = ctypes.string_at(first, size)
    assert mmap(first, size, 3, 0x32, -1, 0) == first
    ctypes.memmove(first, old, size)
"""
    code = REFERENCE + ZEROES.replace("    M[:] = 0\n", "    attack(M)\n    M[:] = 0\n")
    assert audited(tmp_path, attack, code, only="loss:inputs-untouched").outcome == "passed"


# B3: the line and the terminal

FORGER = """
import os, struct, sys, threading, time
from attnprune_verify.audit.subject import wire, worker
import numpy as np
def channels():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink("/proc/self/fd/" + name)
        except OSError:
            continue
        if kind.startswith(("pipe", "socket")):
            found.append(int(name))
    return sorted(found)
INBOX, OUTBOX = (channels() + [0, 0])[:2]
def forged(ticket, n=3):
    answer = {"status": "returned", "parts": [np.tri(n)], "seconds": 1e-6, "again": {}, "detached": False}
    return ticket + wire.encode(answer)
"""


@attack("B", "a thread writes answers of its own into the pipe", stopped_by=LINE, quick=True)
def test_thread_that_answers(tmp_path: Path) -> None:
    attack = (
        FORGER
        + """
def answering():
    time.sleep(0.02)
    os.write(OUTBOX, forged(b"0" * 16))
def attack():
    threading.Thread(target=answering).start()
    time.sleep(0.1)
"""
    )
    out_of_turn(audited(tmp_path, attack))


@attack("B", "a thread tells the end of the call, reads the ticket and answers, before the function returns",
        stopped_by="attnprune_verify.audit.subject.line:Line._expect_silence")  # fmt: skip
def test_thread_that_reads_the_ticket(tmp_path: Path) -> None:
    attack = (
        FORGER
        + """
def answering(n):
    os.write(OUTBOX, worker.ENDED)
    os.write(OUTBOX, forged(os.read(INBOX, 16), n))
def attack():
    thread = threading.Thread(target=answering, args=(sys._getframe(1).f_locals["n"],))
    thread.start()
    thread.join()
"""
    )
    out_of_turn(audited(tmp_path, attack))


@attack("B", "a process that the subject leaves behind writes into the pipe between two calls",
        stopped_by="attnprune_verify.audit.subject.line:Line._expect_silence")  # fmt: skip
def test_process_that_answers(tmp_path: Path) -> None:
    attack = (
        FORGER
        + """
if os.fork() == 0:
    while True:
        time.sleep(0.01)
        os.write(OUTBOX, forged(b"0" * 16))
def attack():
    time.sleep(0.05)
"""
    )
    out_of_turn(audited(tmp_path, attack))


@attack("B", "the import writes an answer for each question to come", stopped_by=LINE)
def test_answers_in_advance(tmp_path: Path) -> None:
    out_of_turn(
        audited(tmp_path, FORGER + "for _ in range(50): os.write(OUTBOX, forged(b'0' * 16))\ndef attack(): pass\n")
    )


def out_of_turn(result: AuditResult) -> None:
    """The run is over: nothing is passed, and what is left could not run."""
    assert result.outcome == "incomplete" and result.exit_code == 3, result
    assert not any(record.status == "passed" for record in result.checks)
    assert any("broke the line to the audit" in record.reason for record in result.checks)


@undefended("B", "a thread that takes the worker's place for good: what it answers is judged as any answer")
def test_takes_the_workers_place(tmp_path: Path) -> None:
    attack = (
        FORGER
        + """
def attack():
    pass
_real = worker._Ends.request
def request(self):
    message, copy = _real(self)
    message["function"] = "right"
    return message, copy
worker._Ends.request = request
import attnprune_verify.audit.subject.functions as functions
functions.Functions.answer.__globals__["_partial"] = lambda f, *a, **k: (lambda: np.tri(a[0] if a else k["n"]))
_found = functions.Functions.__init__
def init(self, *a):
    _found(self, *a)
    self.found["right"] = None
functions.Functions.__init__ = init
"""
    )
    assert audited(tmp_path, attack).outcome == "passed"


@attack("B", "a verdict is written to every terminal and stream that can be found",
        stopped_by="attnprune_verify.audit.subject.landlock:restrict")  # fmt: skip
def test_terminal(tmp_path: Path) -> None:
    attack = """
    import glob, os
    def attack():
        places = [*glob.glob("/dev/pts/*"), "/dev/tty", "/dev/console", *glob.glob("/proc/*/fd/[012]")]
        for place in places:
            try:
                os.write(os.open(place, os.O_WRONLY | os.O_NOCTTY), b"FORGED VERDICT: passed\\n")
            except OSError:
                pass
        for stream in (0, 1, 2):
            try:
                os.write(stream, b"FORGED VERDICT: passed\\n")
            except OSError:
                pass
    """
    path = subject(tmp_path, attack)
    ours, theirs = pty.openpty()
    program = [sys.executable, "-m", "attnprune_verify", "audit", str(path), "--only", "causal_mask"]
    seen: list[bytes] = []
    reader = threading.Thread(target=lambda: seen.extend(iter(lambda: _from(ours), b"")), daemon=True)
    reader.start()
    done = subprocess.run(program, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, check=False)
    os.close(theirs)
    reader.join(5.0)
    text = b"".join(seen)
    assert done.returncode == 1 and b"mask-strict" in text and b"FORGED" not in text


def _from(channel: int) -> bytes:
    try:
        return os.read(channel, 4096)
    except OSError:
        return b""


@attack("B", "builtins are patched, so that the target's names cannot be listed", stopped_by=START)
def test_patched_builtins(tmp_path: Path) -> None:
    attack = "import builtins\ndef no(*_):\n    raise ValueError('no')\nbuiltins.getattr = no\ndef attack(): pass\n"
    done = run(tmp_path, subject(tmp_path, attack), "--only", "causal_mask", "--format", "json")
    assert done.returncode == 3 and json.loads(done.stdout)["outcome"] == "incomplete", done.stderr


@attack("B", "names of the target raise, exit or kill while they are listed", stopped_by=START)
def test_names_that_raise(tmp_path: Path) -> None:
    for way in ("raise KeyboardInterrupt", "raise SystemExit(0)", "import os; os._exit(0)", "return Odd()"):
        attack = (
            "class Odd:\n    def __call__(self): pass\n    @property\n    def __signature__(self): raise ValueError\n"
        )
        code = f"def __getattr__(name):\n    if name == 'causal_mask':\n        {way}\n    raise AttributeError(name)\n"
        result = audited(tmp_path, attack, code)
        assert result.outcome == "incomplete", (way, result)


@attack("B", "an answer is far larger than its arguments justify",
        stopped_by="attnprune_verify.audit.subject.process:largest_answer")  # fmt: skip
def test_large_answer(tmp_path: Path) -> None:
    code = "import numpy as np\ndef causal_mask(n):\n    return np.zeros((1000, 1000))\n"
    found = audited(tmp_path, "", code)
    assert found.outcome == "failed" and any("returns 8 MB" in record.reason for record in found.checks)


@attack(
    "B", "a megabyte of words in the place of an answer", stopped_by="attnprune_verify.audit.subject.line:Line._reply"
)
def test_long_words(tmp_path: Path) -> None:
    attack = (
        FORGER
        + """
def attack():
    worker.wire.encode.__globals__["_dumps"] = lambda value: '{"tree": "' + "x" * 1_500_000 + '", "arrays": []}'
"""
    )
    result = audited(tmp_path, attack)
    assert result.outcome == "incomplete" and any("bytes" in record.reason for record in result.checks)


# B4: the same questions every time


def _from_a_table(answers: dict[tuple[bytes, float], np.ndarray], **terms: Any) -> AuditResult:
    """A program that knows the answers to the questions of one audit with the default seed, and of earlier ones."""

    def recorded(M: np.ndarray, rho: float) -> np.ndarray:
        return answers.setdefault((M.tobytes(), float(rho)), attnprune_verify.binary_mask(M, rho))

    def remembered(M: np.ndarray, rho: float) -> np.ndarray:
        return answers.get((M.tobytes(), float(rho)), np.zeros(M.shape))

    recorded.FRAMEWORK = remembered.FRAMEWORK = "torch"  # type: ignore[attr-defined]  # both run here, as the table is
    assert run_audit({"binary_mask": recorded}, only="binary_mask").outcome == "passed"
    return run_audit({"binary_mask": remembered}, only="binary_mask", **terms)


@attack("B", "a table of inputs and answers of the default seed",
        stopped_by="attnprune_verify.audit.subject.terms:drawn")  # fmt: skip
def test_table_of_inputs() -> None:
    assert _from_a_table({}, seed="random").outcome == "failed"


@attack("B", "a table that grows with every audit", stopped_by="attnprune_verify.audit.subject.terms:drawn")
def test_table_that_grows() -> None:
    answers: dict[tuple[bytes, float], np.ndarray] = {}
    assert _from_a_table(answers, seed="random").outcome == _from_a_table(answers, seed="random").outcome == "failed"


@undefended("B", "with a seed that is known in advance, a table of inputs passes")
def test_table_of_a_known_seed() -> None:
    assert _from_a_table({}).outcome == "passed"

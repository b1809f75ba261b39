"""Nothing a subject does ends the audit or bends its verdicts; every accident has a clear record."""

import json
import textwrap

import numpy as np
import pytest

from attnprune_verify.audit.functions.auditor import Auditor
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.result import outcome_of
from attnprune_verify.audit.subject.answers import SubjectLost
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.audit.subject.target import parse_target
from attnprune_verify.errors import InvalidInstance

RIGHT = """
import numpy as np

def causal_mask(n):
    return np.tri(n)

def binary_mask(M, rho):
    gone = np.zeros(M.size, dtype=bool)
    gone[np.argsort(M.ravel(), kind="stable")[: int(rho * M.size)]] = True
    return np.where(gone.reshape(M.shape), 0.0, 1.0)
"""


@pytest.fixture
def audit(tmp_path):
    """Audit a source text, a few functions only."""

    def run(source, only=("causal_mask", "binary_mask", "loss"), seconds=30.0, quick=True):
        path = tmp_path / "subject.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        with Auditor(str(path), only=only, quick=quick) as auditor:
            auditor.subject.seconds_per_call = seconds
            records = tuple(auditor.record(check) for check in auditor.checks)
        return {record.id: record for record in records}, outcome_of(records, len(records))

    return run


@pytest.mark.parametrize(
    ("accident", "said"),
    [
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("import os; os._exit(0)", "exit code 0"),
        pytest.param("import os; os.kill(os.getpid(), 9)", "SIGKILL", marks=pytest.mark.thorough),
        pytest.param("import os; os.abort()", "SIGABRT", marks=pytest.mark.thorough),
        ("import sys; sys.exit(0)", "sys.exit(0) was called"),
        pytest.param("raise KeyboardInterrupt", "KeyboardInterrupt", marks=pytest.mark.thorough),
        ("raise RuntimeError('no kernel\\nfor this')", "RuntimeError: no kernel for this"),
        ("1 / 0", "ZeroDivisionError"),
        pytest.param("def f(): return f()\n    f()", "RecursionError", marks=pytest.mark.thorough),
        pytest.param("import os; os.closerange(3, 1000)", "interpreter", marks=pytest.mark.thorough),
        ("import os; os.fork(); os._exit(3)", "exit code 3"),
    ],
)
def test_an_accident_is_recorded_and_the_rest_is_judged(audit, accident, said):
    records, outcome = audit(f"{RIGHT}\ndef loss(M, X, W, lam=0.0, mask=None):\n    {accident}\n")
    losses = [record for id, record in records.items() if id.startswith("loss:")]
    assert {record.status for record in losses} <= {"could_not_run", "not_applicable"}
    assert any(said in record.reason for record in losses)
    assert records["causal_mask:values"].status == records["binary_mask:ties"].status == "passed"
    assert outcome == "incomplete"


@pytest.mark.parametrize(
    "message",
    [
        "b'hello'",
        pytest.param("pack('<Q', 2) + b'{}'", marks=pytest.mark.thorough),
        pytest.param("pack('<Q', 90000) + b'[' * 90000", marks=pytest.mark.thorough),
        'header(b\'{"arrays": [], "tree": {"status": "returned"}}\')',
        pytest.param(
            'header(b\'{"arrays": [], "tree": {"status": "returned", "parts": ["1"], "changed": [], \''
            "b'\"seconds\": 0}}')",
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_what_is_written_into_every_open_file_reaches_nobody(audit, message):
    scribble = f"""
    import os
    from struct import pack
    header = lambda text: pack("<Q", len(text)) + text
    for channel in range(3, 32):
        try:
            message = {message}
            os.write(channel, pack("<Q", len(message)) + message)
        except OSError:
            pass
    """
    body = textwrap.indent(textwrap.dedent(scribble), "    ")
    records, outcome = audit(f"{RIGHT}\ndef loss(M, X, W, lam=0.0, mask=None):\n{body}\n")
    assert "broke the line to the audit" in records["loss:shape"].reason
    assert records["causal_mask:values"].status == "passed"
    assert {records[id].status for id in records if id.startswith("binary_mask")} == {"could_not_run"}
    assert outcome == "incomplete"


def test_an_endless_loop_is_stopped_once(audit):
    records, outcome = audit(f"{RIGHT}\ndef loss(M, X, W, lam=0.0, mask=None):\n    while True: pass\n", seconds=0.2)
    reasons = [record.reason for id, record in records.items() if id.startswith("loss:")]
    assert sum("did not end within 0.2 s" in reason for reason in reasons) >= 1
    assert any("not called any more" in reason for reason in reasons)
    assert records["binary_mask:values"].status == "passed" and outcome == "incomplete"


def test_a_request_larger_than_a_pipe_waits_for_nobody(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(
        "import time\nfrom attnprune_verify.audit.subject.worker import _Ends\ndef loss(X):\n"
        "    _Ends.request = lambda _: time.sleep(9)\n    return 0\n"
    )
    with Subject(parse_target(str(path)), ("loss",), seconds_per_call=0.05) as subject:
        subject.call("loss", [np.ones(1)])  # after which it listens no more
        with pytest.raises(SubjectLost, match=r"did not end within 0\.5 s"):
            subject.call("loss", [np.ones(1 << 16)])


def test_earlier_results_that_are_read_again_do_not_count_as_the_answer(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text("import numpy as np\ndef loss(X):\n    return np.zeros(int(X[0]))\n")
    with Subject(parse_target(str(path)), ("loss",)) as subject:
        for numbers in (130_000, 130_000, 1):  # a megabyte each, and the next answer carries both once more
            subject.call("loss", [np.array([numbers], float)])


def test_memory_without_end_is_an_error_of_the_subject(audit):
    greedy = "import numpy as np\n    keep = [np.empty(1 << 28) for _ in range(8)]"  # 16 GiB, never touched
    records, outcome = audit(f"{RIGHT}\ndef loss(M, X, W, lam=0.0, mask=None):\n    {greedy}\n")
    assert "MemoryError" in records["loss:shape"].reason
    assert records["binary_mask:ties"].status == "passed" and outcome == "incomplete"


def test_removed_modules_harm_no_right_answer(audit):
    removing = """
    import sys
    def causal_mask(n):
        for name in [name for name in sys.modules if name.startswith(("numpy", "json", "struct"))]:
            del sys.modules[name]
        return [[float(i >= j) for j in range(n)] for i in range(n)]
    """
    _, outcome = audit(removing, only=("causal_mask",))
    assert outcome == "passed"


def test_megabytes_of_output_go_nowhere(audit, capfd):
    noisy = RIGHT.replace(
        "    return np.tri(n)",
        "    import sys; print('x' * 5_000_000); sys.stderr.write('y' * 5_000_000)\n    return np.tri(n)",
    )
    records, outcome = audit("print('z' * 1_000_000)\n" + noisy)
    assert outcome == "passed" and records["causal_mask:values"].status == "passed"
    assert capfd.readouterr() == ("", "")


def test_a_replaced_numpy_harms_only_the_subject(audit):
    patch = """
    import json, struct
    for name in ("asarray", "array", "frombuffer", "isfinite", "abs", "tri", "where", "zeros"):
        setattr(np, name, lambda *a, **k: 7)
    np.linalg.norm = np.allclose = lambda *a, **k: 0.0
    json.dumps = json.loads = struct.pack = struct.unpack = None
    """
    right = RIGHT.replace("import numpy as np", "import numpy as np\ntri, zeros, where = np.tri, np.zeros, np.where")
    right = right.replace("np.tri(", "tri(").replace("np.zeros(", "zeros(").replace("np.where(", "where(")
    records, outcome = audit(right + textwrap.dedent(patch))
    assert outcome == "passed"
    wrong = right.replace("tri(n)", "tri(n, k=-1)") + textwrap.dedent(patch)
    records, outcome = audit(wrong)
    assert records["causal_mask:values"].diagnosis == ("mask-strict",) and outcome == "failed"


@pytest.mark.parametrize(
    "value",
    [
        "float('nan')",
        "None",
        "[1.0, 2.0]",
        *(
            pytest.param(value, marks=pytest.mark.thorough)
            for value in ("float('inf')", "'0.5'", "1j", "object()", "{}")
        ),
    ],
)
def test_a_useless_value_is_a_failure(audit, value):
    records, outcome = audit(f"def loss(M, X, W, lam=0.0, mask=None):\n    return {value}\n", only=("loss",))
    assert outcome == "failed" and records["loss:values:full"].status == "failed"


def test_nan_in_some_calls_is_no_warning(audit):
    """`filterwarnings` makes a warning of the audit an error here; users would read its source line."""
    source = """
    import numpy as np
    CALLS = []
    def attention(X, W, mask=None):
        CALLS.append(0)
        return np.eye(len(X)) * (np.nan if len(CALLS) % 2 else 1)
    """
    records, outcome = audit(source, only=("attention:deterministic",))
    assert outcome == "failed"
    assert "differ by inf" in records["attention:deterministic"].reason


def test_a_huge_answer_is_refused(audit):
    source = "import numpy as np\ndef loss(M, X, W, lam=0.0, mask=None):\n    return np.zeros((6_000, 6_000))\n"
    records, outcome = audit(source, only=("loss",), seconds=20.0)
    assert outcome == "failed"
    assert records["loss:values:full"].diagnosis == ("wrong-shape",)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError"),
        ("def f(:", "SyntaxError"),
        ("raise ValueError('two\\nlines')", "two lines"),
        ("import sys; sys.exit(3)", "sys.exit(3) was called"),
        ("import os; os._exit(3)", "exit code 3"),
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV"),
        ("x = 1", "has none of them"),
    ],
)
def test_a_target_that_cannot_be_imported_is_one_line(tmp_path, source, said):
    path = tmp_path / "subject.py"
    path.write_text(source, encoding="utf-8")
    with pytest.raises(InvalidInstance) as caught:
        run_audit(str(path))
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_words_that_no_report_can_hold_are_replaced(audit):
    source = """
    import numpy as np
    __version__ = "1.0\\ud800"
    def loss(M, X, W, lam=0.0, mask=None):
        raise ValueError("\\ud800 \\x00 \\x1b[31m \\x07")
    """
    records, _ = audit(source, only=("loss",))
    assert records["loss:shape"].reason.endswith("ValueError: \ufffd \ufffd \ufffd[31m \ufffd")
    json.dumps([record.as_dict() for record in records.values()], ensure_ascii=False).encode("utf-8")


def test_a_name_that_cannot_be_had_could_not_run(audit):
    lazy = """
def __getattr__(name):
    if name == "loss":
        raise ImportError("needs a GPU")
    raise AttributeError(name)
"""
    records, outcome = audit(RIGHT + lazy)
    assert "needs a GPU" in records["loss:values:full"].reason and outcome == "incomplete"
    records, outcome = audit(RIGHT + "\nloss = 3\n")
    assert records["loss:shape"].status == "could_not_run"


@pytest.mark.thorough
def test_an_arithmetic_error_on_large_logits_is_a_wrong_answer(audit):
    source = """
    import math
    import numpy as np

    def attention(X, W, mask=None):
        logits = (X @ W @ X.T).tolist()
        places = np.ones((len(X), len(X))) if mask is None else mask
        weights = [[math.exp(z) if places[i][j] else 0.0 for j, z in enumerate(row)] for i, row in enumerate(logits)]
        return [[w / sum(row) for w in row] for row in weights]
    """
    records, outcome = audit(source, only=("attention",))
    assert outcome == "failed"
    assert records["attention:values:full"].status == "passed"
    assert records["attention:values:logits-1000"].diagnosis == ("unstable-exp",)


def test_what_is_too_slow_for_the_largest_instances_is_right_all_the_same(audit):
    """One call that did not end left the later check of what is remembered without an answer."""
    source = """
    import time
    import numpy as np

    def attention(X, W, mask=None):
        if X.shape[-2] > 280:
            time.sleep(60)  # of which ten times the seconds of a call are waited for
        logits = X @ W @ np.swapaxes(X, -1, -2)
        allowed = np.ones(logits.shape[-2:], dtype=bool) if mask is None else np.asarray(mask) != 0
        shift = np.max(np.where(allowed, logits, -np.inf), axis=-1, keepdims=True)
        weights = np.where(allowed, np.exp(np.where(allowed, logits - shift, 0)), 0)
        return weights / weights.sum(axis=-1, keepdims=True)
    """
    records, outcome = audit(source, only=("attention",), seconds=0.15, quick=False)
    assert "did not end" in records["attention:values:sizes"].reason
    assert records["attention:one-changed"].status == "not_applicable" and outcome == "passed"

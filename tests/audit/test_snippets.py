"""Snippets run as pasted, in a fresh interpreter and another folder, and print where result and truth disagree."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.functions.auditor import Auditor
from attnprune_verify.audit.functions.naming.snippet import array_code
from attnprune_verify.audit.functions.run import run_audit

STRICT = "import numpy as np\n\ndef causal_mask(n):\n    return np.tri(n, k=-1)\n"
FILES = {
    "plain.py": STRICT,
    "standard/random.py": STRICT,  # a name of the standard library
    "two-words.py": STRICT,
    "sibling.py": "from plain import causal_mask\n",
    "methods.py": STRICT
    + "class Methods:\n    def causal_mask(self, n):\n        return causal_mask(n)\n"
    + "class Static:\n    def __init__(self, size):\n        pass\n    causal_mask = staticmethod(causal_mask)\n"
    + "class Outer:\n    inner = Methods()\n"
    + "table = {'causal_mask': causal_mask}\nmine = causal_mask\n",
    "package/__init__.py": "from .relative import causal_mask\n",
    "package/strict.py": STRICT,
    "package/relative.py": "from .strict import causal_mask\n",
    "package/deep/__init__.py": "",
    "package/deep/deeper.py": "from ..strict import causal_mask\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "code")
    return tmp_path


def executed(snippet, folder, before=""):
    """Return the output of the snippet in an interpreter of its own."""
    program = folder / "elsewhere" / "pasted.py"
    program.write_text(before + snippet, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, str(program)], cwd=program.parent, capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


FORKS = """
import os, runpy, sys
import numpy
for path in sys.argv[1:]:
    print(path, flush=True)
    if not os.fork():
        runpy.run_path(path, run_name="__main__")
        sys.exit()
    assert os.wait()[1] == 0
"""


def executed_apart(snippets, folder):
    """Return the output of each snippet, in a fork of one fresh interpreter that has imported NumPy alone."""
    paths = [str(folder / "elsewhere" / f"pasted{place}.py") for place in range(len(snippets))]
    for path, snippet in zip(paths, snippets, strict=True):
        Path(path).write_text(snippet, encoding="utf-8")
    (folder / "elsewhere" / "forks.py").write_text(FORKS, encoding="utf-8")
    command = [sys.executable, str(folder / "elsewhere" / "forks.py"), *paths]
    run = subprocess.run(command, cwd=folder / "elsewhere", capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stderr
    return re.split("|".join(map(re.escape, paths)), run.stdout)[1:]


def on_a_terminal(snippet):
    """The lines of a report 80 columns wide, indented there, broken between words and pasted from there."""
    lines = (textwrap.wrap(line, 76, break_long_words=False, break_on_hyphens=False) for line in snippet.splitlines())
    return "\n".join("\n".join(some) for some in lines)


def failed(target, function):
    """The first check that fails; those after it do not run."""
    with Auditor(target, only=(function,)) as auditor:
        records = map(auditor.record, auditor.checks)
        return next(record for record in records if record.status == "failed")


TARGETS = (
    "standard/random.py",
    "two-words.py",
    "sibling.py",
    "methods.py:Static",
    "methods.py:Outer.inner",
    "methods.py:table",
    "plain",
    "methods:Methods",
    "package",
    "package/__init__.py",
    "package/deep/deeper.py",
)
MORE_TARGETS = (
    "plain.py",
    "methods.py:Methods",
    "methods.py:mine",
    "standard/random.py:causal_mask",
    "methods:table",
    "methods:mine",
    "package.relative",
    "package/relative.py",
    "package.deep.deeper:causal_mask",
)


@pytest.mark.parametrize("targets", [TARGETS, pytest.param(MORE_TARGETS, marks=pytest.mark.thorough)])
def test_every_kind_of_target(targets, folder):
    printed = executed_apart([failed(spec, "causal_mask").snippet for spec in targets], folder)
    assert len(printed) == len(targets)
    for spec, text in zip(targets, printed, strict=True):
        assert "they differ at [[0, 0]]" in text and "expected:" in text, spec


def test_live_objects_are_imported_where_that_finds_them(folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder / "code"))
    import methods

    live = [methods, methods.causal_mask, {"causal_mask": methods.causal_mask}, methods.Methods]
    before = f"import sys; sys.path[:0] = {sys.path!r}\n"
    printed = executed_apart([before + failed(target, "causal_mask").snippet for target in live], folder)
    assert len(printed) == len(live) and all("they differ at [[0, 0]]" in text for text in printed)


def test_what_no_import_finds_says_what_to_put_there(folder):
    snippet = failed({"causal_mask": lambda n: np.tri(n, k=-1)}, "causal_mask").snippet
    assert "# SUBJECT stands for the dict of causal_mask" in snippet
    before = "import numpy\nSUBJECT = {'causal_mask': lambda n: numpy.tri(n, k=-1)}\n"
    assert "they differ at [[0, 0]]" in executed(snippet, folder, before)


def test_what_a_notebook_defines_is_taken_by_its_name(folder):
    """In the program that audits it, the function has a name; the snippet is pasted below."""
    program = f"{STRICT}\nimport attnprune_verify as apv\nresult = apv.run_audit(causal_mask)\n"
    program += "exec(next(one.snippet for one in result.checks if one.status == 'failed'))\n"
    assert "they differ at [[0, 0]]" in executed(program, folder)


GRADIENT = """
import numpy as np
def softmax(A, mask):
    A = A if mask is None else np.where(mask == 1, A, -np.inf)
    A = np.exp(A - A.max(axis=-1, keepdims=True))
    return A / A.sum(axis=-1, keepdims=True)
def gradient(M, X, W, lam=0.0, mask=None):
    F = softmax(X @ (M * W) @ X.T, mask)
    c = F - softmax(X @ W @ X.T, mask)
    p = c * F - (c * F).sum(axis=1, keepdims=True) * F
    return W * (X.T @ p @ X) + lam * M
def loss(M, X, W, lam=0.0, mask=None):
    c = softmax(X @ (M * W) @ X.T, mask) - softmax(X @ W @ X.T, mask)
    return (c * c).sum() / 2 + lam / 2 * (M * M).sum()
"""
SELECT = """
import numpy as np
def first(values, count):
    gone = np.zeros(values.size, bool)
    gone[np.argsort(values, axis=None, kind="stable")[:count]] = True
    return gone.reshape(values.shape)
def binary_mask(M, rho):
    return 1.0 - first(M, int(rho * M.size))
def wanda_mask(weight, X, rho, *, prune_n=0, prune_m=0):
    scores = np.abs(weight) * np.linalg.norm(X.reshape(-1, X.shape[-1]), axis=0)
    if prune_m:
        parts = np.split(scores, scores.shape[1] // prune_m, axis=1)
        return np.concatenate([np.stack([first(row, prune_n) for row in part]) for part in parts], axis=1)
    return np.stack([first(row, int(rho * len(row))) for row in scores])
"""
DESCENT = (
    GRADIENT
    + SELECT
    + """
def prune_mask_gd(X, W, rho, lam, *, mask=None, eta=None, steps=100, momentum=0.0):
    M = np.ones_like(W)
    for _ in range(steps):
        M = M - (eta or 0.1) * gradient(M, X, W, lam, mask)
    return {"mask": binary_mask(M, rho), "M": M}
"""
)
SPARSE = (
    "import numpy as np\nimport attnprune_verify as apv\n"
    "def sparsegpt(weight, X, rho, *, prune_n=0, prune_m=0, blocksize=128, percdamp=0.01):\n"
    "    return apv.sparsegpt(weight, X, rho, prune_n=prune_n, prune_m=prune_m, blocksize=blocksize, percdamp=1.0)\n"
)
LAYER = (
    "import numpy as np\nimport attnprune_verify as apv\n"
    "def layer_attention(layer, X):\n    return apv.layer_attention(layer, X) ** 1.01\n"
    "def layer_gradient(layer, M_Q, M_K, X, lam=0.0):\n"
    "    G_Q, G_K = apv.layer_gradient(layer, M_Q, M_K, X, lam)\n    return G_Q, 2 * G_K\n"
)
BOTH = GRADIENT + (
    "def loss_and_gradient(M, X, W, lam=0.0, mask=None):\n"
    "    return loss(M, X, W, lam, mask), 1.5 * gradient(M, X, W, lam, mask)\n"
)


ORDER = "(a, b, c, lam=0, mask=None):\n    X, M, W = b, c, a\n    F"


@pytest.mark.parametrize(
    ("source", "old", "new", "function", "largest", "said"),
    [
        (GRADIENT, " - (c * F).sum(axis=1, keepdims=True) * F", "", "gradient", 4, "largest difference"),
        (GRADIENT, "return W * (X", "return (1 + 1e-9) * W * (X", "gradient", 9, "largest difference"),
        (BOTH, "", "", "loss_and_gradient", 4, "gradient returned:"),
        (GRADIENT, "(M, X, W, lam=0.0", "(*, W, X, M, lam=0.5", "gradient", 40, "largest difference"),
        (GRADIENT, "(M, X, W, lam=0.0, mask=None):\n    F", ORDER, "gradient", 40, "largest difference"),
        (SELECT, "int(rho * M.size)", "int(rho * M.size) + 1", "binary_mask", 2, "they differ at"),
        (SELECT, "axis=0)", "axis=0) ** 2", "wanda_mask", 12, "they differ at"),
        (DESCENT, "lam, mask)\n    return {", "2 * lam, mask)\n    return {", "prune_mask_gd", 6, "M returned:"),
        (SPARSE, "", "", "sparsegpt", 20, "new_weight returned:"),
        (LAYER, "", "", "layer_attention", 4, "largest difference"),
        (LAYER, "", "", "layer_gradient", 4, "G_K returned:"),
    ],
)  # fmt: skip
def test_the_smallest_instance_shows_the_mistake(folder, source, old, new, function, largest, said):
    """Masks, baselines, descents and layers are cut down as gradients are, and their snippets show the difference."""
    name = "an_implementation_of_the_contract.py"
    (folder / "code" / name).write_text(source.replace(old, new) if old else source, encoding="utf-8")
    record = failed(name, function)
    assert compile(on_a_terminal(record.snippet), "pasted", "exec")
    sized = "\nprint('size', max(v.size for v in list(globals().values()) if isinstance(v, np.ndarray)))"
    printed, _, size = executed(record.snippet + sized, folder).rpartition("size")
    assert said in printed and "expected" in printed
    assert int(size) <= largest, record.snippet
    differences = [line.rpartition(":")[2] for line in printed.splitlines() if "largest difference" in line]
    assert not differences or max(map(float, differences)) > 0
    if said == "they differ at":
        assert "they differ at []" not in printed


@pytest.mark.parametrize(
    ("change", "check", "said"),
    [
        ("    M *= 1.0 + 1e-3\n", "inputs-untouched", "changed inputs: ['M']"),
        ("    if np.random.rand() < 0.5:\n        lam = lam + 1\n", "deterministic", "different results of 20"),
        (
            "    if np.isfortran(M):\n        M = M.T\n",
            "layouts",
            "largest difference",
        ),
        (
            "    if mask is not None and mask.dtype == bool:\n        mask = mask.T\n",
            "mask-kinds",
            "largest difference",
        ),
        ("    if len(X) > 300:\n        X = 2 * X\n", "values:sizes", "failed"),
    ],
)
def test_what_is_wrong_about_a_program_is_shown_in_its_way(folder, change, check, said):
    text = GRADIENT.replace("lam=0.0, mask=None):\n    F", f"lam=0.0, mask=None):\n{change}    F")
    (folder / "code" / "subject.py").write_text(text, encoding="utf-8")
    names = ("gradient:values:full", f"gradient:{check}")
    look = "never" if check in ("inputs-untouched", "values:sizes") else "all"
    record = {one.id: one for one in run_audit("subject.py", only=names, names=look).checks}[names[1]]
    assert record.status == "failed", record
    where = {"cwd": folder / "code"} if check == "values:sizes" else {}
    if where:
        printed = subprocess.run([sys.executable, "-c", record.snippet], capture_output=True, text=True, **where).stdout
    else:
        printed = executed(record.snippet, folder)
    assert said in printed
    if said == "largest difference":
        assert float(printed.rpartition(":")[2]) > 1e-6
    if check == "deterministic":
        assert "equal calls: 1\n" not in printed


def test_results_that_are_overwritten_later(folder):
    text = GRADIENT.replace("    return W *", "    kept.setdefault(M.shape, np.empty(M.shape))[...] = W *")
    text = text.replace("lam * M\ndef", "lam * M\n    return kept[M.shape]\nkept = {}\ndef")
    (folder / "code" / "subject.py").write_text(text, encoding="utf-8")
    records = run_audit("subject.py", only=("gradient:values:full", "gradient:results-kept")).checks
    record = next(one for one in records if one.id == "gradient:results-kept")
    assert record.status == "failed"
    printed = executed(record.snippet, folder)
    assert float(printed.rpartition(":")[2]) > 0


def test_another_order_of_parameters_is_shown_by_the_contracts_order(folder):
    text = GRADIENT.replace("gradient(M, X, W,", "gradient(weight, tokens, pruning,").replace(
        "mask=None):\n    F", "mask=None):\n    W, X, M = weight, tokens, pruning\n    F"
    )
    (folder / "code" / "subject.py").write_text(text, encoding="utf-8")
    record = failed("subject.py", "gradient")
    assert record.diagnosis == ("argument-order",)
    program = executed(record.snippet, folder) if "gradient(M, X, W" in record.snippet else ""
    assert "largest difference" in program


def test_a_wrong_shape_shows_what_came(folder):
    (folder / "code" / "subject.py").write_text(GRADIENT.replace("+ lam * M", "+ lam * M, 1"), encoding="utf-8")
    assert "returned" in executed(failed("subject.py", "gradient").snippet, folder)


def test_tensors_are_taken_out_of_their_graph(folder):
    pytest.importorskip("torch")
    text = GRADIENT.replace("+ lam * M", "+ 2 * lam * M").replace(
        "return W * (", "return torch.nn.Parameter(torch.tensor(W * ("
    )
    text = text.replace("2 * lam * M", "2 * lam * M))").replace("import numpy as np", "import numpy as np, torch")
    (folder / "code" / "subject.py").write_text(text, encoding="utf-8")
    assert "largest difference" in executed(failed("subject.py", "gradient").snippet, folder)


@pytest.mark.parametrize(
    "array",
    [
        np.array([[True, False]]),
        np.arange(4, dtype=np.int64),
        np.float32([[0.1, -np.inf], [np.nan, 1e30]]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(12.0).reshape(2, 6)[:, ::2],
        np.array(0.1),
    ],
)
def test_arrays_are_the_same_again_in_any_numpy(array):
    code = array_code(array)
    again = np.asarray(eval(code, {"np": np}))
    assert again.tobytes() == array.tobytes() and "np.bool" not in code
    if array.ndim:
        assert (again.dtype, again.flags.c_contiguous) == (array.dtype, array.flags.c_contiguous)

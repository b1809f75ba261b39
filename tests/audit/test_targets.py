"""TARGET: its forms, what it may return, how it is called."""

import pytest

from attnprune_verify.audit.functions.auditor import Auditor
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.naming.importing import import_lines
from attnprune_verify.audit.subject.target import parse_target
from attnprune_verify.errors import InvalidInstance

MODULE = """
__version__ = "9.1"
import numpy as np
from sibling import k

def causal_mask(n):
    return np.tri(n, k=k)

class Methods:
    causal_mask = staticmethod(causal_mask)
    @staticmethod
    def binary_mask(M, rho):
        raise NotImplementedError("later")

table = {"causal_mask": causal_mask}
mine = causal_mask
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "subject.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "sibling.py").write_text("k = 0\n", encoding="utf-8")
    (tmp_path / "kernel.py").write_text("def attention(q, k, v, causal=False): return v\n", encoding="utf-8")
    (tmp_path / "notes.md").write_text("# Notes\n", encoding="utf-8")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("__version__ = '0.3'\n", encoding="utf-8")
    (package / "inner.py").write_text("from subject import causal_mask\n", encoding="utf-8")
    (package / "relative.py").write_text("from .inner import causal_mask\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "spec",
    [
        "subject.py",
        "subject",
        "package.inner",
        "package/relative.py",
        "subject:Methods",
        "subject.py:Methods",
        "subject:table",
        "subject:mine",
        "subject.py:mine",
    ],
)
def test_forms(folder, spec):
    with Auditor(spec, only=("causal_mask",)) as auditor:
        (record,) = [auditor.record(check) for check in auditor.checks]
        assert record.status == "passed" and "causal_mask" in auditor.subject.functions
        assert len(auditor.sha256) == 64
        assert auditor.subject.version == ("0.3" if "package" in spec else "9.1")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nothing.py", "no file"),
        ("no.such.module", "ModuleNotFoundError"),
        ("subject:Nothing", "AttributeError"),
        ("subject:", "must be package.module"),
        ("a b", "must be package.module"),
        ("../subject", "must be package.module"),
        ("", "must be package.module"),
        ("subject.py:1x", "must be package.module"),
        ("subject.py:", "must be package.module"),
        ("json", "name what is meant"),
        ("kernel.py", "use audit-kernel"),
        ("notes.md", "must be package.module"),
    ],
)
def test_bad_targets(folder, spec, said):
    with pytest.raises(InvalidInstance, match=said):
        run_audit(spec)


def test_the_package_hash_covers_all_files(folder):
    def digest():
        with Auditor("package", only=("causal_mask",)) as auditor:
            return auditor.sha256

    (folder / "package" / "__init__.py").write_text("from subject import causal_mask\n", encoding="utf-8")
    first = digest()
    (folder / "package" / "inner.py").write_text("# changed\n", encoding="utf-8")
    assert first != digest()


def test_a_method_that_raises_could_not_run(folder):
    result = run_audit("subject:Methods", only=("causal_mask", "binary_mask"))
    assert result.outcome == "incomplete" and result.exit_code == 3
    assert "NotImplementedError: later" in next(r for r in result.checks if r.id == "binary_mask:values").reason


def test_a_single_function_may_pass_and_what_is_missing_is_not_applicable(folder):
    result = run_audit("subject.py", only=("causal_mask", "loss"))
    assert result.outcome == "passed"
    assert {record.status for record in result.checks if record.function == "loss"} == {"not_applicable"}


def test_parse_keeps_windows_like_colons_apart():
    assert parse_target("package.module:object.attribute").attribute == "object.attribute"


@pytest.mark.parametrize("seed", [-1, 1.5, True, "0"])
def test_seed(seed):
    with pytest.raises(InvalidInstance, match="seed must be an integer"):
        run_audit("attnprune_verify", seed=seed)


ARITY = """
import numpy as np
def loss(M, X, W{more}):
    F, G = X @ (M * W) @ X.T, X @ W @ X.T
    F, G = np.exp(F - F.max(1, keepdims=True)), np.exp(G - G.max(1, keepdims=True))
    return ((F / F.sum(1, keepdims=True) - G / G.sum(1, keepdims=True)) ** 2).sum() / 2 {regular}
"""


@pytest.mark.parametrize(("more", "regular"), [("", ""), (", lam", "+ lam / 2 * (M ** 2).sum()")])
def test_missing_parameters_are_not_passed_over(tmp_path, more, regular):
    path = tmp_path / "subject.py"
    path.write_text(ARITY.format(more=more, regular=regular), encoding="utf-8")
    result = run_audit(str(path), only=("loss",))
    assert result.outcome == "passed" and "takes no" in result.notes["loss"]
    assert {r.status for r in result.checks if "causal" in r.id or "given-mask" in r.id} == {"not_applicable"}


def test_masks_of_bool_only_are_found_out(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(
        "import numpy as np\n"
        "def attention(X, W, mask=None):\n"
        "    A = X @ W @ X.T\n"
        "    if mask is not None:\n        A[~mask] = -np.inf\n"
        "    A = np.exp(A - A.max(1, keepdims=True))\n"
        "    return A / A.sum(1, keepdims=True)\n",
        encoding="utf-8",
    )
    result = run_audit(str(path), only=("attention",))
    (failed,) = (record for record in result.checks if record.status == "failed")
    assert failed.id == "attention:mask-kinds" and failed.diagnosis == ("mask-kind",)


NAMED = """
import numpy as np

def mine(q, k, v, causal=False):
    s = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    p = np.exp(s - s.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ v

class Layer:
    def __call__(self, q, k, v):
        return mine(q, k, v)
"""


AUTOGRAD = """
import torch

def attend(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)

class Mine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        ctx.save_for_backward(q, k, v)
        return attend(q, k, v)

    @staticmethod
    def backward(ctx, do):
        with torch.enable_grad():
            inputs = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            return torch.autograd.grad(attend(*inputs), inputs, do)
"""


@pytest.mark.parametrize(("name", "called"), [("mine", "mine"), ("Layer", "Layer()")])
def test_a_callable_is_the_kernel_whatever_its_name(tmp_path, monkeypatch, name, called):
    (tmp_path / "named.py").write_text(NAMED, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    result = run_kernel_audit(f"named.py:{name}", quick=True, only=("attention:values:plain",), names="never")
    assert result.outcome == "passed"
    with KernelAuditor(f"named.py:{name}") as auditor:
        assert import_lines(auditor.subject, "attention")[-1] == f"attention = {called}"


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("named.py:Sized", r"the class Sized needs arguments .*: name an instance, x = Sized"),
        ("named.py:mien", "named has no mien; did you mean mine"),
        ("named.py::mine", "write named.py:mine"),
        ("named.mine", "write named:mine$"),
        ("named.py:of_one", r"cannot be audited: a kernel must take q, k, v; got \(qkv\)"),
        ("lacking.py", "No module named 'nowhere'; install what is missing, or open its folder"),
    ],
)
def test_what_names_no_kernel_is_answered_with_the_next_step(tmp_path, monkeypatch, target, said):
    sized = "class Sized(Layer):\n    def __init__(self, heads):\n        pass\n"
    of_one = "def of_one(qkv):\n    return qkv\n"
    (tmp_path / "named.py").write_text(NAMED + sized + of_one, encoding="utf-8")
    (tmp_path / "lacking.py").write_text("import nowhere\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInstance, match=said):
        run_kernel_audit(target, quick=True)


def test_a_function_of_autograd_is_a_kernel(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "mine.py").write_text(AUTOGRAD, encoding="utf-8")
    result = run_kernel_audit(f"{tmp_path / 'mine.py'}:Mine", quick=True, only=("*:values:plain",))
    assert {record.id for record in result.checks if record.status == "passed"} == {
        "attention:values:plain", "attention_backward:values:plain"
    }  # fmt: skip


def test_a_module_without_the_names_lists_what_it_has(tmp_path, monkeypatch):
    (tmp_path / "named.py").write_text(NAMED + "def attend(q, k, v): ...\ndef helper(): ...\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    said = r"has mine, Layer, attend, helper; name what is meant, as in named.py:attend"
    with pytest.raises(InvalidInstance, match=said):
        run_kernel_audit("named.py", quick=True)
    with pytest.raises(InvalidInstance, match=f"{said}; a function of q, k, v is for audit-kernel"):
        run_audit("named.py")

"""Triton kernels are judged on a CPU by Triton's interpreter, and what it cannot compute is no finding."""

import importlib.util
import os
import sys
from types import SimpleNamespace

import pytest

from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.errors import InvalidInput
from attnprune_verify.extras import MissingExtra
from attnprune_verify.triton import BFLOAT16, interpreted

FLASH = """\
import torch
import triton
import triton.language as tl

CAPABILITY = torch.cuda.get_device_capability()
TARGET = triton.runtime.driver.active.get_current_target().arch


@triton.autotune([triton.Config({"TILE": 16}), triton.Config({"TILE": 32})], key=["l"])
@triton.jit
def forward(q, k, v, o, scale, n, l, m: tl.constexpr, causal: tl.constexpr, TILE: tl.constexpr):
    sample, first = tl.program_id(1), tl.program_id(0) * 16
    rows, columns, features = first + tl.arange(0, 16), tl.arange(0, TILE), tl.arange(0, m)
    queries = tl.load(q + sample * n * m + rows[:, None] * m + features, mask=rows[:, None] < n, other=0.0)
    top = tl.full([16], -1.0e30, tl.float32)
    total = tl.zeros([16], tl.float32)
    sums = tl.zeros([16, m], tl.float32)
    for start in range(0, l, TILE):
        at = start + columns
        inside = at[:, None] < l
        keys = tl.load(k + sample * l * m + at[:, None] * m + features, mask=inside, other=0.0)
        values = tl.load(v + sample * l * m + at[:, None] * m + features, mask=inside, other=0.0)
        logits = tl.dot(queries, tl.trans(keys)) * scale
        seen = at[None, :] < l
        if causal:
            seen = seen & (at[None, :] <= rows[:, None] + l - n)
        logits = tl.where(seen, logits, -1.0e30)
        new = tl.maximum(top, tl.max(logits, 1))
        weights = tl.exp(logits - new[:, None])
        weights = tl.where(seen, weights, 0.0)
        old = tl.exp(top - new)
        total = total * old + tl.sum(weights, 1)
        sums = sums * old[:, None] + tl.dot(weights.to(values.dtype), values)
        top = new
    total = tl.where(total == 0, 1.0, total)
    tl.store(o + sample * n * m + rows[:, None] * m + features, sums / total[:, None], mask=rows[:, None] < n)
"""
ADAPTER = """\
from pathlib import Path

from attnprune_verify.triton import interpreted

flash = interpreted(Path(__file__).with_name("flash.py"))
FRAMEWORK = "torch"
SIZES = {"m": (16, 32)}
CONVENTIONS = {"causal_alignment": "bottom-right"}
CAPABILITIES = ("forward_only",)


def attention(q, k, v, *, causal=False, scale=None):
    import torch

    b, h, n, m = q.shape
    if k.shape[1] != h or v.shape[3] != m:
        raise NotImplementedError("as many key heads as heads, m = mv")
    q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
    o = torch.empty_like(q)
    flash.forward[(-(-n // 16), b * h)](q, k, v, o, m**-0.5 if scale is None else scale, n, k.shape[2], m, causal)
    return o
"""
PRODUCTS = """\
import torch
import triton
import triton.language as tl

from halfway import VERSION

NAME = torch.cuda.get_device_name(torch.cuda.current_device()), torch.cuda.get_device_properties(0).major


def cleared(arguments):
    arguments["o"].zero_()


@triton.autotune([triton.Config({"TILE": 16}, pre_hook=cleared), triton.Config({"TILE": 32})], key=["l"])
@triton.heuristics({"EVEN": lambda arguments: arguments["l"] % arguments["TILE"] == 0})
@triton.jit
def kernel(a, b, o, n, l, m: tl.constexpr, TILE: tl.constexpr, EVEN: tl.constexpr):
    rows = tl.make_block_ptr(a, (n, m), (m, 1), (tl.program_id(0) * TILE, 0), (TILE, m), (1, 0))
    others = tl.make_block_ptr(b, (l, m), (m, 1), (0, 0), (TILE, m), (1, 0))
    out = tl.make_block_ptr(o, (n, l), (l, 1), (tl.program_id(0) * TILE, 0), (TILE, TILE), (1, 0))
    left = tl.load(rows, boundary_check=(0,), padding_option="zero")
    for start in range(0, l, TILE):
        right = tl.load(others) if EVEN else tl.load(others, boundary_check=(0, 1), padding_option="zero")
        before = tl.load(out, boundary_check=(0, 1))
        tl.store(out, before + tl.dot(left, right, trans_b=True), boundary_check=(0, 1))
        others = tl.advance(others, (TILE, 0))
        out = tl.advance(out, (0, TILE))


def products(a, b):
    assert a.is_cuda and b.is_cuda
    o = torch.full((len(a), len(b)), float("nan"))
    with torch.cuda.device(a.device.index):
        kernel[lambda meta: (triton.cdiv(len(a), meta["TILE"]),)](a, b, o, len(a), len(b), a.shape[1])
    return o
"""
NAMES = ("values:plain", "values:causal", "values:larger", "values:scale")


@pytest.fixture(autouse=True)
def variable_stays(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)


def records(tmp_path, dtype, kernel=FLASH):
    """The records of the checks named above, by name."""
    without_what_it_needs()
    (tmp_path / "flash.py").write_text(kernel, encoding="utf-8")
    path = tmp_path / "adapter.py"
    path.write_text(ADAPTER, encoding="utf-8")
    with KernelAuditor(str(path), dtype) as auditor:
        return {
            check.name: auditor.record(check)
            for check in kernel_checks()
            if check.name in NAMES and check.id.startswith("attention:")
        }


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_right_kernel_passes(tmp_path, dtype):
    assert {name: record.status for name, record in records(tmp_path, dtype).items()} == dict.fromkeys(NAMES, "passed")


def test_wrong_kernel_fails(tmp_path):
    right = "total = total * old + tl.sum(weights, 1)"
    assert right in FLASH
    found = records(tmp_path, "float32", FLASH.replace(right, "total = total + tl.sum(weights, 1)"))
    assert found["values:larger"].status == "failed"


def test_products_of_bfloat16_are_left_open(tmp_path):
    found = records(tmp_path, "bfloat16")
    # neither failed, by errors that are the interpreter's, nor not applicable, which would let the run pass
    assert {record.status for record in found.values()} == {"could_not_run"}
    assert {record.reason for record in found.values()} == {f"attention was not judged: {BFLOAT16}"}


def without_what_it_needs():
    for module in ("torch", "triton"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs the package {module}")


@pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")  # of Triton 3.6 itself
def test_a_package_of_older_triton_that_does_not_import_whole(tmp_path, monkeypatch):
    """Block pointers, transposes in dot, a first configuration with its hook, and questions about a GPU."""
    without_what_it_needs()
    package = tmp_path / "halfway"
    package.mkdir()
    (package / "__init__.py").write_text('VERSION = "1"\nimport a_compiled_part\nNEVER = 1\n', encoding="utf-8")
    (package / "products.py").write_text(PRODUCTS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    products = interpreted("halfway.products")
    import torch

    a, b = (torch.randn(size, generator=torch.Generator().manual_seed(0)) for size in ((20, 16), (37, 16)))
    found = products.products(a, b)
    assert torch.allclose(found, a @ b.T, atol=1e-5)
    assert not a.is_cuda  # of the kernel's own code alone the answer is yes


def test_missing_triton_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingExtra, match="install the package triton"):
        interpreted("json")
    assert "TRITON_INTERPRET" not in os.environ


def test_triton_that_was_imported_without_its_interpreter_is_an_error(monkeypatch):
    compiled = type("JITFunction", (), {})()
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(language=SimpleNamespace(cdiv=compiled)))
    with pytest.raises(InvalidInput, match="before Triton is imported"):
        interpreted("json")
    assert "TRITON_INTERPRET" not in os.environ


def test_missing_file_is_an_error(tmp_path):
    with pytest.raises(InvalidInput, match="check the path"):
        interpreted(tmp_path / "none.py")

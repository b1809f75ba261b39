"""The page of kernels that people use: it is what the stored rows give, and its programs do what it claims."""

import json
import os
import re

import numpy as np
import pytest

from attnprune_verify.audit.kernel.check import check_attention
from benchmarks.real_kernels import __main__ as real_kernels
from benchmarks.real_kernels.conventions import COLUMNS, Probe

PROGRAMS = sorted(real_kernels.DEVIATIONS)


def test_the_page_is_what_the_rows_give():
    known = json.loads(real_kernels.ROWS.read_text(encoding="utf-8"))
    assert real_kernels.page(known) == real_kernels.PAGE.read_text(encoding="utf-8")
    rows = (*real_kernels.KERNELS, *real_kernels.CHECKOUTS)
    assert {f"{title} {dtype}" for title, _, dtypes, *_ in rows for dtype in dtypes} <= set(known)
    assert set(real_kernels.DEVIATIONS) <= set(known)
    assert all(len(known[title]) == len(COLUMNS) for title, *_ in real_kernels.KERNELS)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_deviation_is_still_there(name):
    checkouts = os.environ.get("KERNEL_CHECKOUTS")
    if missing := real_kernels.lacking(real_kernels.DEVIATIONS[name]):
        pytest.skip(f"needs {', '.join(missing)}")
    if name in real_kernels.IMPORTED_FROM and not checkouts:
        pytest.skip("needs clones in the folder that KERNEL_CHECKOUTS names")
    prints = re.compile(r"```text\n(.*?)```", re.S)
    stored = json.loads(real_kernels.ROWS.read_text(encoding="utf-8"))[name]
    assert prints.findall(real_kernels.program(name, checkouts)) == prints.findall(stored)


ADAPTERS = sorted({adapter for _, adapter, *_ in real_kernels.CHECKOUTS})


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_an_adapter_of_an_interpreted_kernel_has_at_most_twelve_lines(adapter):
    code = (real_kernels.HERE / adapter).read_text(encoding="utf-8").partition('"""\n')[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12


def test_a_clone_that_is_not_there_is_asked_for(tmp_path):
    for checkouts in (None, str(tmp_path)):
        with pytest.raises(SystemExit, match="clone openai/gpt-oss .* --checkouts FOLDER"):
            real_kernels.folder_of("openai/gpt-oss", ".", checkouts)
    (tmp_path / "gpt-oss").mkdir()
    assert real_kernels.folder_of("openai/gpt-oss", ".", str(tmp_path)) == (str(tmp_path / "gpt-oss" / "."),)
    assert real_kernels.folder_of("", "", None) == ()


def plain(q, k, v, *, causal=False, mask=None, bottom_right=False, empty=0.0):
    """A NumPy kernel whose conventions are chosen."""
    n, length = q.shape[2], k.shape[2]
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    allowed = np.tri(n, length, length - n if bottom_right else 0, dtype=bool) if causal else np.ones((n, length), bool)
    s = np.where(allowed if mask is None else allowed & mask, s, -np.inf)
    with np.errstate(invalid="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
    return np.where(np.isnan(p), empty, p) @ v


@pytest.mark.parametrize(("bottom_right", "words"), [(False, "j <= i"), (True, "j <= i + l - n")])
def test_a_probe_reads_the_alignment(bottom_right, words):
    def kernel(q, k, v, **keywords):
        return plain(q, k, v, bottom_right=bottom_right, **keywords)

    assert Probe(kernel, "numpy").causal() == words


@pytest.mark.parametrize(("empty", "words"), [(0.0, "o = 0"), (np.nan, "o = nan"), (0.25, "o = mean of v")])
def test_a_probe_reads_what_nothing_allowed_gives(empty, words):
    probe = Probe(lambda q, k, v, **keywords: plain(q, k, v, empty=empty, **keywords), "numpy")
    assert probe.empty() == words
    assert probe.masks() == "2, 3, 4" and probe.bias() == "no" and probe.padding() == "leaks from v"


def test_roundings_of_an_optional_part_are_no_wrong_offsets():
    """As torch's nested tensors: packed sequences through logits in bfloat16, everything else through float32."""
    pytest.importorskip("ml_dtypes")

    def attention(q, k, v, *, causal=False, scale=None, cu_seqlens_q=None, cu_seqlens_k=None):
        kind, (q, k, v) = q.dtype, (x.astype(np.float32) for x in (q, k, v))
        factor = q.shape[-1] ** -0.5 if scale is None else scale
        if cu_seqlens_q is None:
            return plain(q * factor * np.sqrt(q.shape[-1]), k, v, causal=causal).astype(kind)
        if causal or q.shape[1] != k.shape[1]:
            raise NotImplementedError
        o = np.zeros((*q.shape[:2], v.shape[-1]), np.float32)
        for a, b, c, d in zip(cu_seqlens_q, cu_seqlens_q[1:], cu_seqlens_k, cu_seqlens_k[1:], strict=False):
            if d > c:
                s = np.einsum("ihm,jhm->hij", q[a:b], k[c:d]).astype(kind).astype(np.float32) * factor
                p = np.exp(s - s.max(-1, keepdims=True))
                o[a:b] = np.einsum("hij,jhm->ihm", p / p.sum(-1, keepdims=True), v[c:d])
        return o.astype(kind)

    attention.CONVENTIONS = {"empty_rows": "undefined"}
    found = check_attention(attention, dtype="bfloat16", only=("attention:values:plain", "attention:values:packed"))
    assert found.diagnosis == {"attention": ("low-precision",)}, found.diagnosis

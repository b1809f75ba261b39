"""Batches answered in a wrong shape and results kept too long fail; code for one sample and honest memory pass."""

import textwrap

import pytest

from attnprune_verify.audit.functions.run import run_audit

ONE = """
import numpy as np

def attention(X, W, mask=None):
    S = {logits}
    S = S if mask is None else np.where(np.asarray(mask) == 1, S, -np.inf)
    E = np.exp(S - S.max(axis=-1, keepdims=True))
    return E / E.sum(axis=-1, keepdims=True)
"""
CARRIED = ONE.format(logits="X @ W @ np.swapaxes(X, -1, -2)")
GRADIENT = """
def gradient(M, X, W, lam=0.0, mask=None):
    F = attention(X, M * W, mask)
    c = F - attention(X, W, mask)
    p = c * F - (c * F).sum(axis=-1, keepdims=True) * F
    Y = np.swapaxes(X, -1, -2) @ p @ X
    return {result}
"""
REFUSED = ONE.format(logits="X @ W @ X.T")
KEPT = """
computed, kept = attention, {{}}

def attention(X, W, mask=None):
    arrays = {arrays}
    key = tuple(None if one is None else (one.tobytes(), one.shape, str(one.dtype), one.strides) for one in arrays)
    if key not in kept:
        kept[key] = computed(X, W, mask)
    return kept[key].copy()
"""


def audited(tmp_path, source, *only):
    path = tmp_path / "subject.py"
    path.write_text(textwrap.dedent(source), encoding="utf-8")
    return run_audit(str(path), only=only)


def status(result, id):
    return next(check.status for check in result.checks if check.id == id)


@pytest.mark.parametrize(
    "source",
    [
        REFUSED,  # raises
        ONE.format(logits="np.inner(X @ W, X)"),  # (k, n, k, n)
        CARRIED + GRADIENT.format(result="W * Y + lam * M"),  # (k, d, d)
    ],
    ids=["raises", "all pairs", "one each"],
)
def test_code_for_one_sample_is_not_asked_for_batches(tmp_path, source):
    name = "gradient" if "def gradient" in source else "attention"
    result = audited(tmp_path, source, *(f"{name}:{check}" for check in ("shape", "values:full", "values:batch*")))
    assert result.outcome == "passed"
    assert status(result, f"{name}:values:batch") == "not_applicable"


@pytest.mark.parametrize("answer", ["F.mean(axis=0)", "F.sum(axis=0)", "F[0]", "np.moveaxis(F, 0, -1)"])
def test_an_attention_of_a_batch_in_another_shape_is_wrong(tmp_path, answer):
    wrong = f"""
several = attention

def attention(X, W, mask=None):
    F = several(X, W, mask)
    return {answer} if X.ndim == 3 else F
"""
    result = audited(tmp_path, CARRIED + wrong, "attention:values:full", "attention:values:batch")
    assert result.diagnosis == {"attention": ("wrong-shape",)}


def test_one_gradient_a_sample_is_wrong_where_others_average(tmp_path):
    both = (
        CARRIED
        + GRADIENT.format(result="W * Y + lam * M")
        + (
            GRADIENT.replace("def gradient(M, ", "def hessian_vector_product(M, V, ").format(
                result="W * (Y.mean(axis=0) if Y.ndim == 3 else Y) + lam * M"
            )
        )
    )
    assert audited(tmp_path, both, "gradient:values:batch").diagnosis == {"gradient": ("wrong-shape",)}


def test_what_is_kept_by_too_few_inputs_shows(tmp_path):
    for arrays, found in (("(X, W)", {"attention": ("cached",)}), ("(X, W, mask)", {})):
        result = audited(
            tmp_path, CARRIED + KEPT.format(arrays=arrays), "attention:one-changed", "attention:values:full"
        )
        assert result.diagnosis == found

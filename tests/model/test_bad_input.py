"""Every reference function refuses bad input with the rule and the value."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from attnprune_verify import model
from attnprune_verify.errors import InvalidInstance

X, W, M = np.ones((3, 2)), np.eye(2), np.ones((2, 2))
GOOD = {"M": M, "V": M, "X": X, "W": W, "W_Q": W, "W_K": W, "M_Q": M, "M_K": M, "lam": 0.1, "mask": None}
TAKES = {
    "attention": ("X", "W", "mask"),
    "loss": ("M", "X", "W", "lam", "mask"),
    "gradient": ("M", "X", "W", "lam", "mask"),
    "loss_and_gradient": ("M", "X", "W", "lam", "mask"),
    "hessian_vector_product": ("M", "V", "X", "W", "lam", "mask"),
    "relative_error": ("M", "X", "W", "mask"),
    "factored_loss": ("M_Q", "M_K", "X", "W_Q", "W_K", "lam", "mask"),
    "factored_gradient": ("M_Q", "M_K", "X", "W_Q", "W_K", "lam", "mask"),
}
BAD_ARRAYS = [
    (np.ones((5, 7)), "shapes must be"),
    (np.ones(2), "shapes must be"),
    (np.full((2, 2), np.nan), "must be finite; got nan"),
    (np.eye(2) * 1j, "must hold real numbers"),
    (np.eye(2).astype(object), "must hold real numbers"),
    (np.ones((0, 2)), "must not be empty"),
    ("abc", "must hold real numbers"),
    (None, "must hold real numbers; got NoneType"),
    ({}, "must hold real numbers; got dict"),
    (csr_array(np.eye(2)), "must hold real numbers; got csr_array"),
]
BAD_MASKS = [
    (np.zeros((3, 3)), "at least one position"),
    ("full", "got 'full'"),
    (np.ones((2, 2)), "mask must have shape"),
]
BAD_LAMS = [
    (-0.1, ">= 0; got -0.1"),
    (float("nan"), "finite"),
    ("0.1", "real number"),
    (None, "real number"),
    (np.complex128(1 + 2j), "real number"),
    (np.ma.masked, "real number"),
]


def cases():
    for function, names in TAKES.items():
        for name in names:
            for value, message in {"lam": BAD_LAMS, "mask": BAD_MASKS}.get(name, BAD_ARRAYS):
                yield pytest.param(function, name, value, message, id=f"{function}-{name}-{message[:24]}")


@pytest.mark.parametrize(("function", "name", "value", "message"), list(cases()))
def test_refused(function, name, value, message):
    arguments = [value if taken == name else GOOD[taken] for taken in TAKES[function]]
    with pytest.raises(InvalidInstance, match=message) as caught:
        getattr(model, function)(*arguments)
    assert "\n" not in str(caught.value) and (name in str(caught.value) or "shapes" in message)


@pytest.mark.parametrize("n", [0, -1, 2.0, "3", None])
def test_causal_mask_needs_a_positive_integer(n):
    with pytest.raises(InvalidInstance, match="n must be an integer >= 1"):
        model.causal_mask(n)


def test_overflowing_logits_are_named():
    with pytest.raises(InvalidInstance, match="logits must be finite in float64"):
        model.attention([[1e200, 1.0], [1.0, 1.0]], [[1e200, 0.0], [0.0, 1.0]])
    with pytest.raises(InvalidInstance, match="logits must be finite in float32"):
        model.gradient(M.astype("f4"), np.full((3, 2), 1e15, "f4"), np.full((2, 2), 1e15, "f4"))


def test_overflow_is_refused_without_a_warning():
    """Any RuntimeWarning fails a test here; users see the rule only."""
    huge = np.full((2, 2), 1e308)
    with pytest.raises(InvalidInstance, match="gradient must be finite in float64"):
        model.hessian_vector_product(M, huge, X + np.eye(3, 2), W + 1.0, 1.0)
    with pytest.raises(InvalidInstance, match="must be finite in float64"):
        model.factored_loss(huge, M, X, huge, W)
    with pytest.raises(InvalidInstance, match="must be finite in float64"):
        model.factored_gradient(huge, M, X, W, W, 10.0)
    with pytest.raises(InvalidInstance, match=r"loss must be finite in float64; lam/2 \(.*M_Q.* \+ .*\) overflows"):
        model.factored_loss(huge / 1e100, M, X, W / 1e300, W, 1.0)
    with pytest.raises(InvalidInstance, match=r"loss must be finite in float64; lam/2 \|\|M\|\|_F\^2 overflows"):
        model.loss(M, X, W, 1.7e308)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_a_huge_mask_without_regulariser_is_legal(dtype):
    """||M||_F^2 overflows, but with lam = 0 nobody asked for it."""
    size = np.array({"f4": 1e20, "f8": 1e200}[dtype], dtype)
    tokens, weight = np.eye(3, 2, dtype=dtype), np.array([[1, -1], [2, 1]], dtype)
    ordinary = model.loss(M.astype(dtype) / 2, tokens, weight)
    assert ordinary > 0
    # F(1) of the tiny weight is uniform, as F(0) is: compare with a loss whose dense attention is uniform, too
    found = model.loss(M.astype(dtype) * size, tokens, weight / size)
    assert found == pytest.approx(model.loss(np.zeros((2, 2), dtype), tokens, weight), rel=1e-5)
    pair = model.factored_loss(M.astype(dtype) * size, M.astype(dtype), tokens, weight / size, np.eye(2, dtype=dtype))
    assert pair == pytest.approx(found, rel=1e-5)

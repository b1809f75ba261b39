"""Hypothesis strategies for instances of the problem.

Arrays are drawn as raw bytes and scaled, which is several times faster than drawing floats one by one and still
shrinks: smaller bytes are smaller integers, so a failing example is found with few tokens, few features and
entries such as 0, 1/16 or -1/4 that can be read and typed.

`from hypothesis import given; from attnprune_verify.strategies import instances`. The strategy is also registered
for the type `Instance`, so ``st.from_type(Instance)`` works after an ordinary import of Hypothesis.
"""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnprune_verify.instance.families import FAMILIES
from attnprune_verify.instance.problem import Instance


@st.composite
def matrices(draw: st.DrawFn, rows: int, columns: int, scale: float = 1.0) -> NDArray[np.float64]:
    """A (rows, columns) matrix of multiples of scale/16 between -8 scale and 8 scale.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(matrices(1, 2), lambda matrix: True)
    array([[0., 0.]])
    """
    raw = draw(st.binary(min_size=rows * columns, max_size=rows * columns))
    # Interleaving signs (0, -1, 1, -2, 2, ...) lets bytes shrink towards zero from both sides.
    steps = np.frombuffer(raw, dtype=np.uint8).astype(np.int16)
    signed = np.where(steps % 2 == 1, -((steps + 1) // 2), steps // 2)
    matrix: NDArray[np.float64] = (signed / 16.0 * scale).reshape(rows, columns)
    return matrix


@st.composite
def attention_masks(draw: st.DrawFn, n: int) -> NDArray[np.bool_] | str | None:
    """Strategy for masks: None, "causal", or an arbitrary (n, n) mask in which every row allows something."""
    kind = draw(st.sampled_from(["full", "causal", "given"]))
    if kind != "given":
        return None if kind == "full" else "causal"
    raw = draw(st.binary(min_size=n * n, max_size=n * n))
    allowed: NDArray[np.bool_] = (np.frombuffer(raw, dtype=np.uint8) % 2 == 0).reshape(n, n)
    allowed |= ~allowed.any(axis=1, keepdims=True) & np.eye(n, dtype=np.bool_)
    return allowed


@st.composite
def instances(draw: st.DrawFn, max_n: int = 6, max_d: int = 5, max_k: int = 3) -> Instance:
    """Instances with any mask, batch or not, pruning masks inside and outside the box, lam zero or not.

    Examples
    --------
    >>> from hypothesis import find
    >>> find(instances(), lambda instance: instance.n > 1)
    Instance(n=2, d=1, k=None, mask=None, lam=0.0, dtype=float64)
    """
    n = draw(st.integers(1, max_n))
    d = draw(st.integers(1, max_d))
    k = draw(st.none() | st.integers(1, max_k))
    tokens = draw(matrices(n if k is None else n * k, d))
    return Instance(
        tokens if k is None else tokens.reshape(k, n, d),
        draw(matrices(d, d)),
        M=draw(matrices(d, d, scale=0.25)),
        mask=draw(attention_masks(n)),
        lam=draw(st.sampled_from([0.0, 0.04, 1.0, 8.0])),
    )


@st.composite
def family_instances(draw: st.DrawFn) -> Instance:
    """A member of one of the named families of `attnprune_verify.instance.families`, small enough for any oracle."""
    name = draw(st.sampled_from(sorted(FAMILIES)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return FAMILIES[name](rng, n=8, d=6) if name == "paper_synthetic" else FAMILIES[name](rng)

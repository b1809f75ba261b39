"""Running-error bound: the largest error of a correct floating-point implementation, entry by entry.

The bound is propagated through queries and keys -> scores -> softmax -> c -> p -> gradient for an implementation that
computes with unit roundoff u (2**-24 for float32, 2**-53 for float64), the standard model
fl(a op b) = (a op b)(1 + delta), |delta| <= u, plus one underflow unit per operation. It assumes

* a product of k terms is summed in any order: gamma_k = k u / (1 - k u);
* logits come from nested matrix products, (X A) X^T or X (A X^T), through queries and keys or one fused weight, in any
  order each; sine, cosine, tanh and exp are accurate within 4 u; scale, bias, cap and slopes are rounded to the format;
  how these errors reach the scores is derived in `attnprune_verify.oracle.score_errors`;
* the rows are shifted by their maximum, or no exponential leaves the floating range;
* dividing by the row sum, multiplying by its reciprocal, or subtracting log(row sum) or logsumexp(row) in the
  exponent (the latter rounds relative to the largest logit, for all weights of a row alike);
* p as c*F - diag((c*F)1)F, as F*(c - (c*F)1), or as reverse mode writes it (up to eight roundings each).

The gradient in A_Q is scale X^T R^T (p*u') K, a chain of sums over n keys, the 2 features of a pair, n tokens, the
samples and (for A_K) the heads of a group. With bars for absolute values and sizes, every partial sum on the way is
bounded by |X|^T |R|^T (|p*u'|) K, K = (|X| |A_K| + |b_K|) turned, so its roundings, and those that K itself carries,
cost gamma_N times that, N = 2n + 2d + m + k + group + 16; the errors of p, u' and the angles of R pass through the
same sums:

    dA_Q <= |X|^T ( |R|^T (dp K + p u a_K) + u a_R ) + gamma_N |X|^T |R|^T p K,     a: what angles do, in units of u

and so for A_K with p^T and Q. For the fused weight K = |X| without turn, and W * (...) + lam M is thm:mat_view_l.

The bound is not too small: every step is a sum of non-negative terms, evaluated in float64 from values whose own
float64 error is added first (the same rules with u = 2**-53). Sums and products of non-negative numbers lose at most a
relative k 2**-53, below 2**-20 for every size that fits into a computer; the factor `_SAFETY` covers that.
The underflow unit is the smallest *normal* number (of float16 the smallest subnormal one), so hardware that flushes
subnormal numbers of float32 and float64 to zero is covered. Each line is proved in proofs_check/PROOFS.md.

The bound is not much too large: over seven kinds of layers, logits from 0.1 to 1000 and three ways to write the
gradient, the largest error measured is above 1/50 of the bound, and above 1/500 for each kind
(tests/oracle/test_running_error.py).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnprune_verify.instance.mask import MaskLike
from attnprune_verify.oracle.error_propagation import (
    U64,
    Approx,
    Array,
    Rounding,
    Scores,
    Softmax,
    bent,
    dp_matrix,
    p_matrix,
    residual,
    softmax,
    times,
)
from attnprune_verify.oracle.inputs import LayerLike, OracleInput, fused, layered, pair
from attnprune_verify.oracle.score_errors import Head, Side, Turn, heads, logit_error, pulled, scores, turn_of

_SAFETY = 1 + 2.0**-19  # twice the 2^-20 that second-order terms stay below
_BLOCK = 2**20  # logits per row block


def attention_bound(X: ArrayLike, W: ArrayLike, mask: MaskLike = None, unit_roundoff: float = U64) -> Array:
    """Bound |F_computed - F| entry by entry, shape (n, n) or (k, n, n).

    Examples
    --------
    >>> import numpy as np
    >>> bool((attention_bound(np.eye(2), np.eye(2)) < 1e-14).all())
    True
    """
    bounds = attention_error(fused(np.ones(np.shape(W)), X, W, 0.0, mask), unit_roundoff)
    return bounds.reshape(*np.shape(X)[:-1], np.shape(X)[-2])


def layer_attention_bound(layer: LayerLike, X: ArrayLike, unit_roundoff: float = U64) -> Array:
    """Bound |F^h_computed - F^h| entry by entry, shape (heads, n, n) or (k, heads, n, n)."""
    bounds = attention_error(layered(layer, None, None, X), unit_roundoff)
    return bounds if np.ndim(X) == 3 else bounds[0]


def loss_bound(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, unit_roundoff: float = U64
) -> float:
    """Bound |L_computed - L|.

    Examples
    --------
    >>> import numpy as np
    >>> loss_bound(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5) < 1e-14
    True
    """
    return loss_error(fused(M, X, W, lam, mask), unit_roundoff)


def factored_loss_bound(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    unit_roundoff: float = U64,
) -> float:
    """Bound |L_computed - L| for the factored loss (logits may be formed through the pair or the fused weight)."""
    return loss_error(pair(M_Q, M_K, X, W_Q, W_K, lam, mask), unit_roundoff)


def layer_loss_bound(
    layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0, unit_roundoff: float = U64
) -> float:
    """Bound |L_computed - L| for the loss of a layer."""
    return loss_error(layered(layer, M_Q, M_K, X, lam), unit_roundoff)


def gradient_bound(
    M: ArrayLike, X: ArrayLike, W: ArrayLike, lam: float = 0.0, mask: MaskLike = None, unit_roundoff: float = U64
) -> Array:
    """Bound |g_computed - g| entry by entry, shape (d, d), for the gradient W * (X^T p X) + lam M.

    Parameters
    ----------
    M, W : (d, d) arrays
    X : (n, d) or (k, n, d) array
    lam : float
    mask : None, "causal" or (n, n) of 0 and 1
    unit_roundoff : float
        Of the implementation judged: ``numpy.finfo(dtype).eps / 2``.

    Raises
    ------
    InvalidInstance
        If shapes disagree or a row of `mask` allows nothing.

    Examples
    --------
    >>> import numpy as np
    >>> bool((gradient_bound(np.ones((2, 2)), np.eye(2), np.eye(2), lam=0.5) < 1e-13).all())
    True
    """
    at = fused(M, X, W, lam, mask)
    return at.parted(gradient_error(at, unit_roundoff))[0]


def factored_gradient_bound(
    M_Q: ArrayLike,
    M_K: ArrayLike,
    X: ArrayLike,
    W_Q: ArrayLike,
    W_K: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    unit_roundoff: float = U64,
) -> tuple[Array, Array]:
    """Bound the two factored gradients entry by entry, shapes (d, m)."""
    at = pair(M_Q, M_K, X, W_Q, W_K, lam, mask)
    of_Q, of_K = at.parted(gradient_error(at, unit_roundoff))
    return of_Q, of_K


def layer_gradient_bound(
    layer: LayerLike, M_Q: ArrayLike, M_K: ArrayLike, X: ArrayLike, lam: float = 0.0, unit_roundoff: float = U64
) -> tuple[Array, Array]:
    """Bound the two gradients of a layer entry by entry, in the shapes of its weights."""
    at = layered(layer, M_Q, M_K, X, lam)
    of_Q, of_K = at.parted(gradient_error(at, unit_roundoff))
    return of_Q, of_K


def hessian_vector_product_bound(
    M: ArrayLike,
    V: ArrayLike,
    X: ArrayLike,
    W: ArrayLike,
    lam: float = 0.0,
    mask: MaskLike = None,
    unit_roundoff: float = U64,
) -> Array:
    """Bound |Hv_computed - Hv| entry by entry, shape (d, d)."""
    at = fused(M, X, W, lam, mask)
    return at.parted(product_error(at, at.directions(V), unit_roundoff))[0]


def attention_error(at: OracleInput, unit_roundoff: float = U64) -> Array:
    """Bound F^h entry by entry, nothing pruned; (k, heads, n, n)."""
    at, rounding, n = at.floats(), Rounding(unit_roundoff), len(at.allowed)
    bounds = np.zeros((len(at.samples), at.heads, n, n))
    with np.errstate(all="ignore"):
        turn = turn_of(at)
        for tokens, of_sample in zip(at.samples, bounds, strict=True):
            for head in heads(at, tokens, turn):
                for rows in _row_blocks(n):
                    dense = scores(at, head.number, head.dense, rows, rounding)
                    of_sample[head.number, rows] = softmax(dense, at.allowed[rows], rounding).error
        return _SAFETY * bounds


def loss_error(at: OracleInput, unit_roundoff: float = U64) -> float:
    """Bound the loss."""
    at, rounding = at.floats(), Rounding(unit_roundoff)
    k, n, _ = at.samples.shape
    size = error = 0.0
    with np.errstate(all="ignore"):
        turn = turn_of(at)
        for tokens in at.samples:
            for head in heads(at, tokens, turn):
                for block in _blocks(at, head, rounding):
                    size += float((block.c.size * block.c.size).sum())
                    error += float(times(block.c, block.c).sum())
        entries, terms = k * at.heads * n * n, at.size
        misfit = error + rounding.gamma(entries + k + 4) * (size + error)
        squares = float(sum((part * part).sum() for part in at.masks))
        regular = at.lam * (rounding.gamma(terms + 6) * squares + terms * rounding.tiny) + rounding.tiny * squares
        whole = (size + misfit) / k + at.lam * squares
        bound = 0.5 * (misfit / k + regular + 4 * rounding.u * whole) + rounding.tiny * (entries + terms + 4)
    return float("inf") if np.isnan(bound) else _SAFETY * float(bound)


def gradient_error(at: OracleInput, unit_roundoff: float = U64) -> Array:
    """Bound the gradient, all entries in one vector (`OracleInput.flat`)."""
    return _bound(at.floats(), None, Rounding(unit_roundoff))


def product_error(at: OracleInput, directions: Sequence[ArrayLike], unit_roundoff: float = U64) -> Array:
    """Bound the Hessian's product with `directions`, in one vector."""
    floats = tuple(np.asarray(part, dtype=np.float64) for part in directions)
    return _bound(at.floats(), floats, Rounding(unit_roundoff))


class _ErrorBlock(NamedTuple):
    rows: slice
    positions: NDArray[np.bool_]
    found: Scores
    f: Softmax
    c: Approx


def _row_blocks(n: int) -> Iterator[slice]:
    """Rows of an (n, n) array, a bounded number of entries at a time."""
    step = max(1, _BLOCK // n)
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def _blocks(at: OracleInput, head: Head, rounding: Rounding) -> Iterator[_ErrorBlock]:
    """F(M) and c of one head."""
    for rows in _row_blocks(len(at.allowed)):
        positions = at.allowed[rows]
        found = scores(at, head.number, head.pruned, rows, rounding)
        f = softmax(found, positions, rounding)
        dense = softmax(scores(at, head.number, head.dense, rows, rounding), positions, rounding)
        yield _ErrorBlock(rows, positions, found, f, residual(f, dense, positions, rounding))


def _bound(at: OracleInput, directions: tuple[Array, ...] | None, rounding: Rounding) -> Array:
    k, n, d = at.samples.shape
    with np.errstate(all="ignore"):
        turn = turn_of(at)
        sizes, errors = ([np.zeros(W.shape) for W in at.weights] for _ in range(2))
        for tokens in at.samples:
            for head in heads(at, tokens, turn, directions):
                places = (head.number, head.number // (at.heads // at.kv_heads))
                for size, error, place, slopes in zip(
                    sizes,
                    errors,
                    places,
                    _slopes(at, head, tokens, turn, directions is not None, rounding),
                    strict=False,
                ):
                    own = slice(place * at.m, (place + 1) * at.m)
                    size[:, own] += slopes[0]
                    error[:, own] += slopes[1]
        terms = 2 * n + k + 6 + (2 * d + at.m + at.heads // at.kv_heads + 10 if at.moves_keys else 0)
        bounds = []
        for W, size, error, M in zip(at.weights, sizes, errors, directions or at.masks, strict=True):
            sums = rounding.gamma(terms) + (2 * rounding.gamma(0) if at.moves_keys else 0.0)  # p K and K may be stored
            error = (sums * (size + error) + error) / k + rounding.tiny * (k + 4)
            # lam may be rounded to the format, the product and the sum are
            value = np.abs(W) * (size / k + error) + at.lam * np.abs(M)
            bound = np.abs(W) * error + 4 * rounding.u * value + rounding.tiny * (4 + np.abs(M))
            bounds.append(np.where(np.isnan(bound), np.inf, _SAFETY * bound))
    return at.flat(bounds)


def _slopes(
    at: OracleInput, head: Head, tokens: Array, turn: Turn | None, moving: bool, rounding: Rounding
) -> list[tuple[Array, Array]]:
    """Size and error of the derivatives of one head's loss in its masked weights, but for the sums' roundings."""
    n, d = tokens.shape
    sums = [Approx(np.zeros(()), np.zeros((n, at.m)), np.zeros((n, at.m))) for _ in range(2)]
    for block in _blocks(at, head, rounding):
        p = p_matrix(block.f, block.c, rounding)
        through = [(_within(bent(p, block.found.bend, rounding), block), head.pruned)]
        if moving and head.moved is not None:
            still = through[0][0]
            through = [(_within(_moved(at, head, block, p, rounding), block), head.pruned), (still, head.moved)]
        for slopes, (query, key) in through:
            _add(sums[0], slopes, key, slice(None), block.rows, rounding)
            if at.moves_keys:
                turned = Approx(slopes.value, slopes.size.T, slopes.error.T)
                _add(sums[1], turned, query, block.rows, slice(None), rounding)
    columns = np.abs(tokens).sum(axis=0)
    lost = rounding.tiny * n * (columns[:, np.newaxis] + columns + n)  # on the way through X^T p X
    found = []
    factors = (at.scale, 1.0) if at.moves_keys else (1.0,)
    for factor, total, other in zip(factors, sums, reversed(head.pruned), strict=False):
        size, error = pulled(at, tokens, turn, total, rounding)
        underflow = lost
        if at.moves_keys:  # on every way: (X^T p X) A, (X^T p) K, X^T (R^T (p K))
            ends = (n + columns[:, np.newaxis]) * other.size.sum(axis=0) + 4 * columns[:, np.newaxis] + n + d
            underflow = lost @ _bar(at, head, other) + rounding.tiny * ends
        found.append((factor * size, factor * error + max(1.0, at.scale) * underflow + d * rounding.tiny))
    return found


def _moved(at: OracleInput, head: Head, block: _ErrorBlock, p: Approx, rounding: Rounding) -> Approx:
    """The derivative of p*u' when the logits move by ds: dp*u' + p*ds*u''."""
    assert head.moved is not None
    (query, key), (moved_query, moved_key) = head.pruned, head.moved
    crossings = [(moved_query, key), (query, moved_key)][: 1 + at.moves_keys]
    value = sum(left.value[block.rows] @ right.value.T for left, right in crossings)
    own = sum(logit_error(at, *sides, block.rows, Rounding(U64)) for sides in crossings)
    error = sum(logit_error(at, *sides, block.rows, rounding) for sides in crossings)
    size = np.abs(value) + own
    ds = Approx(np.asarray(value), size, error + 2 * rounding.u * (size + error))
    bend, curve = block.found.bend, block.found.curve
    dp = bent(dp_matrix(block.f, block.c, bent(ds, bend, rounding), rounding), bend, rounding)
    if curve is None:
        return dp
    more = bent(bent(p, curve, rounding), ds, rounding)
    size, error = dp.size + more.size, dp.error + more.error
    return Approx(dp.value + more.value, size, error + 2 * rounding.u * (size + error))


def _within(slopes: Approx, block: _ErrorBlock) -> Approx:
    """Return the values with 0 where the mask forbids."""
    return Approx(*(np.where(block.positions, part, 0.0) for part in slopes))


def _add(total: Approx, slopes: Approx, side: Side, seen: slice, rows: slice, rounding: Rounding) -> None:
    """Add slopes times one side's rows `seen` to the sums' `rows`."""
    n = slopes.size.shape[1]
    angle, lost = rounding.u * side.angle[seen], rounding.tiny * ((slopes.size + slopes.error) @ side.lost[seen] + n)
    total.size[rows] += slopes.size @ side.size[seen]
    total.error[rows] += slopes.error @ (side.size[seen] + angle) + slopes.size @ angle + lost


def _bar(at: OracleInput, head: Head, side: Side) -> Array:
    """|A| of one side, (d, m), from the problem itself."""
    place = head.number if side is head.pruned[0] else head.number // (at.heads // at.kv_heads)
    which = 0 if side is head.pruned[0] else 1
    own = slice(place * at.m, (place + 1) * at.m)
    return np.asarray(np.abs((at.masks[which] * at.weights[which])[:, own]))

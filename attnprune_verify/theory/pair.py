"""Two masks, on W_Q and W_K, over any number of heads: smoothness, descent, and a weaker PL inequality.

The logits s X (M_Q * W_Q^h)(M_K * W_K^g)^T X^T are bilinear, so no constant serves everywhere. k is any number with
||Pi B(P, Q)||_F <= k ||P||_F ||Q||_F for their bilinear map B, all heads together (`pair_norm`); N is the number of
entries of both masks. Every formula takes the arithmetic as an argument; in balls by default.
"""

import numpy as np
from flint import arb

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import LayerInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.formulas import sharp
from attnprune_verify.theory.formulas.formula import formula
from attnprune_verify.theory.numbers.arithmetic import BALL, Arithmetic, Number
from attnprune_verify.theory.numbers.balls import normalised, power_of_two, precision
from attnprune_verify.theory.numbers.spectral import spectral_norm

_UP = 1 + 2.0**-40  # 2^13 units in the last place, more than each expression loses


@formula("lam + C_+ k^2 R^2 + k P", "new:pair_lipschitz")
def lipschitz(k: Number, R: Number, P: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """A Lipschitz constant of the gradient on ||M_Q||^2 + ||M_K||^2 <= R^2, where ||p||_F <= P.

    Examples
    --------
    >>> round(float(lipschitz(1.0, 1.0, 0.5, 0.25)), 6)
    1.058117
    """
    return lam + sharp.C_plus(arithmetic=arithmetic) * k**2 * R**2 + k * P


@formula("lam + C_+ k^2 N + k sqrt(lam N)/2", "new:pair_descent")
def lipschitz_confined(k: Number, N: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Lipschitz constant on {L <= L(1, 1)}: there ||M||^2 <= N and ||p||_F <= ||c||_F/2 <= sqrt(lam N)/2.

    Examples
    --------
    >>> round(float(lipschitz_confined(1.0, 4.0, 0.25)), 6)
    1.982469
    """
    return lam + sharp.C_plus(arithmetic=arithmetic) * k**2 * N + k * arithmetic.sqrt(lam * N) / 2


@formula("lam N/2", "new:pair_descent")
def start_loss(N: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """L(1, 1), which descent with eta < 2/L never exceeds.

    Examples
    --------
    >>> float(start_loss(8, 0.5))
    2.0
    """
    return lam * N / 2


@formula("lam N/(eta (2 - eta L) T)", "new:pair_descent")
def smallest_gradient(
    N: Number, lam: Number, eta: Number, L: Number, T: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """A bound of min_{t<T} ||grad L||_F^2.

    Examples
    --------
    >>> float(smallest_gradient(4, 1.0, 0.5, 2.0, 4))
    2.0
    """
    return lam * N / (eta * (2 - eta * L) * T)


@formula("scale min|W_Q| sqrt(beta) t delta", "new:pair_PL", min_W="min|W_Q|", key_floor="t")
def pl_root(
    scale: Number, min_W: Number, beta: Number, key_floor: Number, delta: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """||grad_Q L_attn||_F over ||c||_F from below: t the least ||v K_h|| of a zero-sum unit vector v.

    Examples
    --------
    >>> float(pl_root(0.5, 1.0, 4.0, 2.0, 0.25))
    0.5
    """
    return scale * min_W * arithmetic.sqrt(beta) * key_floor * delta


def bilinear(layer: AttentionLayer) -> bool:
    """Report whether the logits of masks of zeros are only what is added to them.

    Examples
    --------
    >>> bilinear(AttentionLayer([[1.0]], [[1.0]])), bilinear(AttentionLayer([[1.0]], [[1.0]], [1.0]))
    (True, False)
    """
    return not layer.bending and layer.b_Q is None and layer.b_K is None


def pair_norm(instance: LayerInstance) -> arb:
    """k = s max_c ||X diag(W_Q column c)|| max_c ||X_0 diag(W_K column c)||, X_0 with its mean row subtracted.

    With rotations X in place of X_0: they keep the norms of queries and keys, but turn a common key in many directions.

    Raises
    ------
    InvalidInstance
        Where the logits are not bilinear in the masks: biases, a softcap.

    Examples
    --------
    >>> round(float(pair_norm(LayerInstance(AttentionLayer([[3.0]], [[1.0]], scale=1.0), [[1.0], [0.0]]))), 9)
    2.121320344
    """
    layer = instance.layer
    if not bilinear(layer):
        raise InvalidInstance("the logits must be bilinear in the masks: no biases or softcap")
    with precision():
        found = arb(0)
        for X in np.asarray(instance.samples, dtype=np.float64):
            centred = X if layer.rope is not None else X - X.mean(axis=0)
            found = arb.max(found, _widest(X, layer.W_Q) * _widest(centred, layer.W_K))
        return found * arb(float(layer.scale))


def _widest(tokens: Array, W: Array) -> arb:
    """max_c ||tokens diag(W_c)||_2 from above.

    A rounded mean in place of the mean leaves more; differences and products are off by 2 u, entry by entry.
    """
    columns, exponent = normalised(np.asarray(W, dtype=np.float64))
    scaled, token_exponent = normalised(tokens)
    widest = max(spectral_norm(scaled * column) for column in columns.T)
    return arb(widest * _UP) * power_of_two(exponent + token_exponent)

"""delta: the smallest attention weight, in the log domain, so that 1e-500 is not mistaken for 0."""

import sys
from dataclasses import dataclass

import numpy as np
from flint import arb
from numpy.typing import NDArray

from attnprune_verify.instance.problem import Instance
from attnprune_verify.instance.validate import Array
from attnprune_verify.theory.numbers.balls import exponential, normalised, precision
from attnprune_verify.theory.numbers.spectral import dot_error

_ROWS = 256  # chosen: 256 rows of 10^5 logits are 200 MB
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class AttentionFloor:
    """ln of the smallest allowed attention weight, its rounding error, and whether the mask forbids a position."""

    log_allowed: float
    radius: float
    masked: bool

    @property
    def allowed(self) -> arb:
        """delta over the allowed positions: always positive."""
        with precision():
            return exponential(self.log_allowed)

    @property
    def certified(self) -> arb:
        """A number certainly not above `allowed`."""
        with precision():
            return arb((self.allowed * (-arb(self.radius)).exp()).lower())

    @property
    def everywhere(self) -> arb:
        """delta over all positions: exactly 0 as soon as the mask forbids one."""
        return arb(0) if self.masked else self.allowed


def attention_floor(instance: Instance, M: Array | None = None) -> AttentionFloor:
    """min_ij F(M)_ij over the allowed positions, smallest over a batch (the hypothesis on delta of lem:PL_ineq).

    ::

        ln F_ij = (z_ij - max_k z_ik) - ln sum_k exp(z_ik - max_k z_ik),    z = X (M * W) X^T

    computed on logits scaled by a power of two, so that neither huge nor tiny logits are lost; a value below
    -1.8e308 is returned as -1.8e308. `radius` bounds the rounding error of the logarithm.

    Examples
    --------
    >>> import numpy as np
    >>> floor = attention_floor(Instance(np.eye(2), np.diag([1000.0, 1000.0])))
    >>> round(floor.log_allowed, 6), floor.masked
    (-1000.0, False)
    """
    M = instance.M_or_ones if M is None else M
    mask_scaled, mask_exponent = normalised(M)
    weight_scaled, weight_exponent = normalised(instance.W)
    weight, exponent = normalised(mask_scaled * weight_scaled)
    exponent += mask_exponent + weight_exponent
    allowed = instance.allowed
    lowest, radius = 0.0, 0.0
    for sample in instance.samples:
        tokens, token_exponent = normalised(sample)
        shift = exponent + 2 * token_exponent
        queries = tokens @ weight
        # each logit is a sum of d^2 products: |error| <= gamma |x| |M * W| |x'|; twice, for the row maximum
        largest = float(np.einsum("ia,ia->i", tokens, tokens).max()) * float(np.linalg.norm(weight))
        with np.errstate(over="ignore"):
            spread = float(np.ldexp(4 * dot_error(2 * instance.d + 4) * largest, shift))
        radius = max(radius, spread + 4 * dot_error(instance.n))
        for start in range(0, instance.n, _ROWS):
            rows = slice(start, start + _ROWS)
            lowest = min(lowest, lowest_log(queries[rows] @ tokens.T, allowed[rows], shift))
    return AttentionFloor(max(lowest, -_LARGEST), radius, not bool(allowed.all()))


def lowest_log(logits: Array, allowed: NDArray[np.bool_], shift: int = 0) -> float:
    """The least ln F of rows of logits 2^shift over their allowed positions."""
    top = np.where(allowed, logits, -np.inf).max(axis=1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        gaps = np.ldexp(top - logits, shift)
        mass = np.where(allowed, np.exp(-np.where(allowed, gaps, 0.0)), 0.0).sum(axis=1, keepdims=True)
        logs = np.where(allowed, -gaps - np.log(mass), 0.0)
    return float(logs.min())

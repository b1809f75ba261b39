"""Repaired bounds on exact instances close to where they are attained: squares of both sides, lhs <= rhs <= 2 lhs.

An instance that stays farther below its bound, or on which both sides are 0, shows nothing of it and is refused.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.attention import (
    Mask,
    Shifted,
    exact_logits,
    frobenius_sq,
    hadamard,
    relative,
    softmax,
)
from proofs_check.checker.dual import Dual, zero
from proofs_check.checker.fields import Document
from proofs_check.checker.interval import Number, bounds, square, total
from proofs_check.checker.questions import Question, at_least, contains, decide, exact, less, precisions
from proofs_check.checker.reject import Reject
from proofs_check.checker.statements.common import enclosures, no_hypotheses, require_claim, require_reading
from proofs_check.checker.statements.comparison import short_matrix
from proofs_check.checker.statements.pl_inequality import require_named_mask


@dataclass(frozen=True)
class BoundInstance:
    n: int
    d: int
    X: fields.Matrix
    W: fields.Matrix
    mask: Mask
    masks: dict[str, fields.Matrix]
    """The d x d inputs besides W, by name: M, and where a statement has them N and V."""

    def logits(self, name: str) -> list[Shifted]:
        return relative(exact_logits(self.X, hadamard(self.masks[name], self.W)), self.mask)

    def weights(self, name: str, bits: int) -> list[list[Number]]:
        return softmax(self.logits(name), bits)

    def dense(self, bits: int) -> list[list[Number]]:
        return softmax(relative(exact_logits(self.X, self.W), self.mask), bits)


Side = Callable[[BoundInstance, int], Number]


def _check(names: tuple[str, ...], left: Callable[[BoundInstance, int], list[Number]], right: Side, says: str) -> Any:
    """The check of one bound: every number of `left` is at most `right`; lhs encloses the largest of them."""

    def check(certificate: Document) -> str:
        require_claim(certificate, "confirmation", "lhs<=rhs")
        named = require_reading(certificate, {"mask": ("full", "causal", "given")})["mask"]
        instance = _read(certificate["inputs"], named, names)
        no_hypotheses(certificate)
        claimed = enclosures(certificate, ("lhs", "rhs"))

        def ask(bits: int) -> list[Question]:
            ends = [bounds(number) for number in left(instance, bits)]
            lhs = max(low for low, _ in ends), max(high for _, high in ends)
            rhs = bounds(right(instance, bits))
            return [
                ("lhs encloses the left side", contains(claimed["lhs"], lhs)),
                ("rhs encloses the right side", contains(claimed["rhs"], rhs)),
                ("lhs<=rhs", at_least(rhs, lhs)),
                ("lhs > 0", less(exact(0), lhs)),
                ("lhs is at least half of rhs", at_least((2 * lhs[0], 2 * lhs[1]), rhs)),
            ]

        n, d = instance.n, instance.d
        decide(precisions(claimed.values(), 8 * n * n * d, 3 * n * n), ask)
        return f"instance: {says} ({named} mask)"

    return check


def _read(inputs: Any, named: str, names: tuple[str, ...]) -> BoundInstance:
    inputs = fields.closed(inputs, ("n", "d", "X", "W", "mask", *names), "inputs")
    n, d = fields.integer(inputs["n"], "inputs.n", 1, 6), fields.integer(inputs["d"], "inputs.d", 1, 6)
    X = short_matrix(inputs["X"], n, d, "inputs.X")
    W, *others = (short_matrix(inputs[key], d, d, f"inputs.{key}") for key in ("W", *names))
    mask = fields.attention_mask(inputs["mask"], n, "inputs.mask")
    require_named_mask(named, mask, isinstance(inputs["mask"], list))
    return BoundInstance(n, d, X, W, mask, dict(zip(names, others, strict=True)))


def _choices(instance: BoundInstance, bits: int = 0) -> Fraction:
    """n_e, the number of rows with at least two allowed positions."""
    return Fraction(sum(sum(row) >= 2 for row in instance.mask))


def _residual(instance: BoundInstance, bits: int) -> list[Number]:
    """||c||^2."""
    pairs = zip(instance.weights("M", bits), instance.dense(bits), strict=True)
    return [total(square(p - q) for F, f in pairs for p, q in zip(F, f, strict=True))]


def _basic(instance: BoundInstance, bits: int) -> list[Number]:
    """||c||^2 / 2, ||c o F||^2 and ||diag((c o F) 1)||^2."""
    rows = list(zip(instance.weights("M", bits), instance.dense(bits), strict=True))
    products = [[(p - q) * p for p, q in zip(F, f, strict=True)] for F, f in rows]
    return [
        _residual(instance, bits)[0] / 2,
        total(square(entry) for row in products for entry in row),
        total(square(total(row)) for row in products),
    ]


def _jacobian(instance: BoundInstance, bits: int) -> list[Number]:
    """||dF/dM||^2: dual numbers give dF_ij / dy_ib, y_i = (M o W)^T x_i, and dy_ib / dM_ab = X_ia W_ab."""
    norm: Number = Fraction(0)
    for i, row in enumerate(instance.logits("M")):
        weights = [None if z is None else Dual(z, list(x)).exp(bits) for z, x in zip(row, instance.X, strict=True)]
        mass = zero(instance.d)
        for weight in weights:
            mass = mass if weight is None else mass + weight
        pull = _pull(instance, i)
        for weight in weights:
            if weight is not None:
                slopes = (weight / mass).slopes
                norm = norm + total(square(slope) * pull[b] for b, slope in enumerate(slopes) if pull[b])
    return [norm]


def _pull(instance: BoundInstance, i: int) -> list[Fraction]:
    """sum_a (X_ia W_ab)^2 for every b."""
    rows = zip(instance.X[i], instance.W, strict=True)
    squares = [[(x * w) ** 2 for w in row] for x, row in rows]
    return [sum(column, Fraction(0)) for column in zip(*squares, strict=True)]


def _quarter_of_the_map(instance: BoundInstance, bits: int) -> Fraction:
    """||Pi A||_F^2 / 4."""
    whole = Fraction(0)
    for i, allowed in enumerate(instance.mask):
        kept = [x for x, keep in zip(instance.X, allowed, strict=True) if keep]
        for pull, column in zip(_pull(instance, i), zip(*kept, strict=True), strict=True):
            mean = sum(column, Fraction(0)) / len(column)
            whole += pull * sum(((x - mean) ** 2 for x in column), Fraction(0))
    return whole / 4


def _product_change(instance: BoundInstance, bits: int) -> list[Number]:
    """||c o F at M - c o F at N||^2."""
    rows = zip(instance.weights("M", bits), instance.weights("N", bits), instance.dense(bits), strict=True)
    return [
        total(square((p - f) * p - (q - f) * q) for F, G, dense in rows for p, q, f in zip(F, G, dense, strict=True))
    ]


def _along(instance: BoundInstance, bits: int) -> Fraction:
    """(||Pi A V|| / (2 ||V||))^2 ||M - N||^2, at most (K/2)^2 ||M - N||^2 because K = ||Pi A||."""
    length = frobenius_sq(instance.masks["V"])
    if not length:
        raise Reject("inputs.V must not be 0")
    moved = Fraction(0)
    for row, allowed in zip(
        exact_logits(instance.X, hadamard(instance.masks["V"], instance.W)), instance.mask, strict=True
    ):
        kept = [z for z, keep in zip(row, allowed, strict=True) if keep]
        mean = sum(kept, Fraction(0)) / len(kept)
        moved += sum(((z - mean) ** 2 for z in kept), Fraction(0))
    pairs = zip(instance.masks["M"], instance.masks["N"], strict=True)
    step = frobenius_sq([[p - q for p, q in zip(r, s, strict=True)] for r, s in pairs])
    return moved * step / (4 * length)


CHECKS = {
    "fix:bound_c": _check(("M",), _residual, lambda i, bits: 2 * _choices(i), "||c||^2 <= 2 n_e"),
    "fix:bound_basic_func": _check(
        ("M",), _basic, _choices, "||c||^2/2, ||c o F||^2 and ||diag((c o F) 1)||^2 are at most n_e"
    ),
    "fix:bound_grad_f": _check(("M",), _jacobian, _quarter_of_the_map, "||dF/dM||_F <= ||Pi A||_F / 2"),
    "fix:lip_f_circ_c": _check(
        ("M", "N", "V"),
        _product_change,
        _along,
        "c o F moves by at most ||Pi A V||/(2 ||V||) ||M - N||, so (K/2) ||M - N||",
    ),
}

"""Bounds that attention kernels are judged by: rounding of sums, of online softmax, and of what a gradient is made of.

Operations are off by a whole unit u = 1/1024 at most, up or down as `signs` and `turns` have it; 16-bit storing by w.
"""

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most, equal
from attnprune_verify.claims.cases.supply import Arrays
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Reading, Strength, Unmet, Wrong

_SECTION = "E Bounds for Basic Functions"
_ANY = Reading(
    "standard model",
    "every operation has a relative error of at most u < 1, every 16-bit storing of at most w < 1; nothing overflows or"
    " underflows",
)
_U, _W = 2.0**-10, 2.0**-8
"""Chosen: coarse, so that products of two errors show."""
_OFF = 2.0**-6
"""Chosen: how far computed logits, products and means are off."""
_SHIFTS = (0.5, -1.0, 2.0)
"""Chosen: up and down."""
_LARGEST = 4.0
"""Chosen: logits up to this, so that every weight counts."""


def _grow(q: Quantities, unit: float, times: int) -> Lifted:
    """(1 - u)^-k: by what k roundings multiply or divide at most."""
    found = q.number(1.0)
    for _ in range(times):
        found = found / q.number(1 - unit)
    return found


def _signed(rng: Generator, case: Case) -> Case:
    """Signs of the roundings: drawn, or all one way."""
    n = len(case["x"])
    way = rng.choice([-1.0, 1.0]) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], n)
    signs, turns = np.ones(n) * way, np.ones(n) * rng.choice([-1.0, 1.0], n if rng.random() < 0.5 else 1)
    small = np.clip(case["x"], -_LARGEST, _LARGEST)
    return case.but(case.origin, signs=signs, turns=turns, x=small, z=np.clip(case["z"], -_LARGEST, _LARGEST))


def _further(rng: Generator, case: Case) -> Case:
    """`_signed`, with logits that are off by much too."""
    return _signed(rng, case).but(off=float(rng.choice([_OFF, _OFF, 0.676, 1.0])))


_REMAINING = Hypothesis("sum_j p_j e_j < 1")
_ROUNDED = Arrays({"x": "n", "z": "n"}, make=_signed, rounds=24)


def _chained(q: Quantities, terms: Lifted, signs: Lifted, unit: float) -> Lifted:
    """A sum from the left, each addition rounded."""
    total = terms[0]
    for term, sign in zip(terms[1:], signs[1:], strict=True):
        total = (total + term) * (1 + sign * q.number(unit))
    return total


def _product(q: Quantities, unit: float = _U, fewer: int = 0) -> Relation:
    n, off = len(q.x), q.number(_OFF)
    made = (q.x + off * q.signs) * q.z * (1 + q.turns * q.number(_U))
    error = _chained(q, made, q.turns, _U) - (q.x * q.z).sum()
    q.note({"|y - sum_j x_j z_j|": abs(error), "eps": off, "n": n, "u": _U})
    sums = (_grow(q, unit, n - fewer) - 1) * ((abs(q.x) + off) * abs(q.z)).sum()
    return at_most(abs(error), off * abs(q.z).sum() + sums)


def _online(q: Quantities, rescaled: bool = True) -> Relation:
    """One key after the other, with shifts that go up and down."""
    total = out = shift = q.number(0.0)
    for j, (s, v) in enumerate(zip(q.x, q.z, strict=True)):
        before, shift = shift, q.number(_SHIFTS[j % len(_SHIFTS)])
        back = q.exp(before - shift) if rescaled else q.number(1.0)
        total, out = total * back + q.exp(s - shift), out * back + q.exp(s - shift) * v
    weights = q.exp(q.x)
    q.note({"out": out, "total": total, "softmax(s)": weights / weights.sum(), "v": q.z})
    return equal(out / total, (weights * q.z).sum() / weights.sum())


def _output(q: Quantities, own: bool = True, common: bool = True, unit: float = _U) -> Relation:
    """One row: logits off by 1/64, exp by 2 u, weights stored, both sums rounded, divided, stored twice."""
    n, u, w, a = len(q.x), q.number(_U), q.number(_W), q.number(float(q.case["off"]))
    exact = q.exp(q.x)
    p = exact / exact.sum()
    off = q.exp(a) / (1 - 2 * u) - 1
    kept = 1 - (p * off).sum()
    q.note({"p": p, "e": [off] * n})
    made = q.exp(q.x + a * q.signs) * (1 + 2 * u * q.signs)
    stored = made * (1 + w * q.turns) * q.z * (1 + u * q.turns)
    y = _chained(q, stored, q.turns, _U) / _chained(q, made, -q.turns, _U)
    y = y * (1 + u * q.turns[0]) * (1 + w * q.turns[0]) * (1 + w * q.turns[0])
    o = (p * q.z).sum()
    centred = (p * off * abs(q.z - o)).sum() / kept
    terms = (p * (1 + off) / kept * abs(q.z)).sum() * (_grow(q, unit, 2 * n - 1) * _grow(q, _W, 1) - 1)
    shared = _grow(q, unit, 2 * n) * _grow(q, _W, 2) if common else q.number(1.0)
    terms_off = _grow(q, _U, 2 * n - 1) * _grow(q, _W, 1) - 1
    q.note({"|y - o|": abs(y - o), "o": o, "v": q.z, "C": terms_off, "u": u, "w": w, "n": n})
    if not kept > 0:
        raise Unmet(_REMAINING.name)
    return at_most(abs(y - o), shared * (centred + (terms if own else 0)) + (shared - 1) * abs(o))


def _logit_gradient(q: Quantities, stored: int = 3, weight: float = _OFF) -> list[Relation]:
    """dS = P (dP - D), each off, the difference, the product and three storings rounded; x stands for dP, z for D."""
    u, w, off = q.number(_U), q.number(_W), q.number(_OFF)
    p, z = q.number(0.5), q.x - q.z
    made = (z + 2 * off * q.signs) * (1 + u * q.turns) * (1 + w * q.turns)
    made = p * (1 + off * q.turns) * made * (1 + u * q.turns) * (1 + w * q.turns) * (1 + w * q.turns)
    K = (1 + q.number(weight)) * _grow(q, _U, 2) * _grow(q, _W, stored)
    q.note({"ds": made, "p": p, "dp": q.x, "D": q.z, "u": u, "w": w})
    q.note(dict.fromkeys(("eps", "eta", "rho"), off))
    bounds = K * p * 2 * off + (K - 1) * abs(p * z)
    return [at_most(error, bound) for error, bound in zip(abs(made - p * z), bounds, strict=True)]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:rounding_sum",
        kind=Kind.LEMMA,
        title="Rounding of a sum of products",
        section=_SECTION,
        reading=_ANY,
        formula="|y - sum_j x_j z_j| <= sum_j eps |z_j| + ((1 - u)^{-n} - 1) sum_j (|x_j| + eps) |z_j|",
        strength=Strength.UPPER,
        margin=_product,
        supply=_ROUNDED,
        wrong=(
            Wrong("n - 1 for n", lambda q: _product(q, fewer=1)),
            Wrong("half of u", lambda q: _product(q, unit=_U / 2)),
        ),
        source="new",
    ),
    Claim(
        id="new:online_softmax",
        kind=Kind.LEMMA,
        title="Online softmax is softmax",
        section=_SECTION,
        reading=_ANY,
        formula="out / total = sum_j softmax(s)_j v_j",
        strength=Strength.IDENTITY,
        margin=_online,
        supply=_ROUNDED,
        wrong=(Wrong("the running sums are not rescaled", lambda q: _online(q, rescaled=False)),),
        source="new",
    ),
    Claim(
        id="new:rounding_output",
        kind=Kind.THEOREM,
        title="Rounding of attention, forward",
        section=_SECTION,
        reading=_ANY,
        formula="|y - o| <= G (sum_j p_j e_j |v_j - o| + sum_j p_j (1 + e_j) C |v_j|)/(1 - sum_j p_j e_j) + (G - 1)"
        " |o|, G = (1 - u)^{-2 n} (1 - w)^{-2}, C = (1 - u)^{1 - 2 n} (1 - w)^{-1} - 1 if sum_j p_j e_j < 1",
        strength=Strength.UPPER,
        margin=_output,
        supply=Arrays({"x": "n", "z": "n"}, make=_further, rounds=24),
        hypotheses=(_REMAINING,),
        uses=("new:online_softmax", "new:rounding_sum"),
        wrong=(
            Wrong("no errors of single terms", lambda q: _output(q, own=False)),
            Wrong("no errors of the row sum", lambda q: _output(q, common=False)),
        ),
        source="new",
    ),
    Claim(
        id="new:rounding_gradient",
        kind=Kind.THEOREM,
        title="Rounding of attention, backward",
        section=_SECTION,
        reading=_ANY,
        formula="|ds_j - p (dp_j - D_j)| <= K p (eps + eta) + (K - 1) |p (dp_j - D_j)|, K = (1 + rho) (1 - u)^{-2}"
        " (1 - w)^{-3}",
        strength=Strength.UPPER,
        margin=_logit_gradient,
        supply=_ROUNDED,
        uses=("new:rounding_output", "new:rounding_sum"),
        wrong=(
            Wrong("two storings for three", lambda q: _logit_gradient(q, stored=2)),
            Wrong("half of what the weight is off", lambda q: _logit_gradient(q, weight=_OFF / 2)),
        ),
        source="new",
    ),
)

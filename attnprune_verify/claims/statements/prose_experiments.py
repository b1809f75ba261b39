"""Sentences of the text on its synthetic experiments: parameters that contradict the theory, at the paper's sizes."""

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from functools import cache

import numpy as np
from flint import fmpz_mat
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case, from_instance
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, equal, less
from attnprune_verify.claims.cases.supply import Arrays, Fixed
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import CAUSAL
from attnprune_verify.claims.prose import one_case, sentence
from attnprune_verify.claims.reported import synthetic
from attnprune_verify.instance.families import paper_synthetic

_SET = synthetic()
_SIZE = f"n = {_SET.tokens}, d = {_SET.features}"
_FEW, _MANY = _SET.samples
_EXPANSION = _SET.step * _SET.tokens
"""eta lam~ = (0.1/lam) (n lam), whatever lam is."""
_OVERFLOW = math.log(sys.float_info.max)
_LONGEST = float(2 * (1 + _SET.momentum))
"""eta lam below which heavy ball shrinks (lam/2) ||M||^2; above it new:heavy_ball_diverges applies."""


def _draws(k: int | None = None) -> Iterator[tuple[Lifted, str]]:
    """The recipe of Section 6.1 at its own sizes, with both readings of W_Q and W_K."""
    for shared in (False, True):
        for seed in (0, 2):
            draw = paper_synthetic(
                np.random.default_rng(seed), n=_SET.tokens, d=_SET.features, k=k, lam=float(_SET.lam), shared=shared
            )
            yield draw, f"paper_synthetic {_SIZE}, shared={shared}, seed {seed}"


@cache
def _sets() -> tuple[Case, ...]:
    return tuple(from_instance(draw, origin, M=np.ones((draw.d, draw.d))) for draw, origin in _draws())


@cache
def _calibration() -> tuple[Case, ...]:
    """k = 16 samples; of each the largest logit's sample."""
    cases = []
    for batch, origin in _draws(_FEW):
        samples, W = np.asarray(batch.X), np.asarray(batch.W)
        tables = np.where(batch.allowed, samples @ W @ samples.transpose(0, 2, 1), -np.inf)
        worst = int(np.argmax(tables.max(axis=(1, 2))))
        values = {"X": samples[worst], "W": W, "M": np.ones(W.shape), "lam": batch.lam, "mask": "causal"}
        cases.append(Case(values, f"{origin}, k = {_FEW}, sample {worst}"))
    return tuple(cases)


def _largest_logit(q: Quantities, limit: float) -> Relation:
    """exp of a logit above log(largest double) overflows in float64."""
    table = np.asarray(q.case["X"]) @ np.asarray(q.case["W"]) @ np.asarray(q.case["X"]).T
    i, j = (int(v) for v in np.unravel_index(np.argmax(np.where(q.allowed, table, -np.inf)), table.shape))
    left, right = q.X[i], q.X[j]
    logit = ((left @ q.W) * right).sum()
    q.note({"max_ij (X W X^T)_ij": logit})
    return at_most(logit, q.number(limit))


@cache
def _steepest_rows() -> tuple[Case, ...]:
    """Return the row of each draw that bends most at M = 1, and the direction V in which it does.

    Row i sees V through the logits' move A V = X (V o W)^T x_i and answers J A V. With D = diag(sum_a W_ab^2 x_ia^2),
    (J A)(J A)^T = J X D X^T J, so V = W o (x_i (X^T J y)^T) for the leading left singular vector y.
    """
    cases = []
    for draw, origin in _draws():
        X, W = np.asarray(draw.X), np.asarray(draw.W)
        found = []
        for i in range(1, len(X)):
            J = _jacobian(X[: i + 1] @ W.T @ X[i])
            moves = J @ X[: i + 1] * np.sqrt((W**2 * X[i][:, None] ** 2).sum(axis=0))
            left, sizes, _ = np.linalg.svd(moves)
            found.append((float(sizes[0]), i, W * np.outer(X[i], X[: i + 1].T @ J @ left[:, 0])))
        _, row, direction = max(found, key=lambda one: one[0])
        case = from_instance(draw, f"{origin}, row {row}", M=np.ones(W.shape))
        cases.append(case.but(row=row, V=direction / np.linalg.norm(direction)))
    return tuple(cases)


def _jacobian(logits: Lifted) -> Lifted:
    s = np.exp(logits - logits.max())
    s = s / s.sum()
    return np.diag(s) - np.outer(s, s)


def _bend(q: Quantities) -> Lifted:
    """||d f_i(1 + t V)||^2 / (k ||V||^2) of one row i of one sample among k.

    At M = 1 the residual is 0, so V^T (Hess L_attn) V is the sum of the squares of how all rows of all samples move, in
    the mean over the samples; one row bounds it, and so L, from below.
    """
    i = int(q.case["row"])
    X, x, V = q.X[: i + 1], q.X[i], q.V
    s = q.softmax(X @ (q.W.T @ x))
    u = X @ ((V * q.W).T @ x)
    moved = s * (u - (s * u).sum())
    q.note({"||d f_i(1 + t V)||": q.norm(moved), "k": _FEW})
    return q.square(moved) / (q.square(V) * _FEW)


def _step(q: Quantities, step: Fraction = _SET.step) -> Relation:
    q.note({"eta": q.number(step / _SET.lam)})
    return at_most(q.number(step / _SET.lam) * _bend(q), q.number(2))


def _both_positive(q: Quantities, least: float = 0.0) -> Relation:
    """max(beta, delta) > 0: where that fails, both hypotheses fail."""
    return less(q.number(least), q.largest([q.beta, q.delta]))


def _rank(X: Lifted) -> int:
    """The rank of a matrix of doubles, exactly: the entries as integers over a common power of two."""
    entries = [[Fraction(float(entry)) for entry in row] for row in X]
    scale = max(entry.denominator for row in entries for entry in row)
    return int(fmpz_mat([[int(entry * scale) for entry in row] for row in entries]).rank())


def _rank_is(q: Quantities, wanted: int) -> Relation:
    return at_least(q.number(_rank(q.case["X"])), q.number(wanted))


def _determinant(q: Quantities) -> Relation:
    """det(X X^T) in exact arithmetic is 0 as soon as n > d."""
    gram = [list(row) for row in q.X @ q.X.T]
    size, value = len(gram), q.number(1)
    for k in range(size):
        pivot = next((r for r in range(k, size) if gram[r][k] != 0), None)
        if pivot is None:
            return less(q.number(0), q.number(0))
        gram[k], gram[pivot] = gram[pivot], gram[k]
        value = value * gram[k][k]
        for r in range(k + 1, size):
            factor = gram[r][k] / gram[k][k]
            gram[r] = [a - factor * b for a, b in zip(gram[r], gram[k], strict=True)]
    return less(q.number(0), abs(value))


def _singular(q: Quantities) -> Relation:
    found = _determinant(q).rhs
    q.note({"det(X X^T)": found})
    return equal(found, q.number(0))


def _taller(rng: Generator, case: Case) -> Case:
    """Require at least one token more than features."""
    X = case["X"]
    while len(X) <= X.shape[1]:
        X = np.vstack([X, rng.integers(-3, 4, (1, X.shape[1])).astype(float)])
    return case.but(X=X)


def _squared_off(q: Quantities) -> Quantities:
    """Cut the case to as many tokens as features."""
    return Quantities(q.case.but(X=q.case["X"][: q.case["X"].shape[1]]), q.arithmetic)


def _expands(q: Quantities, k: int, limit: float) -> Relation:
    """eta times the regulariser's strength, at eta = 0.1/lam and lam~ = n lam divided by k."""
    eta, strength = _SET.step / q.strength, q.case["tokens"] * q.strength / k
    return at_most(eta * strength, q.number(limit))


_AS_PRINTED = Reading("algorithm", "alg:mask_gd's line, which divides lam~ by the number of samples as well")
_AS_DEFINED = Reading("definition", "the loss of def:attn_prun_causal with lam~ = n lam, in the mean over the samples")
_SYNTHETIC = one_case(tokens=_SET.tokens, strength=_SET.lam)

CLAIMS: tuple[Claim, ...] = (
    sentence(
        "exp:step_size",
        "The experiments' step and the theorem's",
        f"eta ||d f_i(1 + t V)||^2/(k ||V||_F^2) <= 2 at eta = {float(_SET.step):g}/lam, {_SIZE}, lam ="
        f" {float(_SET.lam):g}, k = {_FEW}",
        _step,
        Fixed(_steepest_rows),
        (Wrong("a tenth of the step", lambda q: _step(q, _SET.step / 10)),),
        arithmetic="ball",
        reading=CAUSAL,
        uses=("thm:our_convergence",),
        repaired_by="new:directional_step",
        finding="the other terms of L dominate: one row of one sample already makes eta exceed 2/L",
        note="with lam on top, and with the other rows and samples, L is only larger",
    ),
    sentence(
        "exp:divergent_step",
        "Stability of the experiments' step for the rescaled lam",
        f"eta n lam <= {_LONGEST:g} at n = {_SET.tokens}, eta = {float(_SET.step):g}/lam",
        lambda q: _expands(q, 1, _LONGEST),
        _SYNTHETIC,
        (Wrong("eta n lam <= 1", lambda q: _expands(q, 1, 1.0)),),
        arithmetic="exact",
        reading=_AS_DEFINED,
        uses=("new:heavy_ball_diverges",),
        finding=f"eta lam~ is {float(_EXPANSION):g}",
        note="momentum read as heavy ball, w - eta G + theta (w - v) from rest, without momentum the limit is 2; with"
        " an"
        " average of gradients, (1 - theta) G + theta v, it would be 2 (1 + theta)/(1 - theta), and the step is stable",
    ),
    sentence(
        "exp:divergent_step",
        "Stability of the experiments' step for the rescaled lam",
        f"eta n lam/{_FEW} <= 2, eta n lam/{_MANY} <= 2 at n = {_SET.tokens}, eta = {float(_SET.step):g}/lam",
        lambda q: [_expands(q, k, 2.0) for k in _SET.samples],
        _SYNTHETIC,
        (Wrong("not divided by k", lambda q: _expands(q, 1, 2.0)),),
        arithmetic="exact",
        reading=_AS_PRINTED,
        finding=f"eta lam~/k is {float(_EXPANSION / _FEW):g} at k = {_FEW} and {float(_EXPANSION / _MANY):g} at k ="
        f" {_MANY}",
    ),
    sentence(
        "exp:lam_in_unit_interval",
        "The rescaled lam is in range",
        f"n lam <= 1 at n = {_SET.tokens}, lam = {float(_SET.lam):g}",
        lambda q: at_most(q.case["tokens"] * q.strength, Fraction(1)),
        _SYNTHETIC,
        (Wrong("n lam <= 1/2", lambda q: at_most(q.case["tokens"] * q.strength, Fraction(1, 2))),),
        arithmetic="exact",
        uses=("lem:PL_ineq",),
        finding=f"lam~ is {float(_SET.tokens * _SET.lam):g}",
    ),
    sentence(
        "exp:full_rank_tokens",
        "X is a full-rank Gaussian matrix",
        f"rank X >= min(n, d) at {_SIZE}",
        lambda q: _rank_is(q, min(np.shape(q.case["X"]))),
        Fixed(_sets),
        (Wrong("rank n", lambda q: _rank_is(q, max(np.shape(q.case["X"])))),),
        strength=Strength.LOWER,
        arithmetic="exact",
        reading=Reading("rank", "as printed: X itself has full rank"),
    ),
    sentence(
        "exp:full_rank_tokens",
        "Full rank of X and the theorem's beta",
        f"rank(X X^T) = rank X >= n at {_SIZE}",
        lambda q: _rank_is(q, len(q.case["X"])),
        Fixed(_sets),
        (Wrong("rank n + 1", lambda q: _rank_is(q, len(q.case["X"]) + 1)),),
        strength=Strength.LOWER,
        arithmetic="exact",
        reading=Reading("theorem", "as Theorem 4.1 needs it: X X^T >= beta I with beta > 0"),
        uses=("lem:lower_bound_XBX",),
        repaired_by="new:PL_near_dense",
        finding="X X^T is singular, so beta = 0 exactly: full rank of X does not give the theorem's assumption",
    ),
    sentence(
        "exp:exp_is_computable",
        "The exponential as written",
        f"max_ij (X W X^T)_ij <= 1024 log(2) at {_SIZE}",
        lambda q: _largest_logit(q, _OVERFLOW),
        Fixed(_calibration),
        (Wrong("logits up to 88.7 (float32)", lambda q: _largest_logit(q, 88.7)),),
        arithmetic="ball",
        reading=CAUSAL,
        uses=("alg:mask_gd",),
        finding="logits exceed it, so that exp without a shift overflows",
    ),
    sentence(
        "exp:batch_regulariser",
        "The meaning of lam across batch sizes",
        f"lam/{_FEW} = lam/{_MANY}",
        lambda q: equal(q.strength / _FEW, q.strength / _MANY),
        one_case(strength=_SET.lam),
        (Wrong("twice as much", lambda q: equal(q.strength / _FEW, 2 * q.strength / _MANY)),),
        strength=Strength.IDENTITY,
        arithmetic="exact",
        uses=("alg:mask_gd",),
        repaired_by="fix:mask_gd",
        finding=f"the line divides lam by k while the loss is a mean: k = {_MANY} regularises {_MANY / _FEW:g} times"
        " less",
    ),
    sentence(
        "exp:supports_theory",
        "The experiments support the theory",
        f"max(beta, delta) > 0 at {_SIZE}",
        _both_positive,
        Fixed(_sets),
        (Wrong("max(beta, delta) > 1e-9", lambda q: _both_positive(q, 1e-9)),),
        strength=Strength.LOWER,
        arithmetic="ball",
        reading=CAUSAL,
        uses=("thm:our_convergence",),
        finding="both fail, beta by n > d and delta by the mask: the experiments are outside the theorem",
    ),
    Claim(
        id="new:beta_needs_n_le_d",
        kind=Kind.LEMMA,
        title="beta and the number of tokens",
        section="6 Experiment",
        reading=Reading("any", "more tokens than features, any attention mask", "any"),
        formula="det(X X^T) = 0 if n >= d + 1",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_singular,
        supply=Arrays({"X": "nd"}, make=_taller, rounds=24),
        uses=("fac:algebra",),
        wrong=(Wrong("for n = d already", lambda q: equal(_determinant(_squared_off(q)).rhs, q.number(0))),),
        source="new",
    ),
)

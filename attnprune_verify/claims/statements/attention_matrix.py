"""Attention matrices and masks: the definitions, checked between independent implementations."""

from collections.abc import Callable

import numpy as np

from attnprune_verify.claims.cases.agreement import agree
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, equal
from attnprune_verify.claims.cases.supply import Arrays, Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK, FULL, LITERAL
from attnprune_verify.model import attention, causal_mask

_FULL = Instances("full", small=True, rounds=1)
_ANY = Instances("any", small=True, rounds=1)


def _rows(array: Lifted, q: Quantities) -> Relation:
    return equal(array.sum(axis=1), q.number(np.ones(q.n)), "rows sum to 1")


def _dense(q: Quantities) -> list[Relation]:
    """D^{-1} exp(X W X^T) against the model's shifted softmax."""
    D = np.diag(q.u.sum(axis=1))
    literal = np.array([row / D[i, i] for i, row in enumerate(q.u)])
    return [agree(q, literal, attention(q.case["X"], q.case["W"])), _rows(literal, q)]


def _causal_entries(q: Quantities, allowed: Lifted) -> Relation:
    n = len(q.u)
    return equal(
        q.number(causal_mask(n)), q.number(np.array([[float(allowed(i, j)) for j in range(n)] for i in range(n)]))
    )


def _logit(q: Quantities, i: int, j: int) -> Lifted:
    """(X (M o W) X^T)_ij, summed index by index."""
    total = q.number(0.0)
    for a in range(q.d):
        for b in range(q.d):
            total = total + q.X[i, a] * q.M[a, b] * q.W[a, b] * q.X[j, b]
    return total


def _dense_and_pruned(q: Quantities) -> list[Quantities]:
    """The definitions come in pairs: u, alpha, f are those of M = 1."""
    return [q, q.at(q.number(np.ones((q.d, q.d))))]


def _exponential(q: Quantities, entry: Lifted) -> list[Relation]:
    found = []
    for at, name, values in zip(_dense_and_pruned(q), ("u(M)", "u"), (q.ut, q.u), strict=True):
        table = np.array([[entry(at, i, j) for j in range(q.n)] for i in range(q.n)])
        found.append(equal(values, q.exp(table), name))
    return found


def _sum(q: Quantities, masked: bool) -> list[Relation]:
    found = []
    for name, values, table in (("alpha(M)", q.alphat, q.ut), ("alpha", q.alpha, q.u)):
        rows = []
        for i in range(q.n):
            total = q.number(0.0)
            for j in range(q.n):
                if q.allowed[i, j] or not masked:
                    total = total + table[i, j]
            rows.append(total)
        found.append(equal(values, np.array(rows, dtype=object), name))
    return found


def _probabilities(q: Quantities, weights: Callable[[Quantities], Lifted]) -> list[Relation]:
    found = []
    for name, at, M, carried in zip(("f(M)", "f"), _dense_and_pruned(q), (q.case["M"], 1.0), (q.F, q.f), strict=True):
        literal = weights(at) / weights(at).sum(axis=1)[:, None]
        outside = literal[~q.allowed]
        found += [
            agree(q, literal, attention(q.case["X"], M * q.case["W"], q.case["mask"])),
            equal(literal, carried, name),
            equal(outside, q.number(np.zeros(outside.shape)), f"{name}, zero where the mask forbids"),
            _rows(literal, q)._replace(part=f"{name}, rows sum to 1"),
        ]
    return found


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="def:attn_matrix",
        kind=Kind.DEFINITION,
        title="Attention matrix",
        section="1 Introduction",
        reading=FULL,
        formula="Softmax(X W X^T) = D^{-1} exp(X W X^T), Softmax(X W X^T) 1 = 1, D = diag(exp(X W X^T) 1)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=_dense,
        supply=_FULL,
        wrong=(
            Wrong("columns normalised", lambda q: _rows(q.u / q.u.sum(axis=0)[None, :], q)),
            Wrong(
                "logits divided by sqrt(d)",
                lambda q: agree(q, q.f, attention(q.case["X"], q.case["W"] / np.sqrt(q.d))),
            ),
        ),
    ),
    Claim(
        id="def:mask",
        kind=Kind.DEFINITION,
        title="Causal attention mask",
        section="3 Preliminary",
        reading=LITERAL,
        formula="(M_c)_ij = 1 if i >= j else 0",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: _causal_entries(q, lambda i, j: i >= j),
        supply=Arrays({"u": "n"}),
        wrong=(
            Wrong("i > j", lambda q: _causal_entries(q, lambda i, j: i > j)),
            Wrong("i <= j", lambda q: _causal_entries(q, lambda i, j: i <= j)),
        ),
    ),
    Claim(
        id="def:exp_func",
        kind=Kind.DEFINITION,
        title="Exponential function u",
        section="C Gradient Calculation",
        reading=LITERAL,
        formula="u(M) = exp(X (M o W) X^T), u = exp(X W X^T)",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _exponential(q, _logit),
        supply=_FULL,
        wrong=(Wrong("indices of the logit swapped", lambda q: _exponential(q, lambda q, i, j: _logit(q, j, i))),),
    ),
    Claim(
        id="def:sum_func",
        kind=Kind.DEFINITION,
        title="Sum function of softmax",
        section="C Gradient Calculation",
        reading=ANY_MASK,
        formula="alpha(M) = (u(M) o M_c) 1",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _sum(q, masked=True),
        supply=_ANY,
        uses=("def:exp_func", "def:mask"),
        wrong=(Wrong("the mask forgotten", lambda q: _sum(q, masked=False)),),
    ),
    Claim(
        id="def:soft_prob_func",
        kind=Kind.DEFINITION,
        title="Softmax probability function f",
        section="C Gradient Calculation",
        reading=ANY_MASK,
        formula="f(M) = diag(alpha(M))^{-1} (u(M) o M_c), f(M) 1 = 1, f(M)_ij = 0 wherever (M_c)_ij = 0, f ="
        " diag(alpha)^{-1} (u o M_c), f 1 = 1, f_ij = 0 wherever (M_c)_ij = 0",
        strength=Strength.IDENTITY,
        arithmetic="ball",
        margin=lambda q: _probabilities(q, lambda m: m.ut * q.number(q.allowed.astype(float))),
        supply=_ANY,
        uses=("def:exp_func", "def:sum_func"),
        wrong=(
            Wrong("the mask forgotten", lambda q: _probabilities(q, lambda m: m.ut)),
            Wrong(
                "the mask multiplies the logits",
                lambda q: _probabilities(q, lambda m: q.exp(m.logits * q.number(q.allowed.astype(float)))),
            ),
        ),
        note="'for each j in [n]' in the printed definition quantifies nothing",
    ),
)

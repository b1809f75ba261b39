"""What the text says about its experiments: parameters that contradict the theory, and results to be measured."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from attnprune_verify.claims.agreement import conformable
from attnprune_verify.claims.case import Case, from_instance
from attnprune_verify.claims.core import Claim, Kind, Margin, Reading, Strength, Wrong
from attnprune_verify.claims.excerpts import excerpt
from attnprune_verify.claims.hypotheses import CAUSAL, LITERAL
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.relation import Relation, at_least, at_most, equal, less
from attnprune_verify.claims.supply import Arrays, Fixed
from attnprune_verify.instance.families import paper_synthetic
from attnprune_verify.pretrained.counts import LLAMA_3_2_1B, parameter_counts

_SECTION = "6 Experiment"
_EXTRA_READING = Reading("Llama-3.2-1B", "2048 features, 32 query heads and 8 key-value heads of 64")

_REPORTED = Fraction(25, 10000)
_TOKENS, _LAM, _EXCESS = 128, Fraction(4, 100), float(3 * 2048 * Fraction(5, 100) / _REPORTED) * 128**0.5
_HIDDEN, _KEY_HEADS, _HEAD, _LAYERS = (
    LLAMA_3_2_1B[name] for name in ("hidden_size", "num_key_value_heads", "head_dim", "num_hidden_layers")
)
_COUNTS = parameter_counts(LLAMA_3_2_1B)


def _one(**values: Any) -> Fixed:
    """A single case of plain numbers."""
    return Fixed(lambda: iter([Case(values, ", ".join(f"{k} = {v}" for k, v in values.items()))]))


def _cross_reference() -> Iterator[Case]:
    """The label of the section in which the baselines are named, and the section they are said to be those of."""
    text = excerpt("exp:baselines_reference")
    (label,) = re.findall(r"\\subsection\{.*\}\\label\{([^}]*)\}", text)
    (reference,) = re.findall(r"baselines are .*the same as Section~\\ref\{([^}]*)\}", text)
    yield Case({"stands_in": label, "refers_to": reference}, "the paper's LaTeX, lines 529 to 545")


def _synthetic(n: int, d: int) -> Callable[[], Iterator[Case]]:
    def cases() -> Iterator[Case]:
        for seed in (0, 1):
            instance = paper_synthetic(np.random.default_rng(seed), n=n, d=d)
            yield from_instance(instance, f"paper_synthetic n={n}, d={d}, seed {seed}", M=np.ones((d, d)))

    return cases


def _calibration() -> Iterator[Case]:
    """k = 16 samples of the paper's set-up, both readings of W_Q, W_K; of each the largest logit's sample."""
    for shared in (False, True):
        for seed in (0, 2):
            batch = paper_synthetic(np.random.default_rng(seed), k=16, shared=shared)
            samples, W = np.asarray(batch.X), np.asarray(batch.W)
            tables = np.where(batch.allowed, samples @ W @ samples.transpose(0, 2, 1), -np.inf)
            worst = int(np.argmax(tables.max(axis=(1, 2))))
            values = {"X": samples[worst], "W": W, "M": np.ones(W.shape), "lam": batch.lam, "mask": "causal"}
            yield Case(values, f"paper_synthetic k=16, shared={shared}, seed {seed}, sample {worst}")


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


def _tall() -> Iterator[Case]:
    """Twice as many tokens as features, as n = 128 and d = 64, with integer entries."""
    for seed in (0, 1):
        X = np.random.default_rng(seed).integers(-9, 10, (8, 4)).astype(float)
        yield Case({"X": X}, f"integer tokens, n = 8, d = 4, seed {seed}")


def _taller(rng: np.random.Generator, case: Case) -> Case:
    """At least one token more than features."""
    X = case["X"]
    while len(X) <= X.shape[1]:
        X = np.vstack([X, rng.integers(-3, 4, (1, X.shape[1])).astype(float)])
    return case.but(X=X)


def _squared_off(q: Quantities) -> Quantities:
    """As many tokens as features."""
    return Quantities(q.case.but(X=q.case["X"][: q.case["X"].shape[1]]), q.arithmetic)


def _largest_logit(q: Quantities, limit: float) -> Relation:
    """exp of a logit above log(largest double) overflows in float64."""
    table = np.asarray(q.case["X"]) @ np.asarray(q.case["W"]) @ np.asarray(q.case["X"]).T
    i, j = (int(v) for v in np.unravel_index(np.argmax(np.where(q.allowed, table, -np.inf)), table.shape))
    left, right = q.X[i], q.X[j]
    logit = ((left @ q.W) * right).sum()
    return at_most(logit, q.number(limit))


def _step(q: Quantities, rule: Callable[[Any], Any]) -> Relation:
    """eta times a certified lower bound of the curvature (a Rayleigh quotient at M = 1) must stay below 2."""
    V = _steep(q)
    lifted = q.number(V)
    bend = (q.directional(lifted, lambda m: m.G) * lifted).sum() / q.square(lifted)
    return at_most(rule(q.lam) * (bend + q.lam), q.number(2.0))


@cache
def _steep_direction(key: bytes, d: int, n: int, lam: float, W: bytes) -> Any:
    case = Case(
        {
            "X": np.frombuffer(key).reshape(n, d),
            "W": np.frombuffer(W).reshape(d, d),
            "M": np.ones((d, d)),
            "lam": lam,
            "mask": "causal",
        }
    )
    q = Quantities(case)
    V = np.ones((d, d))
    for _ in range(12):
        V = q.directional(V / np.linalg.norm(V), lambda m: m.G)
    return V / np.linalg.norm(V)


def _steep(q: Quantities) -> Any:
    """A direction of large curvature, by power iteration in floats; any direction gives a valid lower bound."""
    X, W = np.ascontiguousarray(q.case["X"]), np.ascontiguousarray(q.case["W"])
    return _steep_direction(X.tobytes(), q.d, q.n, float(q.case["lam"]), W.tobytes())


def _reported_numbers() -> Iterator[Case]:
    for n in (128, 256, 400, 512):
        values = {"tokens": Fraction(n), "features": Fraction(2048), "strength": Fraction(5, 100), "floor": _REPORTED}
        yield Case(values, f"n = {n}, d = 2048, lam = 0.05, delta = 0.0025")


def _whole_model_ratio() -> Fraction:
    """Half of every MLP and half of W_Q, W_K of the last layer, over all parameters."""
    pruned = sum(_COUNTS[role] for role in ("gate", "up", "down")) + Fraction(_query_key(), _LAYERS)
    return pruned / (2 * sum(_COUNTS.values()))


def _query_key() -> int:
    return _COUNTS["Q"] + _COUNTS["K"]


def _exp(
    id_: str,
    title: str,
    says: str,
    formula: str,
    margin: Margin,
    supply: Fixed,
    wrong: Wrong,
    *,
    strength: Strength = Strength.UPPER,
    arithmetic: str = "exact",
    reading: Reading = LITERAL,
    defect: Margin | None = None,
    uses: tuple[str, ...] = (),
    note: str = "",
    repaired_by: str | None = None,
) -> Claim:
    return Claim(
        id=id_, kind=Kind.EXPERIMENT, title=title, section=_SECTION, reading=reading, says=says, formula=formula,
        strength=strength, margin=margin, supply=supply, wrong=(wrong,), arithmetic=arithmetic, defect=defect,
        uses=uses,
        note=note, repaired_by=repaired_by, source="the paper's text",
    )  # fmt: skip


CLAIMS: tuple[Claim, ...] = (
    _exp(
        "exp:reported_delta",
        "delta of about 0.0025 was measured",
        "A minimum of 0.0025 is at most 1/n only for n <= 400; the experiment with varying rho has n = 512.",
        "0.0025 <= 1/n at n = 512",
        lambda q: at_most(q.delta_reported, Fraction(1, q.case["tokens"])),
        _one(delta_reported=_REPORTED, tokens=512),
        Wrong("at n = 4096", lambda q: at_most(q.delta_reported, Fraction(1, 4096))),
        uses=("new:delta_le_inverse_n",),
        note="with the causal mask of the theorem delta is 0",
    ),
    _exp(
        "exp:step_size",
        "eta = 0.1/lam follows the theorem",
        "'eta prop. to 1/L prop. to 1/(lam + other)': the other terms dominate, and the step exceeds 2/L.",
        "eta L <= 2 with eta = 0.1/lam, lam = 0.04",
        lambda q: _step(q, lambda lam: q.number(0.1) / lam),
        Fixed(_synthetic(16, 12)),
        Wrong("eta = 1/lam", lambda q: _step(q, lambda lam: q.number(1.0) / lam)),
        arithmetic="ball",
        reading=CAUSAL,
        uses=("thm:our_convergence",),
        repaired_by="new:directional_step",
    ),
    _exp(
        "exp:divergent_step",
        "eta = 0.1/lam is stable for the rescaled lam",
        f"Descent on the regulariser alone needs eta lam~ <= 2; lam~ = n lam, eta = 0.1/lam make it {_TOKENS / 10:g}.",
        "eta n lam <= 2 at n = 128, eta = 0.1/lam",
        lambda q: at_most(Fraction(1, 10) / q.strength * q.case["tokens"] * q.strength, Fraction(2)),
        _one(tokens=_TOKENS, strength=_LAM),
        Wrong("eta n lam <= 1", lambda q: at_most(Fraction(1, 10) * q.case["tokens"], Fraction(1))),
    ),
    _exp(
        "exp:vacuous_guarantee",
        "The guarantee says something at the reported numbers",
        f"xi/2 >= 3 lam d/(sqrt(n) delta), at least {_EXCESS:.3g} times the largest possible attention error 1/n.",
        "3 lam d/(sqrt(n) delta) <= 1/n at the reported lam, d, delta (both sides squared)",
        lambda q: at_most((3 * q.strength * q.features / q.floor) ** 2 / q.tokens, 1 / q.tokens**2),
        Fixed(_reported_numbers),
        Wrong("a hundred times smaller", lambda q: at_most(1 / q.tokens, 1 / q.tokens**2)),
        uses=("thm:our_convergence",),
        repaired_by="new:linear_convergence",
    ),
    _exp(
        "exp:lam_in_unit_interval",
        "The rescaled lam is in range",
        f"lam~ = n lam = {float(_TOKENS * _LAM):g} lies outside [0, 1], where Algorithm 1 and the lemmas want it.",
        "n lam <= 1",
        lambda q: at_most(q.case["tokens"] * q.strength, Fraction(1)),
        _one(tokens=_TOKENS, strength=_LAM),
        Wrong("n lam <= 1/2", lambda q: at_most(q.case["tokens"] * q.strength, Fraction(1, 2))),
        uses=("lem:PL_ineq",),
    ),
    _exp(
        "exp:full_rank_tokens",
        "X is full rank, so beta > 0",
        "With n = 2d tokens, as in the paper (128; shown at n = 8), X X^T is singular: beta = 0 exactly.",
        "det(X X^T) > 0 for n = 2d",
        _determinant,
        Fixed(_tall),
        Wrong("det(X X^T) >= 1", lambda q: less(q.number(1), _determinant(q).rhs)),
        strength=Strength.LOWER,
        uses=("lem:lower_bound_XBX",),
        repaired_by="new:PL_near_dense",
    ),
    _exp(
        "exp:exp_is_computable",
        "exp(X W X^T) can be computed as written",
        "On the paper's own synthetic data logits exceed 709.78, so exp without a shift overflows float64.",
        "max_ij (X W X^T)_ij <= 709.78",
        lambda q: _largest_logit(q, 709.78),
        Fixed(_calibration),
        Wrong("logits up to 88.7 (float32)", lambda q: _largest_logit(q, 88.7)),
        arithmetic="ball",
        reading=CAUSAL,
        uses=("alg:mask_gd",),
    ),
    _exp(
        "exp:batch_regulariser",
        "lam means the same for every k",
        "The algorithm divides lam by k while the loss is a mean: at equal lam, k = 64 regularises 4 times less than k"
        " = 16.",
        "(lam/k at k = 16) = (lam/k at k = 64)",
        lambda q: equal(q.strength / 16, q.strength / 64),
        _one(strength=Fraction(4, 100)),
        Wrong("twice as much", lambda q: equal(q.strength / 16, q.strength / 32)),
        strength=Strength.IDENTITY,
        uses=("alg:mask_gd",),
        repaired_by="fix:mask_gd",
    ),
    _exp(
        "exp:square_weights",
        "W_Q and W_K are d x d",
        "Grouped key-value heads make W_K 2048 x 512, so (M_Q o W_Q)(M_K o W_K)^T does not multiply.",
        "(M_Q o W_Q)(M_K o W_K)^T with W_Q 2048 x 2048, W_K 2048 x 512",
        lambda q: equal(q.number(_KEY_HEADS * _HEAD), q.number(512)),
        _one(features=_HIDDEN, key_features=_KEY_HEADS * _HEAD),
        Wrong("2048 key features", lambda q: equal(q.number(_KEY_HEADS * _HEAD), q.number(_HIDDEN))),
        strength=Strength.IDENTITY,
        reading=_EXTRA_READING,
        defect=lambda q: equal(
            q.number(conformable((1, q.case["features"]), (q.case["key_features"], 1))),
            q.number(0),
            "the product exists",
        ),
        uses=("eq:new_loss",),
        note="rotary positions, heads and the scale 1/sqrt(64) are not modelled either",
    ),
    _exp(
        "exp:baselines_reference",
        "Baselines as in the other section",
        "The baselines of the real-model section are said to be those of the real-model section.",
        "the reference leads to another section",
        lambda q: equal(q.number(int(q.case["refers_to"] != q.case["stands_in"])), q.number(0)),
        Fixed(_cross_reference),
        Wrong(
            "it leads elsewhere",
            lambda q: equal(q.number(int(q.case["refers_to"] != q.case["stands_in"])), q.number(1)),
        ),
        strength=Strength.IDENTITY,
        defect=lambda q: equal(q.number(int(q.case["refers_to"] == q.case["stands_in"])), q.number(1)),
        note="read from the paper's LaTeX, of which the three lines are carried with their hash; the synthetic section"
        " is presumably meant",
    ),
    _exp(
        "exp:whole_model_ratio",
        "The whole model is pruned to 0.5",
        f"Half of every MLP and of the last layer's W_Q, W_K are {float(_whole_model_ratio()):.1%} of the parameters.",
        "pruned fraction of all parameters >= 1/2",
        lambda q: at_least(q.number(_whole_model_ratio()), q.number(Fraction(1, 2))),
        _one(layers_pruned=1),
        Wrong("at least 0.4", lambda q: at_least(q.number(_whole_model_ratio()), q.number(Fraction(2, 5)))),
        strength=Strength.LOWER,
        reading=_EXTRA_READING,
    ),
    _exp(
        "exp:supports_theory",
        "The experiments support the theory",
        "The theorem's hypotheses hold in the synthetic set-up: beta delta > 0 fails twice, by n > d and by the mask.",
        "beta delta > 0 at n = 2d, causal mask",
        lambda q: less(q.number(0.0), q.beta * q.delta),
        Fixed(_synthetic(16, 8)),
        Wrong("beta delta >= 1e-9", lambda q: at_least(q.beta * q.delta, q.number(1e-9))),
        strength=Strength.LOWER,
        arithmetic="ball",
        reading=CAUSAL,
        uses=("thm:our_convergence",),
    ),
    Claim(
        id="new:beta_needs_n_le_d",
        kind=Kind.LEMMA,
        title="beta > 0 needs n <= d",
        section=_SECTION,
        reading=Reading("any", "more tokens than features, any attention mask", "any"),
        says="With more tokens than features X X^T is singular, so X X^T >= beta I forces beta <= 0.",
        formula="det(X X^T) = 0 for n > d",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=lambda q: equal(_determinant(q).rhs, q.number(0)),
        supply=Arrays({"X": "nd"}, make=_taller, rounds=24),
        uses=("fac:algebra",),
        wrong=(Wrong("for n = d already", lambda q: equal(_determinant(_squared_off(q)).rhs, q.number(0))),),
        source="new",
    ),
)

"""Masks on W_Q and W_K, as the paper's experiments have them, over several heads: what carries over, what cannot."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.eigenvalues import extreme_eigenvalues
from attnprune_verify.claims.cases.pair import Pair, norm_of_pair
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, equal
from attnprune_verify.claims.cases.supply import Arrays, read_mask
from attnprune_verify.claims.cases.trajectory import moving
from attnprune_verify.claims.core import Claim, Hypothesis, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.hypotheses import lam_positive, some_choice
from attnprune_verify.theory import pair
from attnprune_verify.theory.formulas import sharp

_HEADS = Reading(
    "heads",
    "masks on W_Q and W_K, one to four heads, shared key heads, rotations or none, any attention mask; no biases",
)
_STEPS = 6  # chosen: the first six steps are compared


def _layer(rng: Generator, case: Case) -> Case:
    """Return a layer: heads whose number divides the columns, and key heads whose number divides the heads."""
    columns, n = case["W_Q"].shape[1], len(case["X"])
    heads = int(rng.choice([h for h in range(1, columns + 1) if columns % h == 0]))
    groups = int(rng.choice([g for g in range(1, heads + 1) if heads % g == 0]))
    keys = slice(0, columns // heads * groups)
    values = {name: case[name] % 4 for name in ("X", "W_Q", "W_K")}
    moved = {"N_Q": case["M_Q"] + 0.1 * case["N_Q"], "N_K": (case["M_K"] + 0.1 * case["N_K"])[:, keys]}
    return case.but(
        **values | moved | {"W_K": values["W_K"][:, keys], "M_K": case["M_K"][:, keys]},
        heads=heads,
        kv_heads=groups,
        scale=float(rng.choice([0.25, 1.0])),
        lam=float(rng.choice([1e-3, 0.1, 1.0])),
        share=float(rng.choice([0.2, 0.5, 0.95])),
        mask=read_mask("any", None, n, rng),
        turns=bool(columns // heads > 1 and rng.random() < 0.4),
    )


_SHAPES = {"X": "nd", "W_Q": "dm", "W_K": "dm", "M_Q": "dm", "M_K": "dm", "N_Q": "dm", "N_K": "dm"}
_SUPPLY = Arrays(_SHAPES, make=_layer, sizes=(1, 2, 3, 4), rounds=36)


def _one_feature(M_Q: float, M_K: float, N_Q: float, w: float = 20.0) -> Case:
    values = {"X": [[1.0], [0.0]], "W_Q": [[w]], "W_K": [[1.0]], "M_Q": [[M_Q]], "M_K": [[M_K]], "N_Q": [[N_Q]]}
    arrays = {name: np.array(value) for name, value in values.items()} | {"N_K": np.array([[M_K]])}
    more = {"heads": 1, "kv_heads": 1, "scale": 1.0, "lam": 1e-9, "share": 0.5, "mask": None}
    return Case({**arrays, **more}, f"d = 1, M_K = {M_K}")


def _bends() -> Iterator[Case]:
    """M_K huge and M_Q so small that the logit is where a row bends most: k P is nothing beside C_+ k^2 R^2.

    At two R, as it grows with its square.
    """
    place = (15 - np.sqrt(33.0)) / 24
    for p in (place, 1 - place):
        for w, R in ((20.0, 1e3), (-20.0, 1e3), (20.0, 1e5), (-20.0, 1e5)):
            M = np.log(p / (1 - p)) / w / R
            yield _one_feature(M, R, M * (1 + 1e-6), w)


def _first_head(q: Quantities) -> Quantities:
    """Return the case with its tokens and the first head alone."""
    two, case = Pair(q), q.case
    left, right = (slice(0, two.m) for _ in range(2))
    own = {name: case[name][:, left] for name in ("W_Q", "M_Q", "N_Q")}
    own |= {name: case[name][:, right] for name in ("W_K", "M_K", "N_K")}
    return Quantities(case.but(**own, heads=1, kv_heads=1), q.arithmetic)


def _second_head() -> Iterator[Case]:
    """`_bends`, of which the first head sees nothing: its weights are a thousandth."""
    for case in _bends():
        small = {name: np.hstack([case[name] / 1e3, case[name]]) for name in ("W_Q", "W_K")}
        both = {name: np.hstack([case[name], case[name]]) for name in ("M_Q", "M_K", "N_Q", "N_K")}
        yield case.but(f"{case.origin}; in the second head", **small, **both, heads=2, kv_heads=2)


def _one_or_two_heads() -> Iterator[Case]:
    yield from _bends()
    yield from _second_head()


def _joined(q: Quantities, Q: Lifted, K: Lifted) -> Lifted:
    return q.square(Q) + q.square(K)


def _moves(q: Quantities, factor: float = 1.0, alone: bool = False) -> Relation:
    two, k = Pair(q), norm_of_pair(_first_head(q) if alone else q)
    a, b = two.at(q.M_Q, q.M_K), two.at(q.N_Q, q.N_K)
    R = q.sqrt(q.largest([_joined(q, q.M_Q, q.M_K), _joined(q, q.N_Q, q.N_K)]))
    P = q.of(sharp.P_star) * q.sqrt(q.number(float(two.rows)))
    step_Q, step_K = q.M_Q - q.N_Q, q.M_K - q.N_K
    change = _joined(q, a.G_Q - b.G_Q + step_Q * q.lam, a.G_K - b.G_K + step_K * q.lam)
    L = q.of(pair.lipschitz, k, R, P, q.lam)
    q.note({"||grad L(M) - grad L(M')||": q.sqrt(change), "||M - M'||": q.sqrt(_joined(q, step_Q, step_K))})
    q.note({"k": k, "R": R, "P": P, "rows": two.rows})
    return at_most(q.sqrt(change), L * q.sqrt(_joined(q, step_Q, step_K)) * q.number(factor))


def _descends(q: Quantities, loss: float = 1.0, sooner: float = 1.0, alone: bool = False) -> list[Relation]:
    two = Pair(q)
    N = q.number(float(two.entries))
    L = q.of(pair.lipschitz_confined, norm_of_pair(_first_head(q) if alone else q), N, q.lam)
    eta = q.number(2 * float(q.case["share"]) / float(L) * (1 - 1e-12))
    Q, K = (q.number(np.ones(np.shape(q.case[name]))) for name in ("M_Q", "M_K"))
    limit = q.of(pair.start_loss, N, q.lam)
    parts: list[Relation] = _from_below(q, two, eta, limit)
    gradients: list[Lifted] = []
    losses: list[Lifted] = []
    for t in range(_STEPS + 1):
        at = two.at(Q, K)
        value = two.square(at.c) / 2 + q.lam * _joined(q, Q, K) / 2
        losses.append(value)
        parts.append(at_most(value, limit * q.number(loss if t else 1.0), f"loss, t = {t}"))
        if t:
            bound = q.of(pair.smallest_gradient, N, q.lam, eta, L, t)
            parts.append(at_most(q.smallest(gradients), bound * q.number(sooner), f"least gradient before t = {t}"))
        step_Q, step_K = at.G_Q + Q * q.lam, at.G_K + K * q.lam
        gradients.append(_joined(q, step_Q, step_K))
        Q, K = Q - step_Q * moving(eta), K - step_K * moving(eta)
    least = [q.smallest(gradients[:t]) for t in range(1, _STEPS + 1)]
    q.note({"L(M_t)": losses, "min_{t<T} ||grad L(M_t)||^2": least, "T": range(1, _STEPS + 1)})
    q.note({"N": N, "eta": eta, "k": norm_of_pair(q), "M_0": np.ones(two.entries)})
    return parts


def _from_below(q: Quantities, two: Pair, eta: Lifted, limit: Lifted) -> list[Relation]:
    """From any masks with L at most lam N/2, a step does not raise L: so none of a descent from ones does."""
    size = float(np.hypot(np.linalg.norm(q.case["M_Q"]), np.linalg.norm(q.case["M_K"])))
    inside = q.number(float(q.case["share"]) * two.entries**0.5 / max(size, 1e-300))
    Q, K = q.M_Q * inside, q.M_K * inside
    at = two.at(Q, K)
    before = two.square(at.c) / 2 + q.lam * _joined(q, Q, K) / 2
    Q, K = Q - (at.G_Q + Q * q.lam) * eta, K - (at.G_K + K * q.lam) * eta
    after = two.square(two.at(Q, K).c) / 2 + q.lam * _joined(q, Q, K) / 2
    q.note({"L(M)": before, "L(M - eta g)": after})
    if not before <= limit:
        return []
    return [at_most(after + limit, before + limit, "from any masks with L <= lam N/2", offset=limit)]


def _no_attention() -> Iterator[Case]:
    """One token: L is (lam/2) ||M||^2, and eta = 1/lam ends in one step; and one head of two without attention."""
    case = _one_feature(1.0, 1.0, 0.5)
    yield case.but("one token", X=np.ones((1, 1)), lam=0.5)
    small = {
        "W_Q": np.array([[0.0, 3.0]]),
        "W_K": np.ones((1, 2)),
        "heads": 2,
        "kv_heads": 2,
        "lam": 1e-3,
        "share": 0.95,
    }
    masks = dict.fromkeys(("M_Q", "M_K", "N_Q", "N_K"), np.ones((1, 2)))
    yield case.but("two heads, the first without weights", **small, **masks)


def _at_zero(q: Quantities, keys: float = 0.0, alone: bool = False) -> list[Relation]:
    """Both gradients at M_Q = M_K = 0, and the loss there, that of uniform rows."""
    two = Pair(q)
    at = two.at(q.number(np.zeros(np.shape(q.case["M_Q"]))), q.number(np.full(np.shape(q.case["M_K"]), keys)))
    uniform = [[1 / q.number(float(len(f))) - f for f in head] for head in two.dense[: 1 if alone else None]]
    q.note({"grad_Q L(0)": at.G_Q, "grad_K L(0)": at.G_K, "||c(0)||": q.sqrt(two.square(at.c))})
    q.note({"sum_{h,i} ||1/m_i - f_i^h||^2": two.square(uniform)})
    return [
        equal(at.G_Q, q.number(np.zeros(np.shape(q.case["M_Q"]))), "M_Q"),
        equal(at.G_K, q.number(np.zeros(np.shape(q.case["M_K"]))), "M_K"),
        equal(two.square(at.c), two.square(uniform), "attention error"),
    ]


def _pl(q: Quantities, factor: float = 1.0, longest: bool = False) -> list[Relation]:
    """s w sqrt(beta) t delta ||c|| <= ||grad_Q L_attn||, t over zero-sum vectors of all tokens."""
    two = Pair(q)
    at = two.at(q.M_Q, q.M_K)
    basis = np.array([[1.0] * h + [-float(h)] + [0.0] * (q.n - h - 1) for h in range(1, q.n)])
    sides = q.number(basis / np.linalg.norm(basis, axis=1)[:, None])
    squares = []
    for key in at.keys:
        moved = sides @ key
        least, _ = extreme_eigenvalues(moved @ moved.T, q.arithmetic)
        squares.append(least)
    chosen = q.largest(squares) if longest else q.smallest(squares)
    t = q.sqrt(q.largest([chosen * q.number(1 - 1e-9), q.number(0.0)]))
    q.note({"||grad_Q L_attn||": q.norm(at.G_Q), "||c||": q.sqrt(two.square(at.c)), "t": t, "scale": two.scale})
    q.note({"min_{h,v} ||v X (M_K o W_K^h)||": t})
    q.note({"min|W_Q|": q.smallest(np.abs(q.W_Q)), "delta": q.smallest(at.floor)})
    root = q.of(pair.pl_root, two.scale, q.smallest(np.abs(q.W_Q)), q.beta, t, q.smallest(at.floor))
    return [at_least(q.norm(at.G_Q), root * q.sqrt(two.square(at.c)) * q.number(factor))]


def _wide(rng: Generator, case: Case) -> Case:
    """Heads with at least as many features as tokens, less one, and no more tokens than features."""
    case = _layer(rng, case)
    n = min(*case["X"].shape, case["W_Q"].shape[1] // case["heads"] + 1)
    X = case["X"][:n] + np.eye(*case["X"][:n].shape)
    return case.but(X=X, W_Q=case["W_Q"] + 5.0, mask=read_mask("any", None, n, rng), turns=False)


def _two_tokens() -> Iterator[Case]:
    """X = I, W_Q = 1, keys 1 and -1, M_Q = 0: uniform rows, where every step of the proof is an equality.

    And a second head with keys five times as long.
    """
    values = {"X": np.eye(2), "W_Q": np.ones((2, 1)), "W_K": np.array([[1.0], [-1.0]]), "M_K": np.ones((2, 1))}
    more: dict[str, Any] = {"heads": 1, "kv_heads": 1, "scale": 1.0, "lam": 0.1, "share": 0.5, "mask": None}
    yield Case({**values, **more, "M_Q": np.zeros((2, 1)), "N_Q": np.ones((2, 1)), "N_K": np.ones((2, 1))}, "X = I")
    values |= {"W_Q": np.ones((2, 2)), "W_K": np.array([[1.0, 5.0], [-1.0, -5.0]]), "M_K": np.ones((2, 2))}
    more |= {"M_Q": np.zeros((2, 2)), "N_Q": np.ones((2, 2)), "N_K": np.ones((2, 2)), "heads": 2, "kv_heads": 2}
    yield Case({**values, **more}, "X = I, two heads")


def _claim(id_: str, title: str, formula: str, margin: Lifted, wrong: tuple[Wrong, ...], **more: Lifted) -> Claim:
    return Claim(
        id=id_,
        kind=Kind.THEOREM,
        title=title,
        section="6 Experiment",
        reading=_HEADS,
        formula=formula,
        strength=more.pop("strength", Strength.UPPER),
        margin=margin,
        supply=more.pop("supply", _SUPPLY),
        wrong=wrong,
        source="new",
        **more,
    )


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "new:pair_lipschitz",
        "Smoothness with a pair of masks",
        "||grad L(M) - grad L(M')|| <= (lam + C_+ k^2 R^2 + k P) ||M - M'||, k = scale max_c ||X diag(W_Q e_c)||"
        " max_c ||X_0 diag(W_K e_c)||, P = 8 sqrt(2)/27 sqrt(rows) if lam >= 0",
        _moves,
        (
            Wrong("0.98 of it", lambda q: _moves(q, 0.98)),
            Wrong("k of the first head", lambda q: _moves(q, alone=True)),
        ),
        hypotheses=(Hypothesis("lam >= 0", lambda q: float(q.case["lam"]) >= 0),),
        uses=("new:row_hessian", "new:bound_p_sharp"),
        attains=_one_or_two_heads,
    ),
    _claim(
        "new:pair_descent",
        "Descent with a pair of masks",
        "L(M_t) <= lam N/2, L(M - eta g) <= L(M) wherever L(M) <= lam N/2, min_{t<T} ||grad L(M_t)||^2 <= lam N/(eta"
        " (2 - eta L) T), M_0 = 1, L = lam + C_+ k^2 N + k sqrt(lam N)/2, k = scale max_c ||X diag(W_Q e_c)|| max_c"
        " ||X_0 diag(W_K e_c)|| if lam > 0 and 0 < eta < 2/L",
        _descends,
        (
            Wrong("0.9 of the least gradient", lambda q: _descends(q, sooner=0.9)),
            Wrong("a thousandth of the loss after a step", lambda q: _descends(q, loss=1e-3)),
            Wrong("k of the first head", lambda q: _descends(q, alone=True)),
        ),
        hypotheses=(lam_positive(lambda rng: _no_attention()),),
        uses=("new:pair_lipschitz",),
        attains=_no_attention,
    ),
    _claim(
        "new:pair_no_PL",
        "Failure of the PL inequality with a pair of masks",
        "grad_Q L(0) = 0, grad_K L(0) = 0, ||c(0)||^2 = sum_{h,i} ||1/m_i - f_i^h||^2",
        _at_zero,
        (
            Wrong("M_Q = 0 alone", lambda q: _at_zero(q, 1.0)),
            Wrong("the error of the first head", lambda q: _at_zero(q, alone=True)),
        ),
        strength=Strength.IDENTITY,
        uses=("eq:new_loss",),
    ),
    _claim(
        "new:pair_PL",
        "A PL inequality with a pair of masks and long keys",
        "||grad_Q L_attn|| >= scale min|W_Q| sqrt(beta) t delta ||c||, t = min_{h,v} ||v X (M_K o W_K^h)|| if beta > 0"
        " and n_e >= 1",
        _pl,
        (
            Wrong("1.02 times it", lambda q: _pl(q, 1.02)),
            Wrong("t of the head with the longest keys", lambda q: _pl(q, longest=True)),
        ),
        strength=Strength.LOWER,
        supply=Arrays(_SHAPES, make=_wide, sizes=(2, 3, 4), rounds=48),
        hypotheses=(Hypothesis("beta > 0", lambda q: bool(q.beta > 0)), some_choice()),
        uses=("lem:lower_bound_p",),
        attains=_two_tokens,
    ),
)

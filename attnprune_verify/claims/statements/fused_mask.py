"""What a mask on the fused weight means for a real layer: it need not factor, and heads do not add up (ours).

The cases are integer layers, so ranks and logits are exact. The functions of the library that say the same of any layer
are `fused_mask_ranks` and `sum_of_heads` in `attnprune_verify.model.fusion`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from flint import fmpz_mat

from attnprune_verify.claims.case import Case
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong
from attnprune_verify.claims.quantities import Quantities
from attnprune_verify.claims.relation import Relation, at_least, at_most, equal
from attnprune_verify.claims.supply import Fixed

_PLAIN = Reading("no rotary positions", "one fused weight W_Q W_K^T per head")
_ROTARY = Reading("rotary positions", "one fused weight per offset; the parts of a frequency have rank 2 each")
_GROUPED = Reading("grouped heads", "query heads share key heads; no rotary positions")
_FEATURES, _SIZE, _HEADS, _KEY_HEADS = 6, 2, 4, 2


_LAYERS = 6
_DRAWS = f"{_LAYERS} random integer layers of {_FEATURES} features"


def _layers() -> Iterator[Case]:
    for seed in range(_LAYERS):
        rng = np.random.default_rng(seed)
        yield Case(
            {
                "X": rng.integers(-3, 4, (5, _FEATURES)),
                "W_Q": rng.integers(-3, 4, (_FEATURES, _HEADS * _SIZE)),
                "W_K": rng.integers(-3, 4, (_FEATURES, _KEY_HEADS * _SIZE)),
                "M": rng.integers(0, 2, (_FEATURES, _FEATURES)),
            },
            f"integer layer, seed {seed}",
        )


def _rank(matrix: Any) -> int:
    return int(fmpz_mat([[int(entry) for entry in row] for row in matrix]).rank())


def _head(case: Case, head: int) -> tuple[Any, Any]:
    group = head * _KEY_HEADS // _HEADS
    return (
        np.asarray(case["W_Q"])[:, head * _SIZE : (head + 1) * _SIZE],
        np.asarray(case["W_K"])[:, group * _SIZE : (group + 1) * _SIZE],
    )


def _masked_rank(q: Quantities) -> int:
    W_Q, W_K = _head(q.case, 0)
    return _rank(np.asarray(q.case["M"]) * (W_Q @ W_K.T))


def _masked_cosine_rank(q: Quantities) -> int:
    """The part of W(r) that multiplies cos(w r) for the only frequency of a head of two features."""
    W_Q, W_K = _head(q.case, 0)
    cosine = np.outer(W_Q[:, 0], W_K[:, 0]) + np.outer(W_Q[:, 1], W_K[:, 1])
    return _rank(np.asarray(q.case["M"]) * cosine)


def _logits(case: Case, head: int) -> Any:
    W_Q, W_K = _head(case, head)
    return np.asarray(case["X"]) @ W_Q @ W_K.T @ np.asarray(case["X"]).T


def _unheaded(case: Case) -> Any:
    repeated = np.concatenate([_head(case, head)[1] for head in range(_HEADS)], axis=1)
    return np.asarray(case["X"]) @ np.asarray(case["W_Q"]) @ repeated.T @ np.asarray(case["X"]).T


def _sum_of_heads(q: Quantities, heads: int = _HEADS) -> list[Relation]:
    """The repeated product is the sum of the heads' logits, and not those of any one head."""
    repeated = _unheaded(q.case)
    difference = repeated - sum(_logits(q.case, head) for head in range(heads))
    nearest = min(int(np.abs(repeated - _logits(q.case, head)).max()) for head in range(_HEADS))
    return [
        equal(q.number(int(np.abs(difference).max())), q.number(0), "the sum"),
        at_least(q.number(nearest), q.number(1), "no head's"),
    ]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:fused_mask_rank",
        kind=Kind.REMARK,
        title="A fused mask need not factor",
        section="6 Experiment",
        reading=_PLAIN,
        says="A 0/1 mask on a head's fused weight can lift its rank above the head's size: then no W_Q, W_K of the"
        f" layer's shapes have that product. A random mask does on each of {_DRAWS}.",
        formula=f"rank(M o W_Q W_K^T) >= m + 1 on each of {_DRAWS}, m = {_SIZE} the head's size",
        strength=Strength.LOWER,
        arithmetic="exact",
        margin=lambda q: at_least(q.number(_masked_rank(q)), q.number(_SIZE + 1)),
        supply=Fixed(_layers),
        uses=("def:attn_matrix",),
        wrong=(Wrong("the rank stays", lambda q: at_most(q.number(_masked_rank(q)), q.number(_SIZE))),),
        source="new",
    ),
    Claim(
        id="new:fused_mask_rank",
        kind=Kind.REMARK,
        title="A fused mask need not rotate",
        section="6 Experiment",
        reading=_ROTARY,
        says="With rotary positions one mask acts on every offset's fused weight, and it can lift the rank of a"
        f" frequency's part above 2: then no pair of weights gives it. A random mask does on each of {_DRAWS}.",
        formula=f"rank(M o C_a) >= 3 on each of {_DRAWS}, C_a the cosine part of frequency a",
        strength=Strength.LOWER,
        arithmetic="exact",
        margin=lambda q: at_least(q.number(_masked_cosine_rank(q)), q.number(3)),
        supply=Fixed(_layers),
        uses=("def:attn_matrix",),
        wrong=(Wrong("the rank stays", lambda q: at_most(q.number(_masked_cosine_rank(q)), q.number(2))),),
        source="new",
    ),
    Claim(
        id="new:repeated_key_heads",
        kind=Kind.REMARK,
        title="Repeating key heads adds the heads' logits up",
        section="6 Experiment",
        reading=_GROUPED,
        says="Repeating the key heads until X W_Q W_K^T X^T type-checks computes the sum of all heads' logits, which"
        f" no head of the model attends with on any of {_DRAWS}.",
        formula="X W_Q (repeated W_K)^T X^T = sum_h X W_Q^h (W_K^g(h))^T X^T",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_sum_of_heads,
        supply=Fixed(_layers),
        uses=("eq:new_loss",),
        wrong=(
            Wrong("it is the first head's", lambda q: _sum_of_heads(q, 1)),
            Wrong("it is the first group's", lambda q: _sum_of_heads(q, _HEADS // _KEY_HEADS)),
        ),
        source="new",
    ),
)

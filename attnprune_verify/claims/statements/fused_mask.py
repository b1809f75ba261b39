"""A mask on the fused weight of a real layer (ours): it need not factor, and heads do not add up.

The cases are integer layers, so ranks and logits are exact. The functions of the library that say the same of any layer
are `fused_mask_ranks` and `sum_of_heads` in `attnprune_verify.model.fusion`.
"""

from collections.abc import Iterator

import numpy as np
from flint import fmpz_mat

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.claims.cases.relation import Relation, at_least, at_most, equal
from attnprune_verify.claims.cases.supply import Fixed
from attnprune_verify.claims.core import Claim, Kind, Reading, Strength, Wrong

_PLAIN = Reading("no rotary positions", "one fused weight W_Q W_K^T per head")
_ROTARY = Reading("rotary positions", "one fused weight per offset; the parts of a frequency have rank 2 each")
_GROUPED = Reading("grouped heads", "query heads share key heads; no rotary positions")
# features, a head's size, heads, key heads
_SHAPES = ((6, 2, 4, 2), (6, 2, 3, 1), (7, 4, 2, 1), (9, 6, 2, 2))


def _layers() -> Iterator[Case]:
    for d, m, heads, groups in _SHAPES:
        for seed in range(3):
            rng = np.random.default_rng(seed)
            values = {
                "X": rng.integers(-3, 4, (5, d)),
                "W_Q": rng.integers(-3, 4, (d, heads * m)),
                "W_K": rng.integers(-3, 4, (d, groups * m)),
                "M": rng.integers(0, 2, (d, d)),
            }
            name = f"integer layer, {heads} heads of {m}, {groups} key heads, {d} features, seed {seed}"
            yield Case({**values, "heads": heads, "kv_heads": groups}, name)


_LAYERS = len(list(_layers()))


def _rank(matrix: Lifted) -> int:
    return int(fmpz_mat([[int(entry) for entry in row] for row in matrix]).rank())


def _size(case: Case) -> int:
    """Features of a head."""
    return int(np.shape(case["W_Q"])[1]) // int(case["heads"])


def _head(case: Case, head: int) -> tuple[Lifted, Lifted]:
    group, m = head * case["kv_heads"] // case["heads"], _size(case)
    return np.asarray(case["W_Q"])[:, head * m : (head + 1) * m], np.asarray(case["W_K"])[
        :, group * m : (group + 1) * m
    ]


def _masked_rank(q: Quantities) -> int:
    W_Q, W_K = _head(q.case, 0)
    return _rank(np.asarray(q.case["M"]) * (W_Q @ W_K.T))


def _grows(q: Quantities) -> Relation:
    W_Q, W_K = _head(q.case, 0)
    q.note({"W_Q": W_Q, "W_K": W_K, "m": _size(q.case), "layers": _LAYERS})
    return at_least(q.number(_masked_rank(q)), q.number(_size(q.case) + 1))


def _cosine(q: Quantities, frequency: int) -> Lifted:
    """The part of W(r) that multiplies cos(w r) for one frequency: it turns features a and a + m/2 of the head."""
    W_Q, W_K = _head(q.case, 0)
    pair = [frequency, frequency + _size(q.case) // 2]
    return W_Q[:, pair] @ W_K[:, pair].T


def _rotary_ranks(q: Quantities, more: int = 3) -> list[Relation]:
    """Require, for each frequency, rank at most 2 without the mask and at least 3 under it."""
    found, parts = [], [_cosine(q, frequency) for frequency in range(_size(q.case) // 2)]
    q.note({"C": np.array(parts), "layers": _LAYERS})
    for part in parts:
        found.append(at_most(q.number(_rank(part)), q.number(2), "without the mask"))
        found.append(at_least(q.number(_rank(np.asarray(q.case["M"]) * part)), q.number(more), "under the mask"))
    return found


def _logits(case: Case, head: int) -> Lifted:
    W_Q, W_K = _head(case, head)
    return np.asarray(case["X"]) @ W_Q @ W_K.T @ np.asarray(case["X"]).T


def _unheaded(case: Case) -> Lifted:
    repeated = np.concatenate([_head(case, head)[1] for head in range(case["heads"])], axis=1)
    return np.asarray(case["X"]) @ np.asarray(case["W_Q"]) @ repeated.T @ np.asarray(case["X"]).T


def _sum_of_heads(q: Quantities, heads: int | None = None) -> list[Relation]:
    """The sum is exact; and no head's softmax is that of the sum: rows differ by more than a constant."""
    counted = int(q.case["heads"]) if heads is None else heads
    whole = _unheaded(q.case)
    difference = whole - sum(_logits(q.case, head) for head in range(counted))
    found = [equal(q.number(int(np.abs(difference).max())), q.number(0), "the sum of all heads")]
    q.note({"X W_Q (repeated W_K)^T X^T": whole, "sum_h X W_Q^h (W_K^{g(h)})^T X^T": whole - difference})
    for head in range(int(q.case["heads"])):
        apart = whole - _logits(q.case, head)
        spread = int((apart.max(axis=1) - apart.min(axis=1)).max())
        found.append(at_least(q.number(spread), q.number(1), "no head's own"))
    q.note({"spread": [float(part.lhs) for part in found[1:]], "layers": _LAYERS})
    return found


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:fused_mask_rank",
        kind=Kind.REMARK,
        title="A fused mask need not factor",
        section="6 Experiment",
        reading=_PLAIN,
        formula=f"rank(M o (W_Q W_K^T)) >= m + 1 at layers = {_LAYERS}",
        strength=Strength.LOWER,
        arithmetic="exact",
        margin=_grows,
        supply=Fixed(_layers),
        uses=("def:attn_matrix",),
        wrong=(Wrong("the rank stays", lambda q: at_most(q.number(_masked_rank(q)), q.number(_size(q.case)))),),
        source="new",
    ),
    Claim(
        id="new:fused_mask_rank",
        kind=Kind.REMARK,
        title="A fused mask need not rotate",
        section="6 Experiment",
        reading=_ROTARY,
        formula=f"rank(C_a) <= 2, rank(M o C_a) >= 3 at layers = {_LAYERS}",
        strength=Strength.LOWER,
        arithmetic="exact",
        margin=_rotary_ranks,
        supply=Fixed(_layers),
        uses=("def:attn_matrix",),
        wrong=(Wrong("a rank of ten", lambda q: _rotary_ranks(q, 10)),),
        source="new",
    ),
    Claim(
        id="new:repeated_key_heads",
        kind=Kind.REMARK,
        title="Repeating key heads adds the heads' logits up",
        section="6 Experiment",
        reading=_GROUPED,
        formula=f"X W_Q (repeated W_K)^T X^T = sum_h X W_Q^h (W_K^{{g(h)}})^T X^T, spread >= 1 at layers = {_LAYERS}",
        strength=Strength.IDENTITY,
        arithmetic="exact",
        margin=_sum_of_heads,
        supply=Fixed(_layers),
        uses=("eq:new_loss",),
        wrong=(
            Wrong("it is the first head's", lambda q: _sum_of_heads(q, 1)),
            Wrong("it is that of all heads but one", lambda q: _sum_of_heads(q, int(q.case["heads"]) - 1)),
        ),
        source="new",
    ),
)

"""Cases on and outside of the edges of conditions, from a case that meets them."""

import re
from collections.abc import Iterator

import numpy as np

from attnprune_verify.claims.cases.case import Case


def outside(case: Case, conditions: str) -> Iterator[Case]:
    """Yield `around`, `degenerate`, and the case with each of its numbers, a step's stretch over 1/L too, resized."""
    yield from around(case)
    yield from degenerate(case, conditions)
    yield from resized(case)


def degenerate(case: Case, conditions: str) -> Iterator[Case]:
    """Yield the case with equal tokens, with rows that have no choice, and with changed arrays of the conditions."""
    if "X" in case:
        yield case.but(f"{case.origin}; equal tokens", X=np.ones_like(case["X"]))
    if isinstance(case.get("mask"), np.ndarray):
        yield case.but(f"{case.origin}; no row has a choice", mask=np.eye(len(case["mask"]), dtype=bool))
    for name, array in case.values.items():
        if not (isinstance(array, np.ndarray) and name not in ("M", "N") and _stands(name, conditions)):
            continue
        uneven = array * np.linspace(1, 2, array.size).reshape(array.shape)
        for word, other in {"0": array * 0.0, "larger": array + 1.0, "uneven": uneven}.items():
            yield case.but(f"{case.origin}; {name} {word}", **{name: other})
        if array.ndim == 2 and array.shape[1] > 1:
            moved = array.copy()
            moved[:, 0], moved[:, -1] = array[:, 0] + 1, array[:, -1] - 1
            yield case.but(f"{case.origin}; {name} with sums as before", **{name: moved})


def resized(case: Case) -> Iterator[Case]:
    """Yield the case with each of its own numbers at other sizes, of both signs."""
    for name, number in case.values.items():
        if isinstance(number, float) and not (name == "lam" and "M" in case):
            for times in (-1.0, 0.0, 4.0, 50.0):
                yield case.but(f"{case.origin}; {name} times {times:g}", **{name: number * times})
            if "lam" in case:
                yield case.but(f"{case.origin}; {name} times 50, lam = 1.5", **{name: number * 50, "lam": 1.5})


def around(case: Case) -> Iterator[Case]:
    """Yield the case with other masks, regularisers and weights: inside, on and outside the edges of hypotheses."""
    if "M" not in case:
        return
    M = case["M"]
    box = np.clip(np.abs(M), 0.0, 1.0)
    corner = box.copy()
    corner.flat[0] = 0.0
    for lam in (0.5, 0.0, 1.0, 1.5):
        yield case.but(f"{case.origin}; in the box, lam = {lam}", M=box / 2, lam=lam)
    for name, mask in {"a corner": corner, "ones": np.ones_like(M), "outside": box + 0.5, "below": box - 0.5}.items():
        yield case.but(f"{case.origin}; {name}", M=mask, lam=0.5)
    yield case.but(f"{case.origin}; near 1", M=1 + 0.01 * (box - 0.5), lam=0.5)
    if "W" in case and np.ndim(case.get("X")) == 2 and len(case["X"]) > 2:
        mask = case["mask"][:2, :2] | np.eye(2, dtype=bool) if isinstance(case["mask"], np.ndarray) else case["mask"]
        others = {"others": case["others"][:, :2]} if "others" in case else {}
        yield case.but(f"{case.origin}; two tokens", X=case["X"][:2], mask=mask, M=box / 2, lam=0.5, **others)
    if "W" in case:
        zero = case["W"].copy()
        zero.flat[0] = 0.0
        yield case.but(f"{case.origin}; a weight of 0", M=box / 2, W=zero, lam=0.5)
        yield case.but(f"{case.origin}; no weights", M=box / 2, W=case["W"] * 0.0, lam=0.5)
        yield case.but(f"{case.origin}; no weights, lam = 0", M=box / 2, W=case["W"] * 0.0, lam=0.0)
        if not isinstance(case.get("mask"), np.ndarray) and np.ndim(case["X"]) == 2:
            yield case.but(f"{case.origin}; one token", X=case["X"][:1], M=box / 2, lam=0.5)
        yield case.but(f"{case.origin}; far outside", M=40 * box + 1, lam=0.5)
        yield case.but(f"{case.origin}; far below", M=-40 * box - 1, lam=0.01)


def _stands(name: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w']){re.escape(name)}(?![A-Za-z0-9'])", text))

"""The bound of `certified_mask_gap` against every mask there is, one by one, d <= 4.

    python -m tests.algorithms.every_mask [--instances 10000] [--first 0]

prints how many instances and masks were compared, how many were below the bound, and in how many
the bound says something. It exits with 1 if any mask is below. Divergences come from logits as sums over entries
of the mask, and share no code with the bound.
"""

import argparse
import sys
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import attnprune_verify as apv


class Compared(NamedTuple):
    """The least divergence of all masks, the bound, how many masks there were, and what comparing them may lose."""

    least: float
    bound: float
    masks: int
    slack: float


@cache
def all_masks(size: int, ones: int) -> NDArray[np.float64]:
    """(number, size), every 0/1 vector with so many ones."""
    places = np.array(list(combinations(range(size), ones)), dtype=int)
    masks = np.zeros((len(places), size))
    np.put_along_axis(masks, places, 1.0, axis=1)
    return masks


def compared(seed: int) -> Compared:
    """One instance: full, causal or given masks, one to three samples, weights of all sizes, any number of ones."""
    rng = np.random.default_rng(seed)
    d, n, k = (int(rng.integers(1, most)) for most in (5, 6, 4))
    W = 10.0 ** rng.uniform(-1.5, 1.0) * rng.normal(size=(d, d))
    X = rng.normal(size=(k, n, d))
    allowed = [np.ones((n, n), dtype=bool), np.tri(n, dtype=bool), (rng.random((n, n)) < 0.6) | np.eye(n, dtype=bool)]
    mask = allowed[rng.integers(3)]
    ones = int(rng.integers(0, d * d + 1))
    gap = apv.certified_mask_gap(apv.Instance(X, W, mask=mask), keep=ones, on="W", steps=int(rng.integers(0, 40)))
    masks, total = all_masks(d * d, ones), 0.0
    for tokens in X:
        pulls = (W * tokens[:, None, :, None] * tokens[None, :, None, :]).reshape(n, n, d * d)
        dense = np.where(mask, pulls.sum(axis=2), -np.inf)
        f = np.exp(dense - dense.max(axis=1, keepdims=True))
        f /= f.sum(axis=1, keepdims=True)
        moves = ((masks - 1) @ pulls.reshape(n * n, -1).T).reshape(-1, n, n)
        moves = np.where(mask, moves, 0.0)
        top = np.where(mask, moves, -np.inf).max(axis=2, keepdims=True)
        with np.errstate(over="ignore"):
            sums = (f * np.exp(np.where(mask, moves - top, -np.inf))).sum(axis=2)
        total = total + (np.log(sums) + top[:, :, 0] - (f * moves).sum(axis=2)).sum(axis=1)
    largest = float(np.abs(W).sum() * np.square(X).max())
    return Compared(float(np.min(total)) / (k * n), gap.bound, len(masks), 2.0**-50 * (1 + largest))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--instances", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    below, masks, meant = 0, 0, 0
    for seed in range(options.first, options.first + options.instances):
        found = compared(seed)
        below += found.bound > found.least + found.slack
        masks += found.masks
        meant += found.bound > 0.1 * found.least > 0
    print(
        f"{options.instances} instances, {masks} masks: {below} instances with a mask below the bound;"
        f" in {meant} the bound is above a tenth of the least divergence"
    )
    sys.exit(1 if below else 0)


if __name__ == "__main__":
    main()

"""Experiments on heads and samples: what stands in a result belongs to others, or counts more or less than once.

Each is a rule of `mechanisms`; beside each stands the program that made it necessary.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, Array, KernelSample
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.truth.steps import KernelSteps, evaluate
from attnprune_verify.audit.record import Diagnosis

_LEFT = 1e-2  # chosen: of an error, what a rule may leave; rounding leaves less and another mistake more
_FEWEST = 6  # chosen: numbers of a key head's gradient, of fewer some factors of heads fit by chance
_CHANCE = 1e-6  # chosen: how likely an error, of numbers drawn evenly, is to be that of a pair of heads by chance
_MOST = 50_000_000  # chosen: multiplications of all pairs of heads, a second or two

Place = tuple[int, int]  # a sample and a key head


def by_heads(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """The name that either experiment gives."""
    return other_heads(context, function, sample) or shares_of_heads(context, function, sample)


def other_heads(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """Values of head h % kv_heads under the weights of h // group; the number of a head, or a sample, in four bits."""
    batch, heads, kv_heads, n, length, _, mv = sample.shape
    pairs = (batch * kv_heads) ** 2
    by_chance = pairs * _LEFT ** (n * mv)
    if function != FORWARD or not _whole(sample) or by_chance > _CHANCE or pairs * sample.work > _MOST:
        return None
    got, right = context.ask(function, sample).parts[0], evaluate(sample).o
    if not np.isfinite(got).all():  # nothing is near to it, and nothing far
        return None
    off = np.linalg.norm(got - right, axis=(2, 3))
    wrong = [(int(b), int(h)) for b, h in np.argwhere(off > _LEFT * off.max())]
    fits: dict[Place, list[tuple[Place, Place]]] = {place: [] for place in wrong}
    for key in product(range(batch), range(kv_heads)):
        steps = evaluate(sample.changed(k=np.broadcast_to(sample.k[key], sample.k.shape)))
        weights = (steps.p * steps.kept)[..., :length]  # without the sink
        for value in product(range(batch), range(kv_heads)):
            left = np.linalg.norm(got - weights @ sample.v[value], axis=(2, 3))
            for place in wrong:
                fits[place] += [(key, value)] * bool(left[place] <= _LEFT * off[place])
    if not wrong or not all(fits.values()):  # where log sum exp alone is wrong, no head is
        return None
    # A single key, or equal keys, give all weights alike: take the keys of the head whose values are read
    read = {place: min(found, key=lambda pair: pair[0] != pair[1]) for place, found in fits.items()}
    (item, head), (key, value) = next(iter(read.items()))
    mixed = any(b != one for (one, _), places in read.items() for b, _ in places)
    words = (
        f"query head {head} of sample {item} reads the keys of {_named(key)} and the values of {_named(value)}, "
        f"not of {_named((item, head // sample.group))}"
    )
    return Diagnosis(("heads-mixed" if mixed else "heads-swapped",), words)


def _whole(sample: KernelSample) -> bool:
    """Report whether a sample is neither packed nor padded."""
    return sample.ends is None and sample.poison is None


def _named(place: Place) -> str:
    return f"key head {place[1]} of sample {place[0]}"


def shares_of_heads(context: KernelContext, function: str, sample: KernelSample) -> Diagnosis | None:
    """A dk that is that of the first query head of a group, times the group: factors of all heads by least squares."""
    if function != BACKWARD or not _whole(sample):
        return None
    parts = context.ask(function, sample).parts
    for name, part, terms in zip(("dk", "dv"), parts[1:], _by_head(sample, evaluate(sample)), strict=False):
        found = _shares(part, terms)
        own = np.repeat(np.eye(part.shape[1]), sample.group, axis=1)  # (kv_heads, heads)
        if found is None or _one_factor(found, own):
            continue
        item, key = (int(x) for x in np.argwhere((np.abs(found - own) > _LEFT).any(axis=2))[0])
        times = ", ".join(f"{share:.3g}" for share in np.round(found[item, key], 3) + 0.0)
        words = f"in {name} of key head {key} the query heads count {times} times, not each of its group once"
        return Diagnosis(("gqa-gradient-not-summed" if sample.group > 1 else "heads-mixed",), words)
    return None


def _one_factor(found: Array, own: Array) -> bool:
    """Report whether each key head has the query heads of its group alone, all with one factor: none is mixed up."""
    factor = (found * own).sum(axis=-1, keepdims=True) / own.sum(axis=-1, keepdims=True)
    return bool((np.abs(found - factor * own) <= _LEFT).all())


def _by_head(sample: KernelSample, steps: KernelSteps) -> tuple[Array, Array]:
    """The terms of dk and of dv by query head, (batch, heads, l, features)."""
    through, used = (x[..., : sample.k.shape[2]] for x in (steps.ds * steps.slope, steps.p * steps.kept))
    dk, dv = sample.factor * (np.swapaxes(through, -1, -2) @ sample.q), np.swapaxes(used, -1, -2) @ sample.do
    return dk, dv


def _shares(part: Array, terms: Array) -> Array | None:
    """The factor of each query head in each key head, (batch, kv_heads, heads); None where no factors explain it.

    Where a key head has too few numbers for the factors of all query heads, those of its own group are sought.
    """
    batch, heads = terms.shape[:2]
    kv_heads, found = part.shape[1], np.zeros((*part.shape[:2], heads))
    asked = np.ones((kv_heads, heads), bool)
    if terms[0, 0].size < 2 * heads:
        asked = np.repeat(np.eye(kv_heads, dtype=bool), heads // kv_heads, axis=1)
    if terms[0, 0].size < max(2 * asked[0].sum(), _FEWEST):
        return None
    for item, key in product(range(batch), range(kv_heads)):
        columns, wanted = terms[item, asked[key]].reshape(asked[key].sum(), -1).T, part[item, key].ravel()
        found[item, key, asked[key]], _, rank, _ = np.linalg.lstsq(columns, wanted, rcond=None)
        gap = np.linalg.norm(columns @ found[item, key, asked[key]] - wanted)
        if rank < asked[key].sum() or not gap <= _LEFT * np.linalg.norm(wanted):
            return None
    return found

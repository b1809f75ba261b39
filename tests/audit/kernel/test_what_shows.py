"""A feature that is left out beside another shows: no sample hides what it stands for."""

import importlib.util
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.interactions import _WEAK, FACTORS, interaction, rows

PATH = Path(__file__).parent / "wrong" / "parts.py"
SPEC = importlib.util.spec_from_file_location("right_kernel_with_all_parts", PATH)
RIGHT = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(RIGHT)
WITHOUT = {
    "causal": False, "mask": None, "window": None, "softcap": None, "alibi": None, "bias": None, "sinks": None,
    "dropout": None, "scale": None,
}  # fmt: skip
SEEN = 1e-3  # of the largest entry: far above what rounding explains in any format but those of 16 bits


def outputs(sample):
    """Return o and the gradients of a right kernel, whose mask has the causal limit and the window."""
    features = {name: getattr(sample, name) for name in WITHOUT if name not in ("dropout", "causal", "window")}
    features |= {"mask": sample.allowed, "dropout_mask": sample.dropout, "dropout_keep": sample.keep}
    arrays = sample.q, sample.k, sample.v
    with np.errstate(all="ignore"):
        o = RIGHT.attention(*arrays, **features)
        return o, *RIGHT.attention_backward(*arrays, sample.do, **features)


def shows(right, other):
    return np.abs(right - other).max() > SEEN * np.abs(right).max()


def silent(asked, strength, aside=(), conventions=None):
    """Return the combinations of a feature with other levels that no row shows to be left out, forward or backward."""
    hidden, shown = set(), (set(), set())
    for place, row in enumerate(asked):
        sample = interaction(row, 0, "float32", place, conventions)
        right = outputs(sample)
        present = [
            (factor, level)
            for factor, level in row.items()
            if factor not in aside and (factor == "size" or level != FACTORS[factor][0])
        ]
        for feature in [one for one in present if one[0] in WITHOUT]:
            left_out = outputs(sample.changed(**{feature[0]: WITHOUT[feature[0]]}))
            found = [shows(a, b) for a, b in zip(right, left_out, strict=True)]
            others = combinations([one for one in present if one[0] != feature[0]], strength - 1)
            for met in [(feature, *rest) for rest in others]:
                hidden.add(met)
                for seen, there in zip(shown, (found[0], any(found[1:])), strict=True):
                    if there:
                        seen.add(met)
    wide = ("window", 1000)  # changes nothing anywhere, and has to
    return [{met for met in hidden - seen if met[0] != wide} for seen in shown]


@pytest.mark.parametrize("alignment", ["top-left", "bottom-right"])
def test_every_pair_shows(alignment):
    few = {
        frozenset({("mask", "band"), ("window", 2)}),  # both leave the same keys
        frozenset({("mask", "band"), ("lengths", "fewer queries")}),
        frozenset({("mask", "last or first keys"), ("window", 2)}),
        frozenset({("window", 2), ("m", "large")}),
    }
    asked = rows(frozenset(), 2, bottom_right=alignment == "bottom-right")
    found = silent(asked, 2, conventions=Conventions(causal_alignment=alignment))
    assert all({frozenset(met) for met in one} <= few for one in found), found


@pytest.mark.thorough
def test_nearly_every_triple_shows():
    found = silent(rows(frozenset(), 3), 3, aside=_WEAK)
    # as measured, of 6,808: may only fall; 47 before the table had the sizes of real kernels, with fewer small rows
    assert all(len(one) <= 89 for one in found), [len(one) for one in found]

"""The share of the long tests that one run takes: CI draws it by the commit, everyone else runs all."""

from collections import defaultdict
from random import Random

SHARE = 1 / 6  # chosen: so that CI takes half an hour; a function whose cases last a minute each marks a smaller one


def drawn(items, seed):
    """Return the set of the default tests and of a share of the cases of each thorough one, drawn by the seed.

    Every case is drawn sooner or later, and nobody who commits chooses which.
    """
    kept, functions = set(), defaultdict(list)
    for item in items:
        if item.get_closest_marker("thorough") is None:
            kept.add(item)
        else:
            functions[item.nodeid.partition("[")[0]].append(item)
    for name, cases in functions.items():
        share = cases[0].get_closest_marker("thorough").kwargs.get("share", SHARE)
        draw = Random(f"{seed} {name}")
        kept.update(draw.sample(cases, int(share * len(cases) + draw.random())))
    return kept

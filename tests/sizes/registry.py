"""Numbers that switch code paths by the size of a problem, and the smallest value of each.

Code behind a threshold runs only on problems that no test affords. ``pytest --attnprune-smallest`` sets every number of
`SMALLEST` before the first test, so that blocks hold one row, sums one term, and every problem counts as large. Each
other module-level number of the same folders stands in `NOT_SIZES`; a number in neither makes a test fail.
"""

import importlib
import math
import sys
from collections.abc import Mapping
from typing import Any

FOLDERS = ("instance", "model", "oracle", "theory")
"""Folders of the package whose numbers are registered."""

SMALLEST: dict[str, dict[str, float]] = {
    "instance.archive": {"_LEAST_MAPPED": 0},
    "instance.mask": {"_TALLEST": 1, "_FINEST": 1, "_FINEST_OF_SEVERAL": 1, "_BLOCK": 1},
    "model.kernel": {"_LONG_SUM": 0, "_FINISHED_AT_ONCE": 1},
    "model.objective": {"_WORTH_ASKING": 0},
    "model.threads": {"WORTH": 0, "_SLAB": 1},
    "model.tiles": {
        "_UNIT": 1, "_CHUNK": 1, "_SMALL": 0, "_TALLEST": 2, "_TALL": 1, "_LOW": 1, "_LOWEST": 1, "_LEAST_ROWS": 1,
    },
    "oracle.ball_forms": {"_BLOCK": 1},
    "oracle.ball_series": {"_BLOCK": 1},
    "oracle.fixed_point": {"_FEW": 0},
    "oracle.running_error": {"_BLOCK": 1},
    "oracle.taylor_differences": {"_BLOCK": 1},
    "theory.quantities.attention_floor": {"_ROWS": 1},
    "theory.best_mask": {"_CHUNK": 1},
    "theory.numbers.lanes": {"_MOST_KNOWN": 0},
    "theory.quantities.logit_map": {"_ROWS": 1},
}  # fmt: skip
"""Numbers that change how a result is computed and never the result: every test has to pass."""

ROUTES: dict[str, dict[str, float]] = {
    "oracle.taylor": {"_EXTENDED_LIMIT": 0},
    "oracle.verdict": {"_QUICK": 0},
    "theory.quantities.cheap_norm": {"_ROW_WORK": 0, "_BOTH_SIDES_WORK": 0},
    "theory.quantities.curvature": {"_PAIRWISE_LIMIT": 0},
    "theory.quantities.evaluation": {"_BALL_WORK": 0, "_RUNNING_WORK": 0, "_SMALL": 0},
    "theory.quantities.gram": {"_EXACT_LIMIT": 0, "_WELL_CONDITIONED": math.inf},
    "theory.quantities.kappa": {"_LARGEST": 0, "_LONGEST_ROWS": 0},
    "theory.layer_verdicts": {"_MANY": 0},
    "theory.quantities.operator_norm": {"DENSE_LIMIT": 0, "_BALL_LIMIT": 0, "_WORK": 1, "_LOOSE": 0},
    "theory.pl_bounds": {"_EXACT_TOKENS": 0},
    "theory.quantities.rotated": {"_DENSE_WORK": 0, "_STEPS_WORK": 0},
}
"""Numbers that choose a coarser and cheaper method: bounds stay bounds, `tests/sizes/test_routes.py` compares them."""


NOT_SIZES: dict[str, dict[str, str]] = {
    "instance.archive": {
        "_LARGEST_FILE": "a limit: larger files are refused",
        "_LARGEST_UNSUSPICIOUS": "a limit: larger arrays must not be compressed too well",
        "_LARGEST_RATIO": "a limit of compression",
    },
    "instance.memory": {"_SHARE": "the share of the memory that may be used", "_UNSUSPICIOUS": "a limit in bytes"},
    "instance.validate": {"_LARGEST_EXACT_INTEGER": "2^53, by the format"},
    "model.rows": {"_DENSE": "the index of a layer of buffers", "_MOVED": "the index of a layer of buffers"},
    "oracle.any_gradient": {"_ROOM": "a tolerance", "_HALVINGS": "a count of steps", "_DIGITS": "digits"},
    "oracle.ball_divergence": {"_BITS": "bits of balls"},
    "oracle.comparison": {
        "WORTH": "a tolerance, tests/oracle/test_thresholds.py", "SIGMAS": "a probability (Hoeffding)",
    },
    "oracle.enclosure": {"_MOST_BITS": "the end of a ladder of precisions"},
    "oracle.error_propagation": {"U64": "by the format", "U32": "by the format"},
    "oracle.loops": {"_STEP": "a step of complex differentiation"},
    "oracle.resolution": {"_TRIALS": "a count of trials", "_MARGIN": "a tolerance"},
    "oracle.running_error": {"_SAFETY": "a rounding term"},
    "oracle.taylor": {
        "THRESHOLD": "a tolerance", "_FEWEST": "a count of step sizes", "_ABOVE": "a tolerance",
        "_BEYOND": "a tolerance", "_SIGMAS": "a probability (Hoeffding)", "_WORTH": "a tolerance",
        "_TINY": "the end of the range of doubles",
    },
    "oracle.verdict": {"_BITS": "the start of a ladder of precisions", "_FINE": "a tolerance"},
    "theory.numbers.arithmetic": {"PRECISION": "bits of balls"},
    "theory.numbers.balls": {"_UNIT": "by the format"},
    "theory.best_mask": {"_TINY": "an underflow term", "_LARGEST": "a limit: larger problems are refused"},
    "theory.bounds": {"_SHARP": "bits that decide an inequality"},
    "theory.quantities.cheap_norm": {"_POWER_STEPS": "steps of a power iteration"},
    "theory.every_text": {"_UP": "a rounding term", "_MOST_FEATURES": "a limit: larger layers are refused"},
    "theory.quantities.evaluation": {"_MOST_BITS": "the end of a ladder of precisions"},
    "theory.quantities.gram": {
        "_PRIME": "a modulus", "_ENOUGH": "a width that is accepted", "_MOST_BITS": "the end of a ladder of precisions",
    },
    "theory.guarantees": {"_PART": "the part of the start that a guarantee promises"},
    "theory.quantities.kappa": {"_LARGEST_EXACT": "a limit: larger problems are refused", "_LARGEST_ERROR": "allowed"},
    "theory.numbers.lanes": {"U": "by the format", "TINY": "an underflow term", "WIDER": "a rounding term"},
    "theory.quantities.operator_norm": {"_MOST_STEPS": "steps of a power iteration"},
    "theory.pair": {"_UP": "a rounding term"},
    "theory.pl_bounds": {"_ATTAINED": "an equality to 120 digits"},
    "theory.quantities.reduced": {"_MOST": "a limit: larger problems are refused"},
    "theory.quantities.rotated": {"_MOST_STEPS": "steps of a power iteration"},
    "theory.numbers.spectral": {
        "UNIT_ROUNDOFF": "by the format", "_TINY": "an underflow term", "_UP": "a rounding term",
    },
    "theory.stationary": {"_STEPS": "steps of Newton's method"},
    "theory.theorem": {"_HOPELESS": "a number of steps that nobody takes"},
}  # fmt: skip
"""Numbers that are no sizes, and the meaning of each."""


def numbers(kind: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Return the dotted names of a table, below the package."""
    return [f"{module}.{name}" for module, names in kind.items() for name in names]


def places(path: str, name: str) -> list[Any]:
    """Return every module of the package that holds the number: its own, and those that import it from there."""
    owner = importlib.import_module(f"attnprune_verify.{path}")
    loaded = [module for label, module in list(sys.modules.items()) if label.startswith("attnprune_verify.")]
    return [module for module in loaded if vars(module).get(name) is vars(owner)[name]]


def shrink(kind: dict[str, dict[str, float]]) -> None:
    """Set every number of the table to its smallest value for the rest of the process."""
    for path, names in kind.items():
        for name, smallest in names.items():
            for module in places(path, name):
                setattr(module, name, smallest)


def shrink_one(dotted: str, monkeypatch: Any) -> None:
    """Set one number of `ROUTES` to its smallest value for the rest of a test."""
    path, _, name = dotted.rpartition(".")
    for module in places(path, name):
        monkeypatch.setattr(module, name, ROUTES[path][name])

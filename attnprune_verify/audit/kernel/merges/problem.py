"""Partial results that merges get wrong: unlike levels, parts without keys, unlike strides, widths from 1 to 576."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS, KernelPrecision
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample

_ROWS = (2, 3, 5)  # samples, heads and queries; chosen: odd and different, so that exchanged axes show
ORDINARY_WIDTH = 8
"""Chosen: features of problems that are not about widths."""


@dataclass(frozen=True, eq=False)
class MergeProblem:
    """Outputs o (parts, batch, heads, n, m) and their log sum exp (parts, batch, heads, n), -inf where nothing is seen.

    Attributes
    ----------
    layout : str
        The order in memory of every second part.
    levels : bool
        True where exp of a log sum exp overflows or vanishes.
    """

    name: str
    o: Array
    lse: Array
    do: Array
    dlse: Array
    layout: str = "plain"
    levels: bool = False
    samples: dict[tuple[KernelPrecision, Conventions], KernelSample] = field(default_factory=dict, repr=False)

    @property
    def slug(self) -> str:
        """The name in a check's id."""
        return self.name.replace(" ", "-")

    @property
    def says(self) -> str:
        return f"{self.name}: {len(self.lse)} parts, m = {self.o.shape[-1]}"

    @property
    def empty(self) -> bool:
        """True where a part has rows that see nothing."""
        return bool(np.isneginf(self.lse).any())

    def sample(self, precision: KernelPrecision, conventions: Conventions) -> KernelSample:
        """Attention of one query a row over its parts: logits are log sum exp, values are outputs.

        In base 2 the logits are scaled by log 2, and so is what is returned.
        """
        if (precision, conventions) in self.samples:
            return self.samples[precision, conventions]
        parts, rows, m = len(self.lse), self.lse[0].size, self.o.shape[-1]
        allowed = np.isfinite(self.lse).reshape(parts, rows)
        k = np.where(allowed, self.lse.reshape(parts, rows), 0.0).T[None, :, :, None]
        v = np.swapaxes(np.where(allowed[..., None], self.o.reshape(parts, rows, m), 0.0), 0, 1)[None]
        found = self.samples[precision, conventions] = KernelSample(
            self.name, precision, np.ones((1, rows, 1, 1)), k, v, self.do.reshape(1, rows, 1, m),
            scale=conventions.unit, mask=allowed.T[None, :, None], lse=True, dlse=self.dlse.reshape(1, rows, 1),
            conventions=conventions, generic=False,
        )  # fmt: skip
        return found


@lru_cache(maxsize=8)
def merge_problems(precision: KernelPrecision, parts: int, seed: int) -> tuple[MergeProblem, ...]:
    """Return problems with a number of parts; log sum exp is exact in the type of the sums.

    Examples
    --------
    >>> [problem.name for problem in merge_problems(PRECISIONS["float32"], 2, 0)][:3]
    ['plain', 'long beside short', 'near levels']
    """
    rng = np.random.default_rng([seed, parts])
    sums = PRECISIONS["float64" if precision.name == "float64" else "float32"]

    def made(
        name: str, level: float = 0.0, apart: float = 0.0, m: int = ORDINARY_WIDTH, layout: str = "plain"
    ) -> MergeProblem:
        o, do = (precision.exact(rng.standard_normal((*lead, *_ROWS, m))) for lead in ((parts,), ()))
        gap = apart * np.arange(parts).reshape(-1, 1, 1, 1) * rng.choice([-1, 1], (1, *_ROWS))
        lse = sums.exact(rng.standard_normal((parts, *_ROWS)) + gap + level)
        return MergeProblem(name, o, lse, do, sums.exact(rng.standard_normal(_ROWS)), layout, abs(level) > 50)

    def without(name: str, seen: Array) -> MergeProblem:
        problem = made(name)
        nothing = np.broadcast_to(seen == 0, problem.lse.shape)
        problem.o[nothing], problem.lse[nothing] = 0.0, -np.inf
        return problem

    first = np.arange(parts).reshape(-1, 1, 1, 1) == 0
    queries = np.arange(_ROWS[2])
    return (
        made("plain"), made("long beside short", 4.0, 4.0), made("near levels", 6.0, 0.1),
        made("far apart", apart=60.0),
        *(made(f"width {m}", m=m) for m in (1, 64, 192, 576)),
        made("features spaced", layout="spaced"), made("heads last", layout="heads last"),
        without("first part empty", (~first).astype(float)), without("other parts empty", first.astype(float)),
        without("rows of a part empty", np.where(first, queries > 1, queries < 4).astype(float)),
        without("rows of all parts empty", (queries % 2).astype(float)),
        made("levels of 100", 100.0, 3.0), made("levels of -200", -200.0, 3.0),
    )  # fmt: skip

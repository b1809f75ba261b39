"""Several samples that share W, M, the mask and lam: the mean of their attention losses, in any arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.cached import computed_once, same_in_copies
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Lifted, Quantities
from attnprune_verify.theory.numbers.arithmetic import Arithmetic


class Batch(Quantities):
    """The case's X and its `others`, k samples in all; for k = 1 the numbers are those of `Quantities`.

    L_attn and G are means over the samples, c and Pi A are stacked and divided by sqrt k (so that ||c||^2 is the mean,
    and K the norm of the averaged operator), f_min and delta_allowed are the least of all samples.
    """

    def __init__(self, case: Case, arithmetic: Arithmetic, parts: list[Quantities] | None = None) -> None:
        super().__init__(case, arithmetic)
        self.parts = parts or [Quantities(case.but(X=sample), arithmetic) for sample in tokens(case)]

    def at(self, M: Lifted) -> Batch:
        """Return the samples at another pruning mask."""
        other = Batch(self.case, self.arithmetic, [part.at(M) for part in self.parts])
        other.__dict__.update(home=self.home or self, M=M, lam=self.lam)
        return other

    @property
    def k(self) -> int:
        """The number of samples."""
        return len(self.parts)

    @computed_once
    def L_attn(self) -> Lifted:
        """The mean over the samples."""
        return sum((part.L_attn for part in self.parts), self.number(0.0)) / self.k

    @computed_once
    def G(self) -> Lifted:
        """The gradient of `L_attn`."""
        return sum((part.G for part in self.parts[1:]), self.parts[0].G) / self.k

    @computed_once
    def c(self) -> Lifted:
        """All residuals, over sqrt k."""
        return np.concatenate([part.c for part in self.parts]) / self.sqrt(self.number(float(self.k)))

    @same_in_copies
    def PiA(self) -> Lifted:
        """The samples' matrices above each other, over sqrt k."""
        return np.concatenate([part.PiA for part in self.parts]) / self.sqrt(self.number(float(self.k)))

    @same_in_copies
    def f_min(self) -> Lifted:
        """The least over the samples."""
        return self.smallest([part.f_min for part in self.parts])

    @computed_once
    def delta_allowed(self) -> Lifted:
        """The least over the samples."""
        return self.smallest([part.delta_allowed for part in self.parts])


def tokens(case: Case) -> list[Lifted]:
    """The samples of a case."""
    return [case["X"], *case.get("others", ())]


def problem(q: Quantities) -> Quantities:
    """The batch of a case with `others`, else the case's own quantities."""
    return Batch(q.case, q.arithmetic) if len(q.case.get("others", ())) else q


def more_samples(rng: Generator, case: Case) -> dict[str, Any]:
    """Return more samples for every other case: one or two like the first, or its tokens in another order."""
    X = case["X"]
    count = int(rng.choice([0, 0, 1, 2]))
    drawn = [X[rng.permutation(len(X))] if rng.integers(2) else rng.permuted(X, axis=1) for _ in range(count)]
    return {"others": np.array(drawn).reshape(count, *X.shape)}

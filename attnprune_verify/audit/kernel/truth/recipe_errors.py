r"""The errors that the lines of a recipe of eight bits add to those of an honest kernel.

A number rounded to the nearest of a format errs by at most w of itself (w = 1/16 of e4m3, 1/8 of e5m2) where it is
normal, by at most h, half of the smallest subnormal number, below, and never by more than itself. Per line:

* q, k, v, where the kernel stores them itself: :math:`|\delta x| \le \max(w |x|, 2 h a / M)`, with a the largest number
  that may share the scale and M the format's largest (a scale may be twice as large as it has to be, as those that are
  powers of two are); and the unit of the type in which decoded numbers are multiplied. Logits move by
  :math:`c (\delta q |k| + |q| \delta k + \delta q \delta k)`, outputs by :math:`\sum (p + d) \delta v`.
* p: a weight is at most 1, the row's largest in any order of blocks only falls when a shift rises, so that a weight p
  of a row errs by :math:`d = \max(w p, \min(p, h \max p / f))` with the factor f; rounded after the division, the
  largest weight is 1 for :math:`\max p`. Rounded before the row sum, errors of a row's weights appear centred,
  :math:`\sum d |v - o| / (1 - \sum d)`: v = 1 gives 1. Else they meet |v|.
* o: w |o|, or h.

Typically a rounding errs by at most :math:`w / \sqrt 3`: its error is spread over half a unit, which is w of a number
at the lower end of its binade.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.recipe import STORED, WIDE_UNITS, Recipe, Storage
from attnprune_verify.audit.kernel.problem.sample import Array, KernelSample
from attnprune_verify.audit.kernel.truth.calculus import Calculus, Worst
from attnprune_verify.audit.kernel.truth.steps import KernelSteps, evaluate

_SPREAD = 3.0**-0.5  # the root mean square of what is spread evenly over -1 to 1
_SCALE = 2.0  # how much larger than it has to be a scale may be: the next power of two
_LOST_OF_FLOAT16 = 2.0**-25


@dataclass(frozen=True)
class RecipeErrors:
    """The terms of one recipe on one sample, in one calculus."""

    sample: KernelSample
    recipe: Recipe
    storage: Storage
    calculus: Calculus

    @property
    def steps(self) -> KernelSteps:
        return evaluate(self.sample)

    @property
    def spread(self) -> float:
        """The share of a rounding's largest error that it has typically."""
        return 1.0 if isinstance(self.calculus, Worst) else _SPREAD

    def moved(self, name: str, array: Array) -> Array:
        """Errors of the stored and decoded numbers of q, k or v."""
        size, kind = np.abs(array), self.recipe.format_of(name)
        decoded = WIDE_UNITS[self.recipe.decoded] if self.recipe.decoded != "float32" else 0.0
        peak, error = self.storage.peaks[STORED.index(name)], np.zeros_like(size)
        if peak and kind in EIGHT_BITS:
            form = EIGHT_BITS[kind]
            error = np.maximum(form.unit * size, _SCALE * form.lost * peak / form.largest)
        elif peak:
            error = WIDE_UNITS[kind] * size
        return self.spread * (error + decoded * (size + error))

    def logits(self) -> Array:
        """The errors of q k^T, before its scale."""
        through = self.calculus.through
        turned = np.swapaxes(self.steps.k, -1, -2)
        of_q = self.moved("q", self.sample.q)
        of_k = np.swapaxes(self.moved("k", self.steps.k), -1, -2)
        return self.calculus.add(through(of_q, turned), through(np.abs(self.sample.q), of_k), through(of_q, of_k))

    def weights(self, grown: Array, exponent: Array) -> Array:
        """Errors of the weights of a row, which may be as large as `grown`, by their rounding."""
        kind = self.recipe.p
        if kind in EIGHT_BITS:
            unit, lost = EIGHT_BITS[kind].unit, EIGHT_BITS[kind].lost
        else:
            unit = 0.0 if kind == "float32" else WIDE_UNITS[kind]
            lost = _LOST_OF_FLOAT16 if kind == "float16" else 0.0
        within = self.storage.exact_within
        if within is not None and exponent.max() + within < unit / 4:  # it rounds to the number that it nearly is
            return np.asarray(grown * (exponent + within))
        largest = 1.0 if self.recipe.rounded == "divided" else grown.max(axis=-1, keepdims=True)
        return np.asarray(
            self.spread * np.maximum(unit * grown, np.minimum(grown, lost * largest / self.recipe.factor))
        )

    def output(self, error: Array, grown: Array, exponent: Array, chain: float) -> Array:
        """Return the error of o with all lines, from that of a kernel that rounds to no eight bits."""
        steps, calculus = self.steps, self.calculus
        d = self.weights(grown, exponent)
        of_v = self.moved("v", steps.v)
        values = calculus.through(grown + d, of_v)
        if self.recipe.rounded == "before":
            total = calculus.along(d, -1)
            furthest = np.abs(steps.v).max(axis=-2, keepdims=True) + np.abs(steps.o)
            own = calculus.add(calculus.centred(d, steps.v, steps.o), total * error, values)
            with np.errstate(divide="ignore", invalid="ignore"):
                own = np.where(total < 1, own / (1 - total), furthest + of_v.max(axis=-2, keepdims=True))
        else:
            own = calculus.add(calculus.through(d, steps.v), values)
        found = calculus.add(error, own, chain * (d @ np.abs(steps.v)))
        if self.recipe.o not in EIGHT_BITS:
            return np.asarray(found)
        form = EIGHT_BITS[self.recipe.o]
        stored = np.maximum(form.unit * (np.abs(steps.o) + found), form.lost)
        return calculus.add(found, self.spread * stored)

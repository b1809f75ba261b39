"""Honest programs drawn at random: any tree of additions, blocks of neighbouring keys joined in any order, any format.

Numbers are NumPy scalars of the type of the sums, so that every operation is the machine's own. exp errs by up to 60
units beyond NumPy's.
"""

import numpy as np


class Program:
    """One way to compute, drawn by `rng`, for a sample of one head."""

    def __init__(self, rng, sample):
        self.rng, self.precision = rng, sample.precision
        self.type = np.float64 if sample.precision.name == "float64" else np.float32
        self.keeps = {name: bool(rng.random() < 0.5) for name in ("p", "dp", "ds", "z")}
        self.way = str(rng.choice(["after", "before", "logsumexp"]))
        self.mean = str(rng.choice(["terms", "output"]))
        self.worst = float(rng.choice([0.0, 1.0]))  # exp off by 60 units one way, or at random
        self.fold = bool(rng.random() < 0.5)
        self.factors = {}

    def kept(self, x, name=None):
        """Perhaps stored in 16 bits."""
        if name is not None and not self.keeps[name] or not self.precision.stored:
            return x
        return self.type(self.precision.exact(x))

    def added(self, terms):
        """Any tree."""
        terms = [terms[i] for i in self.rng.permutation(len(terms))]
        while len(terms) > 1:
            i = int(self.rng.integers(len(terms) - 1))
            terms[i : i + 2] = [terms[i] + terms[i + 1]]
        return terms[0]

    def product(self, x, z):
        return self.added([a * b for a, b in zip(x, z, strict=True)])

    def exp(self, shift, to):
        """exp(shift - to), the same for all that meet it; exp(0) = 1."""
        if shift == to:
            return self.type(1)
        key = (float(shift), float(to))
        if key not in self.factors:
            off = self.worst or self.rng.uniform(-1, 1)
            self.factors[key] = np.exp(shift - to) * self.type(1 + 60 * float(self.precision.sums) * off)
        return self.factors[key]

    def plan(self, low, high):
        """A tree over neighbouring keys: (low, high, where its running maximum starts or None, left, right)."""
        if high - low == 1 or self.rng.random() < 0.3:
            return low, high, None, None
        middle = int(self.rng.integers(low + 1, high))
        return low, high, self.plan(low, middle), self.plan(middle, high)

    def carried(self, plan, logits, values, stored):
        """Shift, row sum and running output of a plan; a block is summed at once, the row sum in another order."""
        low, high, left, right = plan
        if left is None:
            shift = max(logits[low:high])
            g = [self.exp(x, shift) for x in logits[low:high]]
            own = [self.kept(x, "p") if stored else x for x in g]
            return shift, self.added(g), [self.product(own, column) for column in values.T[:, low:high]]
        one, two = self.carried(left, logits, values, stored), self.carried(right, logits, values, stored)
        shift = max(one[0], two[0])
        a, b = self.exp(one[0], shift), self.exp(two[0], shift)
        return shift, one[1] * a + two[1] * b, [x * a + y * b for x, y in zip(one[2], two[2], strict=True)]

    def row(self, q, k, v, do, scale):
        """o, the stored weights, and the gradient by each logit."""
        n, t = len(k), self.type
        logits = [self.product(q * scale, key) if self.fold else self.product(q, key) * scale for key in k]
        shift, total, o = self.carried(self.plan(0, n), logits, v, stored=True)
        L = shift + np.log(total)
        if self.way == "logsumexp":
            weights = [self.exp(x, L) for x in logits]
        else:
            weights = [self.exp(x, shift) / total for x in logits]
        stored = [self.kept(x, "p") for x in weights]
        if self.way == "after":
            o = [x / total if self.rng.random() < 0.5 else x * (t(1) / total) for x in o]
        else:
            o = [self.product(stored, column) for column in v.T]
        o = [self.kept(x) for x in o]
        dp = [self.kept(self.product(do, value), "dp") for value in v]
        mean = self.product(stored, dp) if self.mean == "terms" else self.product(do, o)
        ds = [self.kept(p * self.kept(x - mean, "z"), "ds") for p, x in zip(stored, dp, strict=True)]
        return o, stored, ds

    def run(self, sample):
        """All four arrays, as float64."""
        q, k, v, do = (part[0, 0].astype(self.type) for part in (sample.q, sample.k, sample.v, sample.do))
        scale = self.type(sample.factor)
        rows = [self.row(x, k, v, y, scale) for x, y in zip(q, do, strict=True)]
        o, p, ds = (list(part) for part in zip(*rows, strict=True))
        found = {
            "o": o,
            "dq": [[self.product(x, key) * scale for key in k.T] for x in ds],
            "dk": [[self.product(x, y) * scale for y in q.T] for x in zip(*ds, strict=True)],
            "dv": [[self.product(x, y) for y in do.T] for x in zip(*p, strict=True)],
        }
        return {name: np.array([[self.kept(x) for x in row] for row in part], float) for name, part in found.items()}

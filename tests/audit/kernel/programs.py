"""Honest programs drawn at random: any tree of additions, blocks of any keys joined in any order, any format.

Numbers are NumPy scalars of the type of the sums, so that every operation is the machine's own. exp errs by up to 60
units beyond NumPy's, and may lose what is subnormal; the shift may lag behind the largest logit by up to 8.

    python -m tests.audit.kernel.programs 100000

draws and runs so many, and prints the largest quotient of error and bound, by array and kind of sample.
"""

import sys
from collections import Counter

import numpy as np

from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.truth import truth

KINDS = ("few", "many features", "many keys", "keys ahead", "many values", "many queries", "permuted", "wide")


def drawn(rng, dtype, kind="few"):
    """A sample of one head without a mask; sizes, scales and shapes of logits as they come, or one kind of them.

    "permuted": keys are permutations of the same numbers, and every query is constant, so that all logits are equal but
    for their roundings; some keys are equal. "wide": logits from -1e5 to 1e5.
    """
    precision = PRECISIONS[dtype]
    n, length, m, mv = (int(x) for x in rng.integers(1, 6, size=4))
    if kind == "permuted":
        length, m = (int(x) for x in rng.integers(2, 25, size=2))
    long = {"many features": (1, 2, 300, 1), "many keys": (1, 300, 1, 1), "keys ahead": (1, 1000, 1, 1),
            "many values": (1, 2, 1, 300), "many queries": (600, 2, 1, 1)}  # fmt: skip
    n, length, m, mv = long.get(kind, (n, length, m, mv))
    spread = float(rng.choice([0.1, 1.0, 3.0])) if kind != "wide" else float(rng.choice([30.0, 300.0, 3e3, 1e5]))
    of_keys = 1.0 if kind != "wide" else spread**0.5
    q, k, v, do = (
        size * rng.standard_normal((1, 1, *shape))
        for size, shape in ((spread / of_keys, (n, m)), (of_keys, (length, m)), (1.0, (length, mv)), (1.0, (n, mv)))
    )
    if kind == "permuted":
        k = rng.permuted(np.broadcast_to(k[:, :, :1], k.shape), axis=-1)
        q = np.broadcast_to(q[..., :1], q.shape)
    if kind == "keys ahead":
        q, k = np.ones_like(q), np.full_like(k, -13.0)
        k[:, :, rng.integers(length, size=2)] = 1.0
    elif rng.random() < 0.3 or kind == "many keys":  # logits that rise, or are equal; one value for all
        k, v = np.sort(k, axis=2) * (rng.random() < 0.5), np.ones_like(v)
    q, k, v, do = (precision.exact(x) for x in (q, k, v, do))
    return KernelSample("drawn", precision, q, k, v, do, scale=float(rng.choice([0.25, 1.0])))


class Program:
    """One way to compute, drawn by `rng`, for a sample of one head."""

    def __init__(self, rng, sample):
        self.rng, self.precision = rng, sample.precision
        self.type = np.float64 if sample.precision.name == "float64" else np.float32
        self.keeps = {name: bool(rng.random() < 0.5) for name in ("p", "dp", "ds", "z")}
        self.way = str(rng.choice(["after", "before", "logsumexp"]))
        self.mean = str(rng.choice(["terms", "output"]))
        self.worst = float(rng.choice([0.0, 1.0]))  # exp off by 60 units one way, or at random
        self.fold, self.anew, self.flush = (bool(rng.random() < 0.5) for _ in range(3))
        self.lag = float(rng.choice([0.0, 0.0, 5.5, 8.0]))
        self.order = str(rng.choice(["as they are", "any", "rising", "falling"]))
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
            found = np.exp(shift - to) * self.type(1 + 60 * float(self.precision.sums) * off)
            self.factors[key] = self.type(0) if self.flush and found < self.precision.tiny_sums else found
        return self.factors[key]

    def plan(self, keys):
        """A tree over keys: (all of them, left, right), or blocks of them one after the other: (all, blocks, None)."""
        if len(keys) == 1 or self.rng.random() < 0.3:
            cuts = sorted(self.rng.integers(1, len(keys) + 1, size=self.rng.integers(len(keys) + 1)))
            return keys, [block for block in np.split(keys, cuts) if len(block)], None
        middle = int(self.rng.integers(1, len(keys)))
        return keys, self.plan(keys[:middle]), self.plan(keys[middle:])

    def carried(self, plan, logits, values):
        """Shift, row sum and running output of a plan; a block is summed at once, the row sum in another order."""
        keys, left, right = plan
        if right is not None:
            return self.joined(self.carried(left, logits, values), self.carried(right, logits, values))
        state = None
        for block in left:
            top = max(logits[block])
            shift = top if state is None or top > state[0] + self.type(self.lag) else state[0]
            g = [self.exp(x, shift) for x in logits[block]]
            own = [self.kept(x, "p") for x in g]
            new = shift, self.added(g), [self.product(own, column) for column in values[block].T]
            state = new if state is None else self.joined(state, new)
        return state

    def joined(self, one, two):
        shift = max(one[0], two[0])
        a, b = self.exp(one[0], shift), self.exp(two[0], shift)
        return shift, one[1] * a + two[1] * b, [x * a + y * b for x, y in zip(one[2], two[2], strict=True)]

    def weights(self, logits, shift, total):
        """Divided by the row sum, or exp(s - L); perhaps stored in 16 bits."""
        if self.way == "logsumexp":
            found = [self.exp(x, shift + np.log(total)) for x in logits]
        else:
            found = [self.exp(x, shift) / total for x in logits]
        return [self.kept(x, "p") for x in found]

    def row(self, q, k, v, do, scale):
        """o, the stored weights, and the gradient by each logit."""
        n, t = len(k), self.type
        logits = np.array([self.product(q * scale, key) if self.fold else self.product(q, key) * scale for key in k])
        order = {"as they are": np.arange(n), "any": self.rng.permutation(n), "rising": np.argsort(logits),
                 "falling": np.argsort(-logits)}[self.order]  # fmt: skip
        shift, total, o = self.carried(self.plan(order), logits, v)
        stored = self.weights(logits, shift, total)
        if self.way == "after":
            o = [x / total if self.rng.random() < 0.5 else x * (t(1) / total) for x in o]
        else:
            o = [self.product(stored, column) for column in v.T]
        o = [self.kept(x) for x in o]
        if self.anew:  # for the backward pass
            stored = self.weights([self.product(q, key) * scale for key in k], shift, total)
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


def run_programs(seed, count, kinds=("few", "permuted", "wide"), each=4):
    """The largest error of so many random programs, in units of the bound, by array and kind of sample."""
    rng, worst = np.random.default_rng(seed), Counter()
    with np.errstate(all="ignore"):
        for place in range(count // each):
            kind = kinds[place % len(kinds)]
            sample = drawn(rng, str(rng.choice(list(PRECISIONS))), kind)
            true, errors = truth(sample), attention_errors(sample).worst
            for _ in range(each):
                for name, found in Program(rng, sample).run(sample).items():
                    off = np.maximum(np.abs(found - true[name].value[0, 0]) - true[name].radius[0, 0], 0.0)
                    off = np.where(np.isfinite(found), off, np.inf)
                    bound = np.nextafter(errors[name][0, 0], np.inf)
                    share = np.where(np.isinf(bound), 0.0, off / bound)
                    worst[name, kind] = max(worst[name, kind], float(share.max()))
    return dict(worst)


if __name__ == "__main__":
    largest = run_programs(int(sys.argv[2]) if len(sys.argv) > 2 else 0, int(sys.argv[1]))
    print(f"{max(largest.values()):.3f} is the largest quotient of error and bound, of {sys.argv[1]} programs")
    for (array, drawn_as), quotient in sorted(largest.items()):
        print(f"{array:3} {drawn_as:9} {quotient:.3f}")

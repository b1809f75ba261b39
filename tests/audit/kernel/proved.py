"""Right sides of the theorems of proofs_check/coq/rounding, in balls of 128 bits: proofs_check/coq/Trusted.v, retold.

One row of one head: `s` are its exact logits, `p` its weights, `a` how far computed logits may be off. Names are those
of Trusted.v. Nothing here is shared with attnprune_verify/audit/kernel/truth/bounds.py.
"""

from bisect import bisect_right
from dataclasses import dataclass, field

from flint import arb


def number(x):
    return x if isinstance(x, arb) else arb(float(x))


def grow(u, k):
    """(1 - u)^-k."""
    return 1 / (1 - u) ** k


def prob(s):
    weights = [x.exp() for x in s]
    total = sum(weights)
    return [x / total for x in weights]


def lse(s):
    return sum(x.exp() for x in s).log()


def sum_error(n, u, h, x):
    size = sum(abs(t) for t in x)
    return (grow(u, n - 1) - 1) * size + grow(u, n - 1) * (n - 1) * h


def product_error(n, u, h, x, eps, z):
    moved = sum((e * abs(t) for e, t in zip(eps, z, strict=True)))
    size = sum(((abs(t) + e) * abs(y) for t, e, y in zip(x, eps, z, strict=True)))
    return moved + (grow(u, n) - 1) * size + grow(u, n) * 2 * n * h


def gradient_error(n, u, h, w, j, k, c, x, eps, z):
    K, g = grow(u, j) * grow(w, k), sum((t * y for t, y in zip(x, z, strict=True)))
    return K * abs(c) * product_error(n, u, h, x, eps, z) + (K - 1) * abs(c * g)


def exponent(u, e, top, amax, s, a, changes):
    rows = zip(s, a, changes, strict=True)
    return [(x + 2 * u * (top - t + x + amax)).exp() * grow(e * u, 1 + r) - 1 for t, x, r in rows]


def remaining(p, E):
    return 1 - sum((x * y for x, y in zip(p, E, strict=True)))


def grown(p, E):
    kept = remaining(p, E)
    return [x * (1 + y) / kept for x, y in zip(p, E, strict=True)]


def output_bound(p, E, v, c, G, o):
    centred = sum((x * y * abs(t - o) for x, y, t in zip(p, E, v, strict=True))) / remaining(p, E)
    own = sum((g * x * abs(t) for g, x, t in zip(grown(p, E), c, v, strict=True)))
    return G * (centred + own) + (G - 1) * abs(o)


def lse_error(n, u, k, D, p, E, value):
    B = (grow(u, 2 * (n - 1)) / remaining(p, E)).log()
    B = B + k * u * (D + B)
    return B + u * (abs(value) + B)


def weight_divided(n, u, w, p, E, j):
    return (1 + E[j]) / remaining(p, E) * (grow(u, 2 * n) * grow(w, 1)) - 1


def weight_of_lse(u, e, w, a, b, above):
    """The error relative to the weight; `above` is log sum exp less the logit."""
    return (a + b + 2 * u * (above + a + b)).exp() * (grow(e * u, 1) * grow(w, 1)) - 1


def logit_gradient_error(u, w, p, rho, eps, eta, ds):
    K = (1 + rho) * (grow(u, 2) * grow(w, 3))
    return K * p * (eps + eta) + (K - 1) * abs(ds)


def larger(s, a):
    """How many other keys' computed logits may exceed key j's: no shift changes more often after it, in any order.

    Each new shift is the computed logit of another key, above all that came before.
    """
    low, high = ([float(x + sign * y) for x, y in zip(s, a, strict=True)] for sign in (-1, 1))
    ordered = sorted(high)
    return [len(s) - bisect_right(ordered, x) - (y > x) for x, y in zip(low, high, strict=True)]


@dataclass
class Row:
    """All bounds of one row that follow from the theorems, each the worst of the ways to compute it.

    `given` holds lines of the program, which take the place of those that follow: a theorem is then asked for what the
    program has before it. `certain`: whether anything is left of the row sum for sure, as all theorems on weights ask.
    """

    q: list
    k: list  # of keys
    v: list
    do: list
    scale: arb
    u: arb
    e: int
    w: arb
    h: arb
    given: dict = field(default_factory=dict)

    def __post_init__(self):
        n, m, u, w, e = len(self.k), len(self.q), self.u, self.w, self.e
        self.lines = {}
        self.s = [self.scale * sum((x * y for x, y in zip(self.q, key, strict=True))) for key in self.k]
        fold = [(grow(u, 1) - 1) * abs(x) for x in self.q]  # the scale and log2(e), folded into q
        self.a = self.line("a", [gradient_error(m, u, self.h, w, 3, 0, self.scale, self.q, fold, y) for y in self.k])
        self.amax, self.top, self.p = max(self.a), max(self.s), prob(self.s)
        changes = larger(self.s, self.a)
        self.E = self.line("E", exponent(u, e, self.top, self.amax, self.s, self.a, changes))
        self.o = [sum((x * y[c] for x, y in zip(self.p, self.v, strict=True))) for c in range(len(self.do))]
        self.certain = remaining(self.p, self.E) > 0
        if not self.certain:
            return
        total = lse(self.s)
        self.above = [total - x for x in self.s]
        # L for the computed logits: a = 0, all distances larger by what the logits are off
        logits = [x.exp() - 1 for x in self.a]
        path = exponent(u, e, self.top + 2 * self.amax, arb(0), self.s, [arb(0)] * n, changes)
        reach = min(self.above) + 2 * self.amax
        self.b = lse_error(n, u, 4, reach, grown(self.p, logits), path, abs(total) + self.amax)
        (b_anew,) = self.lines["lse"] = [lse_error(n, u, 4, reach - self.amax, self.p, self.E, total)]
        self.o_error = self.line("o", [self.output(c) for c in range(len(self.do))])
        ways = [[weight_divided(n, u, w, self.p, self.E, j) for j in range(n)]]
        if n > 1:  # the weight of one key is exp(0), whichever way
            rows = zip(self.a, self.above, strict=True)
            ways.append([weight_of_lse(u, e, w, a, b_anew, above) for a, above in rows])
        self.rho = self.line("rho", [max(x) for x in zip(*ways, strict=True)])

    def line(self, name, theorem):
        """Keep what the theorem allows; go on with what is given."""
        self.lines[name] = theorem
        return [arb(float(x)) for x in self.given[name]] if name in self.given else theorem

    def ways(self):
        """Weights divided first, and exp(s - L): errors of the exponentials, of each term, and of all."""
        n, u, w = len(self.p), self.u, self.w
        yield self.E, [grow(u, n + 2) * grow(w, 1) - 1] * n, grow(u, 2 * (n - 1))
        if n > 1:
            rows = zip(self.above, self.a, strict=True)
            reach = [(2 * u * (x + y + self.amax + self.b)).exp() for x, y in rows]
            own = [x * grow(self.e * u, 1) * grow(u, n) * grow(w, 1) - 1 for x in reach]
            yield [x.exp() - 1 for x in self.a], own, self.b.exp()

    def output(self, column):
        """output_error, output_divided_first, output_of_lse."""
        n, u, w, p, o = len(self.p), self.u, self.w, self.p, self.o[column]
        v = [x[column] for x in self.v]
        last = self.E, [grow(u, 2 * n - 1) * grow(w, 1) - 1] * n, grow(u, 2 * n)
        return max(output_bound(p, E, v, c, G * grow(w, 2), o) for E, c, G in (last, *self.ways()))

    def mean(self, dp, dp_error, mean, E, own, G):
        """mean_of_terms."""
        moved = sum(g * (1 + c) * x for g, c, x in zip(grown(self.p, E), own, dp_error, strict=True))
        return output_bound(self.p, E, dp, own, G, mean) + G * moved

    def logit_gradients(self):
        """The gradient by each logit, and how far it may be off."""
        mv, u, w = len(self.do), self.u, self.w
        dp = [sum((x * y for x, y in zip(self.do, value, strict=True))) for value in self.v]
        over = [(grow(w, 1) - 1) * abs(x) for x in self.do]  # dO / row sum, stored
        eps = [gradient_error(mv, u, self.h, w, 0, 1, arb(1), self.do, over, value) for value in self.v]
        eps = self.line("eps", eps)
        mean = sum((x * y for x, y in zip(self.p, dp, strict=True)))
        terms = max(self.mean(dp, eps, mean, *way) for way in self.ways())
        product = product_error(mv, u, self.h, self.o, self.o_error, self.do)
        (eta,) = self.line("eta", [max(terms, product)])
        ds = [x * (y - mean) for x, y in zip(self.p, dp, strict=True)]
        rows = zip(self.p, self.rho, eps, ds, strict=True)
        return ds, self.line("ds", [logit_gradient_error(u, w, p, rho, x, eta, y) for p, rho, x, y in rows])

"""The bound that judges is never below what proofs_check/coq/rounding proves, nor far above it."""

import importlib.util
import sys
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.truth.bounds import attention_errors
from attnprune_verify.audit.kernel.truth.forward_errors import maximum_changes
from attnprune_verify.audit.kernel.truth.truth import truth


def beside(name):
    spec = importlib.util.spec_from_file_location(f"kernel_{name}", Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


proved, programs = beside("proved"), beside("programs")

FACTOR = 30.0
"""By how much the program may exceed a theorem: both ways to D and to the weights are added there, not the worse taken,
and logits have 6 u |s|; measured: at most 26 over the 10^4 entries of the thorough profile, where all values are equal.
In float16, whose subnormal weights may be lost, which no theorem covers, it may exceed it by any factor."""


def drawn(rng, dtype):
    """A sample of one head without a mask; sizes, scales and shapes of logits as they come."""
    precision = PRECISIONS[dtype]
    n, length, m, mv = (int(x) for x in rng.integers(1, 6, size=4))
    spread = float(rng.choice([0.1, 1.0, 3.0]))
    q, k, v, do = (
        precision.exact(size * rng.standard_normal((1, 1, *shape)))
        for size, shape in ((spread, (n, m)), (1.0, (length, m)), (1.0, (length, mv)), (1.0, (n, mv)))
    )
    if rng.random() < 0.3:  # logits that rise, one value for all
        k = precision.exact(np.sort(k, axis=2))
        v = np.ones_like(v)
    return KernelSample("drawn", precision, q, k, v, do, scale=float(rng.choice([0.25, 1.0])))


def theorems(sample):
    """What the theorems allow in o, dq, dk and dv of such a sample."""
    with ctx.workprec(128):
        return _theorems(sample, sample.precision)


def _theorems(sample, precision):
    u, w, h = (arb(float(x)) for x in (precision.sums, precision.stored, precision.tiny_sums))
    q, k, v, do = (
        [[arb(float(x)) for x in row] for row in part[0, 0]] for part in (sample.q, sample.k, sample.v, sample.do)
    )
    scale = arb(sample.factor)
    rows = [proved.Row(x, k, v, y, scale, u, int(precision.exp), w, h) for x, y in zip(q, do, strict=True)]
    slopes = [row.logit_gradients() for row in rows]

    def product(x, eps, z, c):
        return proved.gradient_error(len(x), u, h, w, 4, 3, c, x, eps, z)

    dq = [[product(ds, off, [key[c] for key in k], scale) for c in range(len(k[0]))] for ds, off in slopes]
    dk = [
        [
            product([ds[j] for ds, _ in slopes], [off[j] for _, off in slopes], [x[c] for x in q], scale)
            for c in range(len(q[0]))
        ]
        for j in range(len(k))
    ]
    dv = [
        [
            product([r.p[j] for r in rows], [r.p[j] * r.rho[j] for r in rows], [x[c] for x in do], arb(1))
            for c in range(len(do[0]))
        ]
        for j in range(len(k))
    ]
    found = {"o": [row.o_error for row in rows], "dq": dq, "dk": dk, "dv": dv}
    return {name: np.array([[float(x.upper()) for x in row] for row in part]) for name, part in found.items()}


def compare(seed, entries):
    """Smallest quotient of the program's bound and the theorem's, per array, and the largest but for float16."""
    rng, quotients, seen = np.random.default_rng(seed), {}, 0
    while seen < entries:
        sample = drawn(rng, str(rng.choice(list(PRECISIONS))))
        errors = attention_errors(sample).worst
        for name, bound in theorems(sample).items():
            found = errors[name][0, 0] / bound
            least, most = quotients.get(name, (np.inf, 0.0))
            counted = 0.0 if sample.precision.name == "float16" else float(found.max())
            quotients[name] = min(least, float(found.min())), max(most, counted)
            seen += bound.size
    return quotients


def test_the_program_is_never_below_a_theorem():
    for name, (least, most) in compare(0, 2000).items():
        assert 1 <= least and most <= FACTOR, (name, least, most)


@pytest.mark.thorough
def test_nor_on_ten_thousand_entries():
    for name, (least, most) in compare(1, 10_000).items():
        assert 1 <= least and most <= FACTOR, (name, least, most)


def run_programs(seed, count, each=4):
    """The largest error of so many random programs, in units of the bound, by array."""
    rng, worst = np.random.default_rng(seed), dict.fromkeys(("o", "dq", "dk", "dv"), 0.0)
    for _ in range(count // each):
        sample = drawn(rng, str(rng.choice(list(PRECISIONS))))
        true, errors = truth(sample), attention_errors(sample).worst
        for _ in range(each):
            for name, found in programs.Program(rng, sample).run(sample).items():
                off = np.maximum(np.abs(found - true[name].value[0, 0]) - true[name].radius[0, 0], 0.0)
                worst[name] = max(worst[name], float((off / errors[name][0, 0]).max()))
    return worst


def test_random_honest_programs_stay_inside():
    worst = run_programs(0, 300)
    assert max(worst.values()) <= 1 and min(worst.values()) >= 0.05, worst  # and they do err


@pytest.mark.thorough
def test_ten_thousand_do():
    worst = run_programs(1, 10_000)
    assert max(worst.values()) <= 1, worst


def plans(low, high):
    """Every tree over neighbouring keys, as the ranges it joins."""
    if high - low == 1:
        yield (low, high, None, None)
    for middle in range(low + 1, high):
        for left in plans(low, middle):
            for right in plans(middle, high):
                yield (low, high, left, right)


def changes(plan, s, key):
    """How often the running maximum changes after a key's own block."""
    low, high, left, right = plan
    if left is None:
        return 0
    side = left if key < left[1] else right
    return changes(side, s, key) + (max(s[side[0] : side[1]]) != max(s[low:high]))


@pytest.mark.parametrize(
    "values", [(3, 1, 2, 0, 4), (0, 1, 2, 3, 4), (4, 3, 2, 1, 0), (1, 1, 0, 2, 2), (2, 0, 1, 0, 3)]
)
def test_no_order_of_joining_changes_the_maximum_more_often(values):
    s = np.array(values, dtype=float)
    counted = maximum_changes(s)
    most = [max(changes(plan, s, key) for plan in plans(0, 5)) for key in range(5)]
    assert counted.tolist() == most == [proved.records(list(s), key) for key in range(5)]


def test_additions_of_both_sums_count():
    """gamma_{L+8} once is too little: one float32 sum rounded up at every key, the other down."""
    u = np.float32(2.0**-24)
    length = 3000
    logits = np.full(length, np.log(1.02 * 2.0**-24), np.float32)
    logits[0] = 0
    g = np.exp(logits)
    v = np.full(length, 0.97, np.float32)
    v[0] = 1
    total, out = np.float32(0), np.float32(0)
    for weight, value in zip(g, v, strict=True):
        total, out = total + weight, out + weight * value
    s = logits.astype(float)
    p = np.exp(s) / np.exp(s).sum()
    true = float(p @ v.astype(float))
    off = abs(float(out / total) - true)
    one = np.zeros((1, 1, 1, 1)) + 1
    sample = KernelSample(
        "drift",
        PRECISIONS["float32"],
        one,
        s[None, None, :, None],
        v.astype(float)[None, None, :, None],
        one,
        scale=1.0,
    )
    k = length + 8
    assert off > k * u / (1 - k * u) * float(p @ np.abs(v)) + 2 * u + 64 * u  # with 64 units of exp on top
    assert off <= attention_errors(sample).worst["o"].item()


def test_a_maximum_of_a_later_block_counts():
    """Records seen from the ends are too few: 10 | 1 2 3 4, where key 1 meets four further exponentials."""
    s = np.array([10.0, 1, 2, 3, 4])
    seen = [int((np.diff(np.maximum.accumulate(way)) > 0).sum()) for way in (s, s[::-1])]
    steps = [(0, 1), *((1, stop) for stop in range(2, 6)), (0, 5)]
    tops = [max(s[low:high]) for low, high in steps if low <= 1 < high]
    met = sum(a != b for a, b in zip(tops, tops[1:], strict=False))
    assert met == 4 == maximum_changes(s)[1]
    assert max(seen) < met or 1 + 1 < met


UNIT = Fraction(1, 64)


def chained(x, signs, u):
    """A sum from the left, every addition off by a whole u, up or down."""
    total = x[0]
    for term, sign in zip(x[1:], signs, strict=True):
        total = (total + term) * (1 + sign * u)
    return total


def refuted(bound, sizes=(1, 2, 3)):
    """Search a program of products and sums whose error exceeds bound(n, x, z, eps)."""
    for n in sizes:
        for signs in product((-1, 1), repeat=2 * n - 1):
            for eps in (Fraction(0), Fraction(1, 8)):
                x, z = [Fraction(1)] * n, [Fraction(1, 2)] * n
                made = [(a + eps) * b * (1 + s * UNIT) for a, b, s in zip(x, z, signs, strict=False)]
                off = abs(chained(made, signs[n:], UNIT) - sum(a * b for a, b in zip(x, z, strict=True)))
                if off > bound(n, UNIT, x, [eps] * n, z):
                    return True
    return False


def test_the_theorem_on_products_and_statements_a_little_stronger():
    def theorem(n, u, x, eps, z):
        return proved.product_error(n, u, 0, x, eps, z)

    assert not refuted(theorem)
    assert refuted(lambda n, u, x, eps, z: theorem(n, u / 2, x, eps, z))
    assert refuted(lambda n, u, x, eps, z: theorem(n, u, x, [0] * n, z))
    assert refuted(lambda n, u, x, eps, z: theorem(n, u, x, eps, z) - (proved.grow(u, 1) - 1) * sum(map(abs, z)))
    assert refuted(lambda n, u, x, eps, z: n * u * sum((a + e) * b for a, e, b in zip(x, eps, z, strict=True)))


def row_refuted(bound):
    """Search a row of two keys whose computed output is off by more than bound(p, E, v, c, G, o)."""
    u, w, e = arb(2) ** -6, arb(2) ** -4, 2
    s, v = [arb(0), arb(-1)], None
    for v in ([arb(1), arb(1)], [arb(1), arb(-1)], [arb(1), arb(0)]):
        for exp0, exp1, *rest in product((-1, 1), repeat=9):
            p = proved.prob(s)
            o = p[0] * v[0] + p[1] * v[1]
            g = [s[0].exp(), s[1].exp() * (1 + exp1 * e * u)]
            own = [x * (1 + t * w) * y * (1 + t * u) for x, y, t in zip(g, v, rest[:2], strict=True)]
            A, total = (own[0] + own[1]) * (1 + rest[2] * u), (g[0] + g[1]) * (1 + rest[3] * u)
            y = A / total * (1 + rest[4] * u) * (1 + rest[5] * w) * (1 + exp0 * w)
            E = proved.exponent(u, e, arb(0), arb(0), s, [arb(0)] * 2, [0, 0])
            c = [proved.grow(u, 3) * proved.grow(w, 1) - 1] * 2
            if abs(y - o) > bound(p, E, v, c, proved.grow(u, 4) * proved.grow(w, 2), o):
                return True
    return False


def test_the_theorem_on_outputs_and_statements_a_little_stronger():
    theorem = proved.output_bound
    assert not row_refuted(theorem)
    none = [arb(0)] * 2
    assert row_refuted(lambda p, E, v, c, G, o: theorem(p, E, v, none, G, o))
    assert row_refuted(lambda p, E, v, c, G, o: theorem(p, E, v, c, arb(1), o))
    assert row_refuted(lambda p, E, v, c, G, o: theorem(p, E, v, [x / 2 for x in c], 1 + (G - 1) / 2, o))


def test_the_theorem_on_the_logits_gradient_and_statements_a_little_stronger():
    u, w = Fraction(1, 64), Fraction(1, 16)
    p, rho, dp, eps, mean, eta = (Fraction(x) for x in ("1/2", "1/8", "1", "1/8", "-1", "1/8"))

    def off(sign):
        x = (dp + sign * eps - (mean - sign * eta)) * (1 + sign * u) * (1 + sign * w)
        return abs(p * (1 + sign * rho) * x * (1 + sign * u) * (1 + sign * w) ** 2 - p * (dp - mean))

    def theorem(u=u, w=w, rho=rho, eps=eps, eta=eta):
        return proved.logit_gradient_error(u, w, p, rho, eps, eta, p * (dp - mean))

    most = max(off(1), off(-1))
    assert most <= theorem()
    for weaker in (theorem(u=0), theorem(w=w / 2), theorem(rho=rho / 2), theorem(eps=0), theorem(eta=eta / 2)):
        assert most > weaker


def test_the_theorem_on_weights_of_log_sum_exp_and_statements_a_little_stronger():
    u, e, w, a, b, above = arb(2) ** -8, 4, arb(2) ** -4, arb(1) / 8, arb(1) / 8, arb(2)

    def off(sign):
        difference = (-above + sign * a + sign * b) * (1 - 2 * sign * u)
        return abs((difference + above).exp() * (1 + sign * e * u) * (1 + sign * w) - 1)

    most = max(off(1), off(-1))
    assert most <= proved.weight_of_lse(u, e, w, a, b, above)
    for weaker in (
        (u, e, w, 0 * a, b, above),
        (u, e, w, a, 0 * b, above),
        (u, e, 0 * w, a, b, above),
        (u / 4, e, w / 2, a, b, above),
    ):
        assert most > proved.weight_of_lse(*weaker)

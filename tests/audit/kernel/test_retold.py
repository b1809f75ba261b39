"""The retelling of the theorems on rounding is what Trusted.v says: both sides are evaluated at the same numbers."""

import numpy as np
import pytest
from flint import arb, ctx

from proofs_check.coq.pinned import statement_text
from tests.audit.kernel.test_proved import proved
from tests.claims.coq_expressions import TRUSTED, right_side, value

SENTENCES = TRUSTED.read_text("utf-8")
UNITS = {"u": arb(2) ** -12, "w": arb(2) ** -9, "h": arb(2) ** -20, "e": 4}
"""Chosen: coarse, so that a further rounding shows."""


NOTHING = {**dict.fromkeys(("h", "hx", "hw", "tau"), 0 * UNITS["u"]), "eps": lambda j: 0}
"""The retelling has no shift that lags, no underflow in a row, and values as they are."""


def sentence(theorem):
    return statement_text(SENTENCES, f"Rounding.Statement.{theorem}")


def vector(entries):
    return lambda j: entries[j]


def numbers(rng, *shape):
    return [numbers(rng, *shape[1:]) for _ in range(shape[0])] if shape else arb(float(rng.standard_normal()))


@pytest.fixture(autouse=True)
def precise():
    with ctx.workprec(128):
        yield


@pytest.fixture(params=range(3))
def row(request, precise):
    """A row of four keys of three features, two values each."""
    rng = np.random.default_rng(request.param)
    parts = (numbers(rng, *shape) for shape in ((3,), (4, 3), (4, 2), (2,)))
    return proved.Row(*parts, arb(1) / 2, *map(UNITS.get, "uewh"))


def letters(row, **more):
    """What the theorems on a row call its parts."""
    vectors = {"s": row.s, "a": row.a, "count": proved.larger(row.s, row.a), "p": row.p}
    return {
        **UNITS,
        **NOTHING,
        "n": len(row.s),
        "amax": row.amax,
        "top": row.top,
        **{x: vector(y) for x, y in vectors.items()},
        **more,
    }


def agree(found, expected):
    assert abs(found - expected) <= arb(2) ** -90 * abs(expected), (found, expected)


def test_sums_and_products():
    rng = np.random.default_rng(5)
    x, z, eps = numbers(rng, 4), numbers(rng, 4), [abs(t) for t in numbers(rng, 4)]
    u, w, h = map(UNITS.get, "uwh")
    at = {**UNITS, "n": 4, "x": vector(x), "z": vector(z), "eps": vector(eps), "j": 2, "k": 3, "c": arb(5)}
    agree(proved.sum_error(4, u, h, x), right_side(sentence("sum_error"), at))
    agree(proved.product_error(4, u, h, x, eps, z), right_side(sentence("product_error"), at))
    agree(proved.gradient_error(4, u, h, w, 2, 3, arb(5), x, eps, z), right_side(sentence("gradient_error"), at))
    at = {**UNITS, "p": x[0], "rho": eps[0], "eps": eps[1], "eta": eps[2], "dp": z[0], "D": z[1]}
    found = proved.logit_gradient_error(u, w, x[0], *eps[:3], x[0] * (z[0] - z[1]))
    agree(found, right_side(sentence("logit_gradient_error"), at))


def test_the_output_is_the_worst_of_three_theorems(row):
    above = [
        -(x + y + row.amax) for x, y in zip(row.above, row.a, strict=True)
    ]  # computed logits below their log sum exp
    anew = {"lse": lambda n: lambda s: arb(0), "sh": vector(above), "b": row.b}
    for column, found in enumerate(row.o_error):
        v, o = [x[column] for x in row.v], row.o[column]
        at = letters(row, v=vector(v), output=lambda n, o=o: lambda s: lambda v: o)
        ways = [right_side(sentence(x), at) for x in ("output_error", "output_divided_first")]
        ways.append(right_side(sentence("output_of_lse"), {**at, **anew}))
        agree(found, max(ways))
        for (E, own, G), proved_way in zip(row.ways(), ways[1:], strict=True):
            agree(proved.output_bound(row.p, E, v, own, G * proved.grow(UNITS["w"], 2), o), proved_way)


def test_weights_and_log_sum_exp(row):
    agree(row.lines["lse"][0], right_side(sentence("lse_error"), letters(row, k=4)))
    for j, rho in enumerate(row.rho):
        ways = [
            right_side(sentence("weight_divided"), letters(row, j=j)),
            right_side(sentence("weight_of_lse"), letters(row, j=j, a=row.a[j], b=row.lines["lse"][0])),
        ]
        agree(rho * row.p[j], max(ways))


def test_the_gradient_of_the_logits(row):
    dp = [sum(x * y for x, y in zip(row.do, v, strict=True)) for v in row.v]
    over = [value("grow w 1 - 1", UNITS) * abs(x) for x in row.do]
    at = {**UNITS, "n": 2, "j": 0, "k": 1, "c": 1, "x": vector(row.do), "eps": vector(over)}
    eps = [right_side(sentence("gradient_error"), {**at, "z": vector(v)}) for v in row.v]
    mean = sum(x * y for x, y in zip(row.p, dp, strict=True))
    at = letters(row, v=vector(dp), eps=vector(eps))
    terms = [
        right_side(
            sentence("mean_of_terms"),
            {**at, "r": lambda j, E=E: (1 + E[j]).log(), "c": lambda j, own=own: (1 + own[j]).log(), "D": G.log()},
        )
        for E, own, G in row.ways()
    ]
    at = {**UNITS, "n": 2, "x": vector(row.o), "eps": vector(row.o_error), "z": vector(row.do)}
    eta = max(*terms, right_side(sentence("product_error"), at))
    ds, found = row.logit_gradients()
    for j in range(len(ds)):
        at = {**UNITS, "p": row.p[j], "rho": row.rho[j], "eps": eps[j], "eta": eta, "dp": dp[j], "D": mean}
        agree(found[j], right_side(sentence("logit_gradient_error"), at))


def test_what_lagging_shifts_and_underflow_add(row):
    """Written out from what docs/kernels.md says: S of the way, (1 + R) hx + hw of a weight, h of 3n products."""
    n, (u, w, e), changes = len(row.s), map(UNITS.get, "uwe"), proved.larger(row.s, row.a)
    tau, hx, h, hw, eps = arb(1) / 4, arb(2) ** -30, arb(2) ** -33, arb(2) ** -28, [abs(x) / 64 for x in row.s]
    v, o = [x[0] for x in row.v], row.o[0]
    more = {"tau": tau, "hx": hx, "h": h, "hw": hw, "eps": vector(eps), "v": vector(v), "k": 4}
    at = letters(row, output=lambda n: lambda s: lambda v: o, **more)
    E = [(x + 1) * (4 * u * tau).exp() - 1 for x in row.E]
    kept = proved.remaining(row.p, E)
    way = ((1 + 2 * u) * tau).exp() * ((1 + u) ** 2 * (1 + e * u + hx)) ** n
    of_sum = way * (sum((1 + r) * hx for r in changes) + 3 * n * h)
    sizes = [abs(x) + y for x, y in zip(v, eps, strict=True)]
    rows = zip(changes, sizes, strict=True)
    of_output = way * (1 + w) * (sum(((1 + r) * hx + hw) * x for r, x in rows) + 3 * n * h)
    inverse = proved.grow(u, 2 * (n - 1)) * (row.top + row.amax - proved.lse(row.s)).exp() / kept
    left = 1 - of_sum * inverse
    C, G = proved.grow(u, 2 * n - 1) * proved.grow(w, 1), proved.grow(u, 2 * n) * proved.grow(w, 2) / left
    bound = proved.output_bound(row.p, E, v, [C - 1] * n, G, o)
    bound += G * C * sum(x * y for x, y in zip(proved.grown(row.p, E), eps, strict=True))
    bound += (1 + w) ** 2 * ((1 + u) ** 2 * of_output * inverse / left + h) + (2 + w) * hw
    agree(bound, right_side(sentence("output_error"), at))
    total, value = (proved.grow(u, 2 * (n - 1)) / kept / left).log(), abs(proved.lse(row.s))
    total += 4 * u * (proved.lse(row.s) - row.top + row.amax + tau + total)
    agree(total + u * (value + total), right_side(sentence("lse_error"), at))

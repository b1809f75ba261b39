"""fac:abs_inequality: sqrt(a^2 + b^2) >= (|a| + |b|)/sqrt(2),
and sqrt(|a| - |b|) >= sqrt|a| - sqrt|b| for |a| > |b|, as formulas.
"""

import sympy as sp

from proofs_check.steps.record import Step, step

LABEL = "fac:abs_inequality"
FAILING: tuple[str, ...] = ()


def steps() -> list[Step]:
    """a, b >= 0 stand for |a|, |b|; in part 2 a = s^2, b = t^2 with s > t >= 0."""
    a, b, s, t = sp.symbols("a b s t", nonnegative=True)
    first = a**2 + b**2 - (a**2 + 2 * a * b + b**2) / 2
    second = (s**2 - t**2) - (s**2 + t**2 - 2 * s * t)
    above = [(p, q) for p in range(5) for q in range(p)]
    return [
        step(
            "part 1, squares",
            "((|a|+|b|)/sqrt 2)^2 = (a^2 + 2|a||b| + b^2)/2",
            [("formula", sp.expand(((a + b) / sp.sqrt(2)) ** 2 - (a**2 + 2 * a * b + b**2) / 2) == 0)],
        ),
        step(
            "part 1, difference",
            "LHS - RHS = (|a| - |b|)^2 / 2 >= 0",
            [("formula", sp.expand(first - (a - b) ** 2 / 2) == 0)],
        ),
        step(
            "part 2, squares",
            "(sqrt|a| - sqrt|b|)^2 = |a| + |b| - 2 sqrt(|a||b|)",
            [("formula", sp.expand((s - t) ** 2 - (s**2 + t**2 - 2 * s * t)) == 0)],
        ),
        step(
            "part 2, difference",
            "LHS - RHS = 2 sqrt|b| (sqrt|a| - sqrt|b|)",
            [("formula", sp.expand(second - 2 * t * (s - t)) == 0)],
        ),
        step(
            "part 2, sign",
            "2 sqrt|b| (sqrt|a| - sqrt|b|) >= 0 for |a| > |b|",
            ((pair, 2 * pair[1] * (pair[0] - pair[1]) >= 0) for pair in above),
        ),
    ]

"""Each theorem of proofs_check/coq/rounding that bounds a result, and statements a little stronger, which are refuted.

One program per theorem whose roundings all go the way that hurts: its error is below the theorem and above the theorem
with any one cause left out. Units are small, so that products of two of them are below each.
"""

import importlib.util
from pathlib import Path

import pytest
from flint import arb

SPEC = importlib.util.spec_from_file_location("kernel_proved_again", Path(__file__).with_name("proved.py"))
proved = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(proved)

U, E, W, A, B, K = arb(2) ** -12, 8, arb(2) ** -8, arb(2) ** -9, arb(2) ** -9, 5
"""Units of sums, of exp (in U) and of storage; errors of logits and of log sum exp; units of log."""
NONE = arb(0)
DEFAULTS = {"u": U, "e": E, "w": W, "a": A, "b": B, "k": K}
SHIFT = arb(1)
"""Above both logits, which are 0: no exponential is exact."""


def exponential(distance, up):
    """Of minus a distance, off by all that is allowed: the difference by 2 u of itself, exp by e u."""
    return (-distance * (1 - up * 2 * U)).exp() * (1 + up * E * U)


def gradient(sign):
    made = (1 + sign * A) * arb("0.5") * (1 + sign * U) * 3 * (1 + sign * U) * (1 + sign * W)
    return made - arb("1.5")


def gradient_bound(u, w, a, **_):
    return proved.gradient_error(1, u, NONE, w, 1, 1, arb(3), [arb(1)], [a], [arb("0.5")])


def row_sum(key_0, key_1, up):
    """Both keys weighed at half the shift, brought to all of it, and added."""
    keys = [(exponential(SHIFT / 2, x) ** 2) * (1 + up * U) for x in (key_0, key_1)]
    return (keys[0] + keys[1]) * (1 + up * U)


def log_sum_exp(sign):
    total = row_sum(sign, sign, sign).log()
    return (SHIFT + total + sign * K * U * abs(total)) * (1 + sign * U) - arb(2).log()


def log_sum_exp_bound(u, e, k, **_):
    value = arb(2).log()
    found = proved.exponent(u, e, SHIFT, NONE, [NONE] * 2, [NONE] * 2, [1, 1])
    return proved.lse_error(2, u, k, abs(value - SHIFT), [arb("0.5")] * 2, found, value)


def weight_divided(sign):
    """The numerator one way, the row sum (no change of the shift, one addition) the other."""
    keys = [exponential(SHIFT, -sign)] * 2
    total = (keys[0] + keys[1]) * (1 - sign * U)
    return exponential(SHIFT, sign) / total * (1 + sign * U) ** 2 * (1 + sign * W) - arb("0.5")


def weight_divided_bound(u, e, w, **_):
    found = proved.exponent(u, e, SHIFT, NONE, [NONE] * 2, [NONE] * 2, [0, 0])
    return arb("0.5") * proved.weight_divided(2, u, w, [arb("0.5")] * 2, found, 0)


def divided_first(sign):
    """v = (1, 0): the weight of key 0 too large, that of key 1 too small, their sum too small."""
    total = row_sum(sign, -sign, -sign)
    q = exponential(SHIFT / 2, sign) ** 2 / total * (1 + sign * U) ** 2 * (1 + sign * W)
    return q * (1 + sign * U) ** 2 * (1 + sign * W) ** 2 - arb("0.5")


def divided_first_bound(u, e, w, **_):
    p = [arb("0.5")] * 2
    found = proved.exponent(u, e, SHIFT, NONE, [NONE] * 2, [NONE] * 2, [1, 1])
    own = [proved.grow(u, 4) * proved.grow(w, 1) - 1] * 2
    return proved.output_bound(p, found, [arb(1), NONE], own, proved.grow(u, 2) * proved.grow(w, 2), arb("0.5"))


def of_lse(sign):
    """Logits off by A, the one up and the other down; log sum exp off by B."""
    logits = [sign * A, -sign * A]
    L = sum(x.exp() for x in logits).log() - sign * B
    q = exponential(L - logits[0], sign) * (1 + sign * W)
    return q * (1 + sign * U) ** 2 * (1 + sign * W) ** 2 - arb("0.5")


def of_lse_bound(u, e, w, a, b, **_):
    p, logits = [arb("0.5")] * 2, [A, -A]
    above = [proved.lse(logits) - x for x in logits]
    own = [(2 * u * (x + b)).exp() * proved.grow(e * u, 1) * proved.grow(u, 2) * proved.grow(w, 1) - 1 for x in above]
    return proved.output_bound(p, [a.exp() - 1] * 2, [arb(1), NONE], own, b.exp() * proved.grow(w, 2), arb("0.5"))


def mean_of_terms(sign):
    """t = (A, -A), tau = W, d = B, and values off by U: as of D from its terms."""
    weights = [arb("0.5") * (sign * t).exp() for t in (A, -A)]
    total = sum(weights)
    values = [1 + sign * U, sign * U]
    terms = (x / total * (sign * W).exp() * v for x, v in zip(weights, values, strict=True))
    return (sign * B).exp() * sum(terms) - arb("0.5")


def mean_of_terms_bound(u, w, a, b, **_):
    p, found = [arb("0.5")] * 2, [a.exp() - 1] * 2
    own = [w.exp() - 1] * 2
    moved = sum(g * w.exp() * u for g in proved.grown(p, found))
    return proved.output_bound(p, found, [arb(1), NONE], own, b.exp(), arb("0.5")) + b.exp() * moved


CASES = {
    "gradient_error": (gradient, gradient_bound, "u w a"),
    "lse_error": (log_sum_exp, log_sum_exp_bound, "u e k"),
    "weight_divided": (weight_divided, weight_divided_bound, "u e w"),
    "output_divided_first": (divided_first, divided_first_bound, "u e w"),
    "output_of_lse": (of_lse, of_lse_bound, "u e w a b"),
    "mean_of_terms": (mean_of_terms, mean_of_terms_bound, "u w a b"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_program_is_inside_the_theorem(name):
    program, bound, _ = CASES[name]
    assert all(abs(program(sign)) <= bound(**DEFAULTS) for sign in (1, -1))


@pytest.mark.parametrize(
    ("name", "cause"), [(name, cause) for name, (_, _, causes) in CASES.items() for cause in causes.split()]
)
@pytest.mark.parametrize("share", [0, "0.8"])
def test_with_less_of_any_one_cause_it_is_refuted(name, cause, share):
    program, bound, _ = CASES[name]
    weaker = {**DEFAULTS, cause: DEFAULTS[cause] * arb(share)}
    if cause == "u":  # exp and log count in u: they keep their units
        weaker |= (
            {"e": E * U / weaker["u"], "k": K * U / weaker["u"]} if share else {"u": U / 8, "e": 8 * E, "k": 8 * K}
        )
    assert max(abs(program(sign)) for sign in (1, -1)) > bound(**weaker)

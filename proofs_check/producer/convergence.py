"""Certificates for thm:our_convergence (refuted from M_0 = 0 and from M_0 = 1) and for its corrected form on the
same instances.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, enclosure, word, words
from proofs_check.producer.setting import Setting, floor_of_attention, point, start

BITS = 256  # bits; chosen: twice the checkers' first precision


def from_zeros() -> Setting:
    """X = I, W = (1/10)[[1, -1], [-1, 1]]: the paper's mu is 20 times too large, so its T is 20 times too small."""
    s = Q(1, 10)
    lam, epsilon = Q(1, 10**10), Q(124, 10**5)
    W = [[s, -s], [-s, s]]
    return Setting("zeros", [1, 1], b.identity(2), W, lam, Q(1), Q(45, 100), epsilon, Q(3, 2))


def from_ones() -> Setting:
    """Two tokens, a million features: x_1 = 1/1000 everywhere, x_2 = 1/1000 on one half and -1/1000 on the other;
    W = 1e-6 everywhere.
    """
    half, x, w = 500_000, Q(1, 1000), Q(1, 10**6)
    lam, delta, epsilon = Q(2, 10**10), Q(19, 100), Q(1, 1000)
    return Setting("ones", [half, half], [[x, x], [x, -x]], [[w, w], [w, w]], lam, Q(1), delta, epsilon, Q(3, 2))


def causal_from_zeros() -> Setting:
    """The instance under the causal mask: only the second row of F depends on M, and the loss is half as large."""
    plain = from_zeros()
    return replace(plain, epsilon=plain.epsilon / 2, mask="causal")


def causal_from_ones() -> Setting:
    """The instance with the tokens exchanged, so that the token with equal features attends to both."""
    plain = from_ones()
    return replace(plain, B=plain.B[::-1], mask="causal")


def hypotheses(setting: Setting, min_f: arb) -> Document:
    return {"psd_pivots": words(pivots(setting)), "delta_le_min_f": enclosure(min_f)}


def pivots(setting: Setting) -> list[Fraction]:
    """n <= 2 here."""
    A = setting.gram()
    first, last = A[0][0] - setting.beta, A[1][1] - setting.beta
    return [first, last - A[0][1] ** 2 / first if first else last]


def refute_zeros(setting: Setting) -> Document:
    now = point(setting, start(setting))
    loss = now.c_sq / 2
    n_sq = setting.n**2
    eta_t = 4 * loss / (ball(setting.mu(False) * setting.epsilon) * n_sq)
    slope = ball(max(setting.weights) * setting.spectral() / 2)
    G = slope * (2 * loss).sqrt() + (2 * ball(setting.lam) * loss).sqrt()
    radius = eta_t * G
    left = (loss - eta_t * G * G * 3 / 2 - ball(setting.lam) * radius * radius / 2) / n_sq
    right = setting.threshold(False)
    if not left > right:
        raise ArithmeticError("not a refutation")
    quantities = {"loss": loss, "eta_T": eta_t, "G": G, "lhs": left, "rhs": right}
    return certificate(
        "thm:our_convergence",
        "refutation",
        setting.reading(squared=False),
        setting.inputs(),
        hypotheses(setting, floor_of_attention(setting, radius)),
        {name: enclosure(value) for name, value in quantities.items()},
        "lhs>rhs",
        BITS,
    )


def refute_ones(setting: Setting) -> Document:
    """The infimum over tau of (sigma(tau) - sigma(tau_0))^2 + weight tau^2, found by ternary search and enclosed
    with a margin.
    """
    row = 0 if setting.mask == "full" else 1
    p, q = setting.B
    V = [
        [w * x * (a - c) for w, a, c in zip(ws, p, q, strict=True)]
        for ws, x in zip(setting.W, setting.B[row], strict=True)
    ]
    pairs = [(s * t, v) for s, vs in zip(setting.sizes, V, strict=True) for t, v in zip(setting.sizes, vs, strict=True)]
    weight = setting.lam**2 / (setting.mu(False) * sum(k * v * v for k, v in pairs))
    dense = sum(k * v for k, v in pairs)

    def h(tau: Fraction) -> arb:
        gap = 1 / (1 + ball(-tau).exp()) - 1 / (1 + ball(-dense).exp())
        return gap * gap + ball(weight * tau * tau)

    tau = min((Q(k, 1000) for k in range(-1000, 1001)), key=lambda t: float(h(t)))
    best = Q(int(float(h(tau)) * 10**9), 10**9)
    lhs = [best * Q(98, 100) / setting.n**2, (best + Q(1, 10**8)) / setting.n**2]
    right = setting.threshold(False)
    if not ball(lhs[0]) > right:
        raise ArithmeticError("not a refutation")
    return certificate(
        "thm:our_convergence",
        "refutation",
        setting.reading(squared=False),
        setting.inputs() | {"row": row, "tau": word(tau)},
        hypotheses(setting, floor_of_attention(setting, arb(setting.d))),
        {"lhs": words(lhs), "rhs": enclosure(right)},
        "lhs>rhs",
        BITS,
    )


def confirm(setting: Setting) -> Document:
    """Descend with eta = 0.9 / K until the guarantee of the corrected mu holds."""
    lipschitz = setting.lam + Q(5, 4) * max(setting.weights) ** 2 * setting.spectral() ** 2
    eta = Q(int(Q(9, 10) / lipschitz * 1000), 1000)
    mu, n_sq, right = setting.mu(True), setting.n**2, setting.threshold(True)
    now = point(setting, start(setting))
    loss = now.c_sq / 2 + ball(setting.lam) * now.norm_sq / 2
    T = 4 * loss / (ball(eta * mu * setting.epsilon) * n_sq)
    t, left, seen = _first_good(setting, eta, mu, right)
    if not T > t:
        raise ArithmeticError("the iterate comes after T")
    return certificate(
        "fix:our_convergence",
        "confirmation",
        setting.reading(squared=True),
        setting.inputs() | {"eta": word(eta), "t": t},
        hypotheses(setting, b.least(seen)),
        {"T": enclosure(T), "lhs": enclosure(left), "rhs": enclosure(right)},
        "lhs<=rhs",
        BITS,
    )


def _first_good(setting: Setting, eta: Fraction, mu: Fraction, right: arb) -> tuple[int, arb, list[arb]]:
    """The first t whose iterate satisfies the guarantee, its left side, and all entries of F met on the way."""
    M, seen = start(setting), []
    for t in range(400):
        now = point(setting, M)
        seen.append(setting.least(now.F))
        left = (now.c_sq / 2 + ball(setting.lam**2 / mu) * now.norm_sq) / setting.n**2
        if left < right:
            return t, left, seen
        M = [[m - ball(eta) * g for m, g in zip(ms, gs, strict=True)] for ms, gs in zip(M, now.gradient, strict=True)]
    raise ArithmeticError("no iterate found")


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        yield "our_convergence-refutation-from-zeros", refute_zeros(from_zeros())
        yield "our_convergence-refutation-from-ones", refute_ones(from_ones())
        yield "our_convergence-refutation-from-zeros-causal", refute_zeros(causal_from_zeros())
        yield "our_convergence-refutation-from-ones-causal", refute_ones(causal_from_ones())
        for zeros, ones, suffix in (
            (from_zeros(), from_ones(), ""),
            (causal_from_zeros(), causal_from_ones(), "-causal"),
        ):
            yield f"our_convergence-confirmation-from-zeros{suffix}", confirm(zeros)
            yield f"our_convergence-confirmation-from-ones{suffix}", confirm(ones)

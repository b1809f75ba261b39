"""Certificates for the remark, the informal theorem, the pseudocode, the box exit, misprints and prose claims."""

from collections.abc import Iterator
from fractions import Fraction
from math import floor
from typing import Any

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, balls, enclosure, table, word, words
from proofs_check.producer.setting import Setting, point, start

BITS = 256  # bits; chosen: twice the checkers' first precision
Documents = Iterator[tuple[str, Document]]


def documents() -> Documents:
    with b.precision(BITS):
        yield from _remark()
        yield "our_convergence_informal-refutation", _informal()
    with b.precision(2 * BITS):
        yield "mask_stays_in_box-refutation", _box_exit()
    yield from _thresholding()


def _remark() -> Documents:
    eye, ones, zeros = b.identity(2), [[Q(1)] * 2] * 2, [[Q(0)] * 2] * 2
    big = [[1000 * entry for entry in row] for row in eye]
    smallest_double = Q(1, 2**1074)
    out = [[-1000 * entry for entry in row] for row in eye]
    yield "practical-refutation-underflow", _no_delta(eye, big, ones, "full", "box", smallest_double)
    yield "practical-refutation-all-M", _no_delta(eye, eye, out, "full", "all M", smallest_double)
    yield "practical-refutation-causal", _no_delta(eye, eye, zeros, "causal", "box", smallest_double)
    X, v = [[Q(1), Q(0)], [Q(0), Q(1)], [Q(1), Q(1)]], [Q(1), Q(1), Q(-1)]
    yield (
        "practical-refutation-beta",
        certificate(
            "rem:practical",
            "refutation",
            {"assumption": "beta"},
            {"n": 3, "d": 2, "X": table(X), "v": words(v)},
            {},
            {"lhs": words([0, 0]), "rhs": words([3, 3])},
            "lhs<rhs",
        ),
    )


def _no_delta(X: Any, W: Any, M: Any, mask: str, domain: str, delta: Fraction) -> Document:
    n = len(X)
    allowed = b.causal(n) if mask == "causal" else b.full(n)
    with b.precision(4096):
        F = b.attention(balls(X), b.hadamard(balls(M), balls(W)), allowed)
        least = enclosure(b.least([f for row in F for f in row]))
    return certificate(
        "rem:practical",
        "refutation",
        {"assumption": "delta", "mask": mask, "domain": domain},
        {"n": n, "d": len(W), "X": table(X), "W": table(W), "M": table(M), "delta": word(delta)},
        {},
        {"lhs": least, "rhs": words([delta, delta])},
        "lhs<rhs",
        4096,
    )


def _informal() -> Document:
    n, lam, epsilon, delta, R = 2, Q(1), Q(1, 100), Q(19, 100), Q(3, 2)
    front = lam / (delta * epsilon * n**2)
    return certificate(
        "thm:our_convergence:informal",
        "refutation",
        {"start": "ones", "time": "iterations"},
        {"n": n, "lambda": word(lam), "epsilon": word(epsilon), "delta": word(delta), "R": word(R)},
        {},
        {
            "cubic": words([front * lam, front * lam]),
            "lhs": enclosure(ball(front * 30 * n**3 * R**6) * arb(n).sqrt()),
            "rhs": words([0, 0]),
        },
        "lhs>rhs",
        BITS,
    )


def _box_exit() -> Document:
    """X = (1/5)[[-2, -3], [4, 4]], W = (1/5)[[7, -9], [-7, -3]], lambda = 1/5, eta = 0.99/K:
    the first t with a negative entry.
    """
    X = [[Q(-2, 5), Q(-3, 5)], [Q(4, 5), Q(4, 5)]]
    W = [[Q(7, 5), Q(-9, 5)], [Q(-7, 5), Q(-3, 5)]]
    lam = Q(1, 5)
    setting = Setting("ones", [1, 1], X, W, lam, Q(0), Q(0), Q(1), Q(1))
    K = lam + Q(5, 4) * max(setting.weights) ** 2 * setting.spectral() ** 2
    eta = Q(floor(Q(99, 100) / K * 1000), 1000)
    t, M, least = _first_negative(setting, eta)
    inputs = {"n": 2, "d": 2, "X": table(X), "W": table(W), "lambda": word(lam), "eta": word(eta), "t": t}
    return certificate(
        "exp:mask_stays_in_box",
        "refutation",
        {"mask": "full", "start": "ones"},
        inputs,
        {},
        {"norm_sq": enclosure(b.norm_sq(M)), "lhs": enclosure(least), "rhs": words([0, 0])},
        "lhs<rhs",
        2 * BITS,
    )


def _first_negative(setting: Setting, eta: Fraction) -> tuple[int, b.Balls, arb]:
    """Step, iterate and smallest entry at the first exit from the box."""
    M = start(setting)
    for t in range(1, 2001):
        gradient = point(setting, M).gradient
        M = [[m - ball(eta) * g for m, g in zip(ms, gs, strict=True)] for ms, gs in zip(M, gradient, strict=True)]
        least = b.least([entry for row in M for entry in row])
        if least < 0:
            return t, M, least
    raise ArithmeticError("no exit from the box found")


def _thresholding() -> Documents:
    distinct = [[Q(7 * (4 * i + j) % 17, 17) for j in range(4)] for i in range(4)]
    ratios = [Q(k, 4) for k in range(5)]
    wanted = [floor(rho * 16) for rho in ratios]
    entries = sorted(entry for row in distinct for entry in row)
    for order in ("ascending", "descending"):
        ordered = entries if order == "ascending" else entries[::-1]
        for base in (0, 1):
            if (order, base) == ("ascending", 1):
                continue  # with distinct entries that reading fails at rho = 0 alone; ties refute it, below
            zeros: list[Any] = []
            for k in wanted:
                inside = 0 <= k - base < 16
                zeros.append(sum(entry <= ordered[k - base] for entry in entries) if inside else "out of range")
            reading = {"order": order, "base": str(base)}
            name = f"mask_gd-refutation-{order}-{base}"
            yield name, _pruned("alg:mask_gd", "refutation", reading, distinct, ratios, zeros, wanted)
    constant = [[Q(3, 10)] * 4 for _ in range(4)]
    half = [Q(1, 4), Q(1, 2), Q(3, 4)]
    for base in "01":
        reading = {"order": "ascending", "base": base}
        yield (
            "mask_gd-refutation-constant" + ("-1" if base == "1" else ""),
            _pruned("alg:mask_gd", "refutation", reading, constant, half, [16] * 3, [4, 8, 12]),
        )
    repaired = {"order": "ascending, ties by index"}
    yield (
        "mask_gd-confirmation-distinct",
        _pruned("fix:mask_gd", "confirmation", repaired, distinct, ratios, wanted, wanted),
    )
    yield (
        "mask_gd-confirmation-constant",
        _pruned("fix:mask_gd", "confirmation", repaired, constant, half, [4, 8, 12], [4, 8, 12]),
    )


def _pruned(statement: str, kind: str, reading: Any, M: Any, ratios: Any, zeros: Any, wanted: Any) -> Document:
    relation = "zeros!=wanted" if kind == "refutation" else "zeros==wanted"
    inputs = {"d": len(M), "M": table(M), "rho": words(ratios)}
    return certificate(statement, kind, reading, inputs, {}, {"zeros": zeros, "wanted": wanted}, relation)

"""Certificates that the project's producer did not make: the contract's format, numbers from mpmath,
every mask form and reading of mu.
"""

import json
import random
from fractions import Fraction
from typing import Any

import mpmath
import pytest

from proofs_check.checker import PAPER_SHA256, judge_bytes

Q = Fraction
MUS = ("2*wmin*beta*delta", "2*wmin*beta*delta_allowed", "2*(wmin*beta*delta)^2")


def pivots(A: list[list[Q]]) -> list[Q]:
    """Schur complements, recursively."""
    if not A:
        return []
    head, *rest = A
    if head[0] == 0:
        return [Q(0), *pivots([row[1:] for row in rest])]
    return [
        head[0],
        *pivots([[x - row[0] * y / head[0] for x, y in zip(row[1:], head[1:], strict=True)] for row in rest]),
    ]


def attention(X: Any, E: Any, mask: Any) -> Any:
    z = X * E * X.T
    F = mpmath.zeros(X.rows, X.rows)
    for i in range(X.rows):
        weights = [mpmath.exp(z[i, j]) if mask[i][j] else mpmath.mpf(0) for j in range(X.rows)]
        for j in range(X.rows):
            F[i, j] = weights[j] / sum(weights)
    return F


def foreign(seed: int, n: int, d: int, form: str, mu: str, lam: Q, digits: int = 30) -> dict[str, Any]:
    """One honest certificate; its kind is whatever the numbers say."""
    rng = random.Random(seed)
    X = [[Q(rng.randint(-8, 8), 8) + (2 if i == j else 0) for j in range(d)] for i in range(n)]
    W = [[Q(rng.choice([-1, 1]) * rng.randint(5, 9), 10 * d) for _ in range(d)] for _ in range(d)]
    M = [[Q(rng.randint(0, 10), 10) for _ in range(d)] for _ in range(d)]
    mask = [[True] * n for _ in range(n)]
    if form == "causal":
        mask = [[j <= i for j in range(n)] for i in range(n)]
    elif form == "given":
        mask = [[j == i or rng.random() < 0.6 for j in range(n)] for i in range(n)]
    gram = [[sum(p * q for p, q in zip(x, y, strict=True)) for y in X] for x in X]
    beta = Q(1, 50)
    while True:
        shifted = [[g - (beta if i == j else 0) for j, g in enumerate(row)] for i, row in enumerate(gram)]
        if min(pivots(shifted)) > 0:
            break
        beta /= 4
    with mpmath.workdps(80):
        mX, mW, mM = (
            mpmath.matrix([[mpmath.mpf(e.numerator) / e.denominator for e in row] for row in A]) for A in (X, W, M)
        )
        E = mpmath.matrix(d, d)
        for a in range(d):
            for b in range(d):
                E[a, b] = mM[a, b] * mW[a, b]
        F, f = attention(mX, E, mask), attention(mX, mW, mask)
        c = F - f
        p = mpmath.matrix(n, n)
        for i in range(n):
            mean = sum(F[i, j] * c[i, j] for j in range(n))
            for j in range(n):
                p[i, j] = F[i, j] * (c[i, j] - mean)
        slope = mX.T * p * mX
        grad = [
            mW[a, b] * slope[a, b] + mpmath.mpf(lam.numerator) / lam.denominator * mM[a, b]
            for a in range(d)
            for b in range(d)
        ]
        min_f = min(F[i, j] for i in range(n) for j in range(n) if mask[i][j])
        delta = Q(int(min_f * 10**6), 10**6) * Q(99, 100)
        wmin, wmax = min(abs(e) for r in W for e in r), max(abs(e) for r in W for e in r)
        half = wmin * beta * delta
        half = half * half if mu == MUS[2] else half
        c_sq = sum(x * x for x in c)
        norm_x, norm_m = sum(e * e for r in X for e in r), sum(e * e for r in M for e in r)
        slack = 6 * wmax * norm_x * lam * d
        rhs = c_sq * half.numerator / half.denominator - mpmath.sqrt(n) * slack.numerator / slack.denominator
        rhs += mpmath.mpf((lam**2 * norm_m).numerator) / (lam**2 * norm_m).denominator
        numbers = {"c_sq": c_sq, "lhs": sum(g * g for g in grad), "rhs": rhs}
        ends = {name: around(value, digits) for name, value in numbers.items()}
        relation = "lhs<rhs" if numbers["lhs"] < numbers["rhs"] else "lhs>=rhs"
        lower_f = around(min_f, digits)
    listed: Any = {"full": None, "causal": "causal", "given": [[str(int(e)) for e in row] for row in mask]}[form]
    if form == "full" and seed % 2:
        listed = "full"

    def table(A: list[list[Q]]) -> list[list[str]]:
        return [[str(e) for e in row] for row in A]

    return {
        "schema": "attnprune-cert/1",
        "statement": "lem:PL_ineq",
        "reading": {"mask": form, "mu": mu},
        "kind": "refutation" if relation == "lhs<rhs" else "confirmation",
        "paper_sha256": PAPER_SHA256,
        "inputs": {
            "n": n, "d": d, "X": table(X), "W": table(W), "M": table(M), "mask": listed,
            "lambda": str(lam), "beta": str(beta), "delta": str(delta),
        },
        "hypotheses": {"psd_pivots": [str(pivot) for pivot in pivots(shifted)], "delta_le_min_f": lower_f},
        "quantities": ends,
        "claim": {"relation": relation},
        "producer": {"tool": "mpmath", "prec_bits": 265},
    }  # fmt: skip


def around(value: Any, digits: int) -> list[str]:
    """An enclosure with about this many correct digits."""
    with mpmath.workdps(90):
        unit = mpmath.power(10, int(mpmath.floor(mpmath.log10(abs(value)))) - digits)
        low = int(mpmath.floor(value / unit))
        exponent = int(mpmath.nint(mpmath.log10(unit)))
    scale = Q(10) ** exponent
    return [str((low - 1) * scale), str((low + 2) * scale)]


CASES = [
    (seed, n, d, form, mu, lam)
    for seed, (n, d) in enumerate([(2, 2), (2, 3), (3, 3), (5, 6)])
    for form in ("full", "causal", "given")
    for mu in MUS
    for lam in (Q(0), Q(1, 10**9), Q(1))
    if not (mu == MUS[0] and form != "full")  # delta over all positions is 0 with a zero in the mask
]


@pytest.mark.parametrize("seed, n, d, form, mu, lam", CASES)
def test_honest_foreign_certificate_is_accepted(seed: int, n: int, d: int, form: str, mu: str, lam: Q) -> None:
    document = foreign(seed, n, d, form, mu, lam)
    verdict = judge_bytes(json.dumps(document).encode())
    assert verdict.accepted, verdict.reason
    document["claim"]["relation"] = "lhs>=rhs" if document["claim"]["relation"] == "lhs<rhs" else "lhs<rhs"
    document["kind"] = "refutation" if document["kind"] == "confirmation" else "confirmation"
    assert not judge_bytes(json.dumps(document).encode()).accepted


@pytest.mark.parametrize("form, mu", [("full", MUS[0]), ("given", MUS[1]), ("causal", MUS[2])])
def test_no_input_can_be_moved(form: str, mu: str) -> None:
    """Every number of `inputs`, moved by a thousandth of a percent, contradicts an enclosure, a pivot or delta."""
    document = foreign(7, 2, 3, form, mu, Q(1, 10**3))
    inputs = document["inputs"]
    places = [(inputs[name], i, j) for name in "XWM" for i, row in enumerate(inputs[name]) for j in range(len(row))]
    moved = 0
    for table, i, j in places:
        kept = table[i][j]
        table[i][j] = str(Q(kept) * (1 - Q(1, 10**5)) if Q(kept) else Q(1, 10**5))
        assert not judge_bytes(json.dumps(document).encode()).accepted, (i, j)
        table[i][j] = kept
        moved += 1
    for name in ("lambda", "beta", "delta"):
        kept = inputs[name]
        for factor in (1 + Q(1, 10**5), 1 - Q(1, 10**5)):
            inputs[name] = str(Q(kept) * factor)
            assert not judge_bytes(json.dumps(document).encode()).accepted, name
        inputs[name] = kept
    assert moved == 24
    assert judge_bytes(json.dumps(document).encode()).accepted


@pytest.mark.parametrize("digits", [3, 12, 60])
def test_enclosures_of_any_width_are_accepted(digits: int) -> None:
    document = foreign(3, 3, 3, "given", MUS[1], Q(1, 10**6), digits)
    assert judge_bytes(json.dumps(document).encode()).accepted


def test_equality_is_decided_at_m_equal_to_one_without_regulariser() -> None:
    """c = 0 exactly, both sides are 0: lhs >= rhs is true, lhs < rhs is not."""
    document = foreign(2, 2, 2, "full", MUS[0], Q(0))
    document["inputs"]["M"] = [["1", "1"], ["1", "1"]]
    document["inputs"]["delta"] = "1/1000"
    document["hypotheses"]["delta_le_min_f"] = ["1/1000", "1/1"]
    document["quantities"] = {name: ["0", "0"] for name in ("c_sq", "lhs", "rhs")}
    document["claim"]["relation"], document["kind"] = "lhs>=rhs", "confirmation"
    assert judge_bytes(json.dumps(document).encode()).accepted
    document["claim"]["relation"], document["kind"] = "lhs<rhs", "refutation"
    assert not judge_bytes(json.dumps(document).encode()).accepted


def exact_certificate(X: list[list[str]], W: list[list[str]], M: list[list[str]], mu: str, lam: str) -> dict[str, Any]:
    """X = I, beta = 1, F uniform on all positions: everything that can be exact is."""
    n = len(X)
    document = foreign(2, 2, 2, "full", mu, Q(0))
    document["inputs"] |= {"n": n, "d": n, "X": X, "W": W, "M": M, "lambda": lam, "beta": "1", "delta": f"1/{n}"}
    document["hypotheses"] = {"psd_pivots": ["0"] * n, "delta_le_min_f": [f"1/{n}", f"1/{n}"]}
    document["quantities"] = {"c_sq": ["0", "10"], "lhs": ["0", "10"], "rhs": ["-100", "10"]}
    document["claim"]["relation"], document["kind"] = "lhs>=rhs", "confirmation"
    return document


EYE = [["1", "0", "0"], ["0", "1", "0"], ["0", "0", "1"]]
UNIT = [["1", "-1", "-1"], ["-1", "1", "-1"], ["-1", "-1", "1"]]
ZERO = [["0"] * 3] * 3


@pytest.mark.parametrize(
    "document",
    [
        exact_certificate([["1"]], [["5/7"]], [["1/3"]], MUS[0], "0"),
        exact_certificate([["1"]], [["5/7"]], [["1/3"]], MUS[2], "1/2"),
        exact_certificate(EYE, UNIT, ZERO, MUS[2], "0"),
        exact_certificate(EYE, [["1", "2", "3"], ["1", "1", "1"], ["2", "1", "1"]], ZERO, MUS[2], "0"),
    ],
    ids=["one token", "one token, lambda", "corrected mu attained", "third of 1 is exact"],
)
def test_what_is_exact_is_decided_exactly(document: dict[str, Any]) -> None:
    document["inputs"]["M"] = [[entry.lstrip("-") for entry in row] for row in document["inputs"]["M"]]
    assert judge_bytes(json.dumps(document).encode()).accepted
    document["claim"]["relation"], document["kind"] = "lhs<rhs", "refutation"
    assert not judge_bytes(json.dumps(document).encode()).accepted
    document["claim"]["relation"], document["kind"] = "lhs>=rhs", "confirmation"
    document["inputs"]["delta"] = document["hypotheses"]["delta_le_min_f"][0] = "1000001/1000000"
    assert not judge_bytes(json.dumps(document).encode()).accepted


@pytest.mark.thorough
@pytest.mark.parametrize("n, d", [(16, 16), (24, 32), (10, 64)])
def test_larger_foreign_certificates(n: int, d: int) -> None:
    document = foreign(n, n, d, "causal", MUS[2], Q(1, 10**7))
    content = json.dumps(document).encode()
    verdict = judge_bytes(content)
    assert verdict.accepted or len(content) > 300_000, verdict.reason

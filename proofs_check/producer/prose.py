"""Certificates for prose claims and misprints: two numbers, lhs < rhs."""

from collections.abc import Iterator
from fractions import Fraction

from flint import arb

from proofs_check.producer import balls as b
from proofs_check.producer.document import Document, certificate
from proofs_check.producer.notation import Q, ball, balls, enclosure, table, word, words
from proofs_check.producer.setting import Setting, point, start

BITS = 256  # bits; chosen: twice the checkers' first precision


def documents() -> Iterator[tuple[str, Document]]:
    with b.precision(BITS):
        yield from _theory()
        yield from _experiments()
        yield from _misprints()


def _theory() -> Iterator[tuple[str, Document]]:
    synthetic = {"n": 128, "d": 64, "R": "100/1"}
    lambdas = {"lambda_small": "1/1000", "lambda_large": "1/10"}
    L = {lam: _lipschitz(128, 64, Q(100), lam) for lam in (Q(1, 1000), Q(1, 10))}
    mu, epsilon = Q(1, 10), Q(1, 100)
    T = [2 * ball(lam) * 64**2 / (ball(mu * epsilon) * 128**2) * L[lam] for lam in (Q(1, 1000), Q(1, 10))]
    times = synthetic | {"mu": word(mu), "epsilon": word(epsilon)} | lambdas
    yield _small("exp:smaller_lam_takes_longer", "T at two lambdas", times, T[0], T[1])
    ratio = L[Q(1, 10)] / L[Q(1, 1000)]
    yield _small("exp:step_size", "1/L against 1/lambda", synthetic | lambdas, ratio, Q(100))
    yield _gradient()
    yield _momentum()


def _experiments() -> Iterator[tuple[str, Document]]:
    yield _small("exp:reported_delta", "rho sweep", {"n": 512, "delta": "1/400"}, Q(1, 512), Q(1, 400))
    yield _small("exp:lam_in_unit_interval", "synthetic", {"n": 128, "lambda": "1/25"}, Q(1), Q(128, 25))
    divergent = {"n": 128, "lambda": "1/25", "eta": "5/2"}
    factor = abs(1 - Q(5, 2) * Q(128, 25))
    yield _small("exp:lam_in_unit_interval", "step with it", divergent, Q(1), factor, "-divergent-step")
    for n in (128, 256, 400, 512):
        reported = {"n": n, "d": 2048, "lambda": "1/20", "delta": "1/400"}
        bound = ball(3 * Q(1, 20) * 2048 * 400) / arb(n).sqrt()
        yield _small("exp:supports_theory", "size of the bound", reported, Q(1, n), bound, f"-n-{n}")
    X, W = [[Q(20), Q(10)], [Q(0), Q(1)]], [[Q(2), Q(0)], [Q(0), Q(1)]]  # the largest logit is 900
    inputs = {"n": 2, "d": 2, "X": table(X), "W": table(W)}
    yield _small("exp:exp_is_computable", "one instance", inputs, Q(2**1024 - 2**971), arb(900).exp())
    batches = {"lambda": "1/25", "k_small": 16, "k_large": 64}
    yield _small("exp:batch_regulariser", "two batches", batches, Q(1, 1600), Q(1, 400))
    heads = {"key_heads": 8, "query_heads": 32, "head_width": 64}
    yield _small("exp:square_weights", "Llama-3.2-1B", heads, Q(512), Q(2048))
    d, key, inner, layers, vocabulary = 2048, 512, 8192, 16, 128256
    model = {"d": d, "key_columns": key, "inner": inner, "layers": layers, "vocabulary": vocabulary}
    mlp = 3 * d * inner * layers
    total = mlp + 2 * d * (d + key) * layers + vocabulary * d
    share = Q(mlp + d * (d + key), 2 * total)
    yield _small("exp:whole_model_ratio", "Llama-3.2-1B", model, share, Q(1, 2))


def _misprints() -> Iterator[tuple[str, Document]]:
    X, W = [[Q(1), Q(0)], [Q(1, 2), Q(1)]], [[Q(1), Q(-1, 2)], [Q(1, 3), Q(1)]]
    box = {"n": 2, "d": 2, "X": table(X), "W": table(W), "rho": "1/2"}
    yield _small("def:attn_prun", "minimum over the box", box, Q(0), Q(2))
    M_Q, M_K = [[Q(1), Q(1, 2)], [Q(0), Q(1)]], [[Q(1, 3), Q(1)], [Q(1), Q(1)]]
    norms = sum((entry * entry for M in (M_Q, M_K) for row in M for entry in row), Q(0))
    new_loss = {"d": 2, "m": 2, "M_Q": table(M_Q), "M_K": table(M_K), "lambda": "1/20"}
    yield _small("eq:new_loss", "literal", new_loss, norms / 40, norms / 2)
    yield _dropped_sum()
    yield _small("fac:calculus", "part 3, line 4", {"m": 3, "d": 2}, Q(2), Q(3))


def _small(
    statement: str, reading: str, inputs: Document, lhs: arb | Fraction, rhs: arb | Fraction, suffix: str = ""
) -> tuple[str, Document]:
    ends = [enclosure(side) if isinstance(side, arb) else words([side, side]) for side in (lhs, rhs)]
    bits = BITS if isinstance(lhs, arb) or isinstance(rhs, arb) else 0
    quantities = {"lhs": ends[0], "rhs": ends[1]}
    document = certificate(statement, "refutation", {"of": reading}, inputs, {}, quantities, "lhs<rhs", bits)
    return f"{statement.split(':')[1]}-refutation{suffix}", document


def _momentum() -> tuple[str, Document]:
    """The regulariser alone overshoots: M falls through 0 with momentum 9/10."""
    X, W = b.identity(2), [[Q(1, 10), Q(-1, 10)], [Q(-1, 10), Q(1, 10)]]
    lam, momentum = Q(1, 2), Q(9, 10)
    setting = Setting("ones", [1, 1], X, W, lam, Q(0), Q(0), Q(1), Q(1))
    K = lam + Q(5, 4) * Q(1, 100)
    eta = Q(int(Q(9, 10) / K * 1000), 1000)
    before = M = start(setting)
    losses: list[arb] = []
    while len(losses) < 2 or not losses[-2] < losses[-1]:
        now = point(setting, M)
        losses.append(now.c_sq / 2 + ball(lam / 2) * now.norm_sq)
        moved = [
            [m - ball(eta) * g + ball(momentum) * (m - o) for m, g, o in zip(ms, gs, os, strict=True)]
            for ms, gs, os in zip(M, now.gradient, before, strict=True)
        ]
        before, M = M, moved
    inputs = {
        "n": 2, "d": 2, "X": table(X), "W": table(W), "lambda": word(lam), "eta": word(eta), "momentum": word(momentum),
        "t": len(losses) - 2,
    }  # fmt: skip
    return _small("exp:momentum", "heavy ball", inputs, losses[-2], losses[-1])


def _lipschitz(n: int, d: int, R: Fraction, lam: Fraction) -> arb:
    return ball(lam) + ball(30 * d * n**3 * R**6) * arb(n).sqrt()


def _gradient() -> tuple[str, Document]:
    """M = 10^8 everywhere: ||grad L|| exceeds the paper's L."""
    X, W, M = b.identity(2), [[Q(1), Q(-1, 2)], [Q(1, 2), Q(1)]], [[Q(10**8)] * 2] * 2
    lam, R = Q(1, 2), Q(2)
    F = b.attention(balls(X), b.hadamard(balls(M), balls(W)), b.full(2))
    c = b.residual(F, b.attention(balls(X), balls(W), b.full(2)))
    G = b.attention_gradient(balls(X), balls(W), b.p_matrix(F, c))
    grad = [[g + ball(lam * m) for g, m in zip(gs, ms, strict=True)] for gs, ms in zip(G, M, strict=True)]
    L = _lipschitz(2, 2, R, lam)
    inputs = {"n": 2, "d": 2, "X": table(X), "W": table(W), "M": table(M), "lambda": word(lam), "R": word(R)}
    return _small("exp:gradient_bounded", "one M", inputs, L * L, b.norm_sq(grad))


def _dropped_sum() -> tuple[str, Document]:
    X = [[Q(1), Q(2)], [Q(3), Q(-1)]]
    F, f = [[Q(1, 2), Q(1, 2)], [Q(1, 4), Q(3, 4)]], [[Q(1, 3), Q(2, 3)], [Q(2, 5), Q(3, 5)]]
    inputs = {"n": 2, "d": 2, "X": table(X), "F": table(F), "f": table(f), "W_entry": "2/1", "i_1": 0, "j_1": 1}
    c = [[p - q for p, q in zip(r, s, strict=True)] for r, s in zip(F, f, strict=True)]
    terms = []
    for i in range(2):
        mean = sum(F[i][k] * X[k][1] for k in range(2))
        terms += [c[i][j] * F[i][j] * 2 * X[i][0] * (X[j][1] - mean) for j in range(2)]
    total = sum(terms)
    sides = (max(terms), total) if total > max(terms) else (total, min(terms))
    return _small("lem:grad_rec", "a line of the proof", inputs, *sides)

"""Every number that `check` prints about constants and guarantees, computed again from its definition in plain NumPy.

Nothing of `theory` is used for it: K and kappa_T come from the whole matrix of the map, lambda_2 from each row's
matrix, delta from the softmax itself.
"""

import math
import re
from itertools import product

import numpy as np
import pytest
from flint import arb
from mpmath import mp
from scipy.linalg import eigh, null_space
from scipy.special import lambertw

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory import bounds as bounds_module
from attnprune_verify.theory.bounds import evaluate_bounds
from attnprune_verify.theory.constants import NAMES, constants
from attnprune_verify.theory.guarantees import guarantees, path_floor
from attnprune_verify.theory.numbers.balls import precision
from attnprune_verify.theory.pl_bounds import pl_bounds
from attnprune_verify.theory.quantities.attention_floor import AttentionFloor
from attnprune_verify.theory.quantities.curvature import row_constants
from attnprune_verify.theory.quantities.measure import logit_norm
from attnprune_verify.theory.theorem import theorem

C_PLUS, C_MINUS = (39 + 55 * math.sqrt(33)) / 1152, (55 * math.sqrt(33) - 39) / 1152


def made(n=3, d=4, k=None, seed=0, size=0.6, **more):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d) if k is None else (k, n, d)) * np.arange(1, 2 if k is None else k + 1).reshape(
        -1, 1, 1
    )
    X = X[0] if k is None else X
    W = size * rng.standard_normal((d, d))
    W.flat[0] = -2.0 * np.abs(W).max()  # the largest weight is negative, and ||W|| > ||X|| in the first instance
    if more.pop("M", False):
        more["M"] = rng.uniform(-0.2, 0.9, (d, d))
    return Instance(X, W, **more)


BLOCKS = np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)
INSTANCES = {
    "plain": made(lam=0.04),
    "causal, M": made(mask="causal", M=True, lam=0.3),
    "blocks, M": made(mask=BLOCKS, M=True, lam=1.5, seed=1),
    "batch, M": made(k=2, M=True, lam=0.04, seed=2, size=0.2),
    "batch, beta > 0, M": made(n=2, d=5, k=2, M=True, lam=0.04, seed=6, size=0.2),
    "batch of three, small lam, M": made(n=2, d=2, k=3, M=True, lam=1e-6, seed=7, size=0.1, mask="causal"),
    "large W": made(n=2, d=2, size=4.0, seed=3, lam=1e-3, M=True),
    "small lam": made(n=3, d=3, seed=4, size=0.1, lam=1e-5, M=True),
    "large lam": made(n=3, d=3, seed=5, size=0.3, lam=40.0, mask="causal"),
    "two of five allowed": made(n=5, d=5, seed=8, size=0.02, lam=0.1, mask=np.tri(5) - np.tri(5, k=-2)),
}


def softmax(logits, allowed):
    weights = np.where(allowed, np.exp(logits - np.where(allowed, logits, -np.inf).max(axis=1, keepdims=True)), 0.0)
    return weights / weights.sum(axis=1, keepdims=True)


def attention(X, W, M, allowed):
    return softmax(X @ (M * W) @ X.T, allowed)


def logit_map(X, W, allowed, centred=True):
    """The (sum m_i, d^2) matrix from M to the allowed logits, each row less its mean."""
    rows = []
    for i in range(len(X)):
        S = np.flatnonzero(allowed[i])
        block = np.array([(W * np.outer(X[i], X[j])).ravel() for j in S])
        rows.append(block - block.mean(axis=0) if centred else block)
    return np.concatenate(rows)


def kappa(X, W, allowed):
    """min ||W * X^T p X|| / ||p|| over p on the mask with zero row sums."""
    blocks = [null_space(np.ones((1, int(row.sum())))) for row in allowed]
    basis = np.zeros((sum(len(b) for b in blocks), sum(b.shape[1] for b in blocks)))
    r = c = 0
    for b in blocks:
        basis[r : r + len(b), c : c + b.shape[1]] = b
        r, c = r + len(b), c + b.shape[1]
    values = np.linalg.svd(logit_map(X, W, allowed, centred=False).T @ basis, compute_uv=False)
    return values[-1] if basis.shape[1] <= W.size else 0.0


def second_eigenvalue(row):
    J = np.diag(row) - np.outer(row, row)
    Q = null_space(np.ones((1, len(row))))
    return eigh(Q.T @ J @ Q, eigvals_only=True)[0]


def facts(instance):
    """What the constants are made of."""
    X, W, allowed = np.atleast_3d(np.asarray(instance.samples)), np.asarray(instance.W), np.asarray(instance.allowed)
    M = np.asarray(instance.M_or_ones, dtype=float)
    several = allowed.sum(axis=1) >= 2
    found = {"X": X, "W": W, "M": M, "allowed": allowed, "n": X.shape[1], "d": X.shape[2], "k": len(X)}
    at_M = [attention(x, W, M, allowed) for x in X]
    dense = [attention(x, W, np.ones_like(M), allowed) for x in X]
    found["delta_allowed"] = min(F[allowed].min() for F in at_M)
    found["dense_floor"] = min([F[several][allowed[several]].min() for F in dense], default=1.0)
    found["beta"] = min(np.linalg.eigvalsh(x @ x.T)[0] for x in X)
    found["attention loss"] = np.mean([np.sum((F - f) ** 2) / 2 for F, f in zip(at_M, dense, strict=True)])
    stacked = np.concatenate([logit_map(x, W, allowed) for x in X]) / math.sqrt(len(X))
    found["K"] = np.linalg.norm(stacked, 2)
    found["kappa_T"] = kappa(X[0], W, allowed) if len(X) == 1 else 0.0
    rows = [second_eigenvalue(row[S]) for F in at_M for row, S in zip(F, allowed, strict=True) if S.sum() >= 2]
    found["row_eigenvalue"] = min(rows, default=0.5)
    found["m"] = allowed.sum(axis=1)
    return found


def expected(instance, eps=None, eta=None):
    """Every constant by its definition; the ones that rest on K and kappa_T take the library's bounds of these."""
    q, lam, found = facts(instance), instance.lam, constants(instance, eps, eta)
    n, d, K, norm = q["n"], q["d"], found.K, max(np.linalg.norm(x) for x in q["X"])
    smallest, largest = np.abs(q["W"]).min(), np.abs(q["W"]).max()
    R = max(1.0, norm, np.linalg.norm(q["W"]))
    eps = 0.02 / n if eps is None else eps
    L_paper, L_sharp = lam + 30 * d * n**3.5 * R**6, lam + C_PLUS * K**2
    everywhere = q["delta_allowed"] if q["allowed"].all() else 0.0
    mu_paper = 2 * smallest * q["beta"] * everywhere
    mu = 2 * (smallest * q["beta"] * q["delta_allowed"]) ** 2
    W0 = sum(float(lambertw((m - 1) / math.e).real) for m in q["m"])
    start = q["attention loss"] + lam / 2 * np.sum(q["M"] ** 2)
    eta_paper, eta_sharp = (1 / L_paper, 1 / L_sharp) if eta is None else (eta, eta)

    def over(a, b):
        return a / b if b else math.inf

    lemma = over(12 * math.sqrt(n) * largest * norm**2 * lam * d, mu_paper)
    return {
        "L_paper": L_paper, "L_sharp": L_sharp, "K": K, "K_lower": found.K_lower, "mu_paper": mu_paper,
        "mu_corrected": mu, "mu_operator": 2 * (found.kappa_T * found.row_eigenvalue) ** 2, "kappa_T": found.kappa_T,
        "row_eigenvalue": found.row_eigenvalue, "xi_paper": lemma / n**2, "xi_paper_lemma": lemma,
        "xi_corrected": over(K * lam**1.5 * d**2, n**2 * mu), "xi_global": over(4 * lam * W0, mu),
        "T_paper": over(4 * start, eta_paper * mu_paper * eps * n**2),
        "T_corrected": over(4 * start, eta_sharp * mu * eps * n**2), "eps": eps, "eta_paper": eta_paper,
        "eta_corrected": eta_sharp, "start_loss": start, "beta": q["beta"], "delta": everywhere,
        "delta_allowed": q["delta_allowed"], "dense_floor": q["dense_floor"], "min_abs_W": smallest,
        "max_abs_W": largest, "norm_X": norm, "norm_W": np.linalg.norm(q["W"]), "norm_M": np.linalg.norm(q["M"]),
        "R": R, "lam": lam, "lipschitz_F": K / 2, "lipschitz_F_paper": 2 * d * n * R**3,
        "curvature_lower": lam - C_MINUS * K**2, "convexity_threshold": C_MINUS * K**2,
        "linear_rate_threshold": q["dense_floor"] ** 2 / (5 * q["k"] * d**2),
        "vacuity_threshold": 6 * math.sqrt(n) * largest * norm**2 / d, "inner_product_floor": -W0,
        "C_plus": C_PLUS, "C_minus": C_MINUS, "P_star": 8 * math.sqrt(2) / 27,
    }  # fmt: skip


@pytest.mark.parametrize("name", INSTANCES)
@pytest.mark.parametrize("eps,eta", [(None, None), (0.01, 0.003)], ids=["own", "given"])
def test_every_constant(name, eps, eta):
    instance = INSTANCES[name]
    found, wanted, q = constants(instance, eps, eta), expected(instance, eps, eta), facts(instance)
    assert set(wanted) == set(NAMES)
    for key, value in wanted.items():
        assert found[key] == pytest.approx(value, rel=2e-8, abs=1e-13), key
    near = 1 + 1e-9
    assert q["K"] <= found.K * near <= 1.02 * q["K"] and 0.98 * q["K"] <= found.K_lower <= q["K"] * near
    assert found.K_lower < found.K
    assert 0.999 * q["kappa_T"] - 1e-9 <= max(found.kappa_T, 0) <= q["kappa_T"] * near + 1e-300
    assert 0.999 * q["row_eigenvalue"] - 1e-10 <= found.row_eigenvalue <= q["row_eigenvalue"] * near


@pytest.mark.parametrize("name", INSTANCES)
def test_bounds_are_printed_on_their_side(name):
    """K from both sides, and what is a bound by K, to the last bit: against 32 digits."""
    instance = INSTANCES[name]
    q, found = facts(instance), constants(instance)
    with precision():
        ball = logit_norm(instance).upper.upper()
    with mp.workdps(32):
        gram = mp.zeros(q["d"] ** 2)
        for x in q["X"]:
            gram += exact_gram(x, q["W"], q["allowed"]) / len(q["X"])
        K = mp.sqrt(max(mp.eigsy(gram, eigvals_only=True)))
        plus, minus = (39 + 55 * mp.sqrt(33)) / 1152, (55 * mp.sqrt(33) - 39) / 1152
        lam, (mantissa, exponent) = mp.mpf(instance.lam), ball.man_exp()
        upper = mp.mpf(int(mantissa)) * mp.mpf(2) ** int(exponent)  # all its digits
        assert found.K_lower <= K <= upper <= found.K
        assert found.L_sharp >= lam + plus * upper**2 and found.lipschitz_F >= upper / 2
        assert found.curvature_lower <= lam - minus * upper**2
        R = max(1, *(mp.sqrt(sum(mp.mpf(v) ** 2 for v in a.ravel().tolist())) for a in (*q["X"], q["W"])))
        assert found.L_paper >= lam + 30 * q["d"] * mp.sqrt(mp.mpf(q["n"])) ** 7 * R**6
        assert found.lipschitz_F_paper >= 2 * q["d"] * q["n"] * R**3


def exact_gram(x, W, allowed):
    """B^T B, B the matrix of the centred logits, in the working precision."""
    d, total = len(W), mp.zeros(len(W) ** 2)
    x, W = ([[mp.mpf(value) for value in row] for row in np.asarray(a).tolist()] for a in (x, W))
    for i, row in enumerate(allowed):
        S = np.flatnonzero(row).tolist()
        lines = [[W[a][b] * x[i][a] * x[j][b] for a in range(d) for b in range(d)] for j in S]
        means = [sum(column) / len(S) for column in zip(*lines, strict=True)]
        B = mp.matrix([[value - mean for value, mean in zip(line, means, strict=True)] for line in lines])
        total += B.T * B
    return total


def shown(value):
    return f"{value:.3g}"


@pytest.mark.parametrize("name", INSTANCES)
def test_every_guarantee(name):
    """Its numbers, and that the sentence has them."""
    instance = INSTANCES[name]
    q, lam, found = facts(instance), instance.lam, constants(instance)
    n, d, k = q["n"], q["d"], q["k"]
    one = {item.id: item for item in guarantees(instance)}
    assert len(one) == 5 and one["confinement"].applies and one["gradient-norm"].applies
    assert one["confinement"].numbers["loss"] == pytest.approx(lam * d**2 / 2)
    assert one["gradient-norm"].numbers == pytest.approx({"gradient": lam * d / 100, "T": 1e4 * found.L_sharp / lam})
    assert "T = 10000 L_sharp/lam" in one["gradient-norm"].says and "1/100 of its start" in one["gradient-norm"].says
    smallest = np.abs(q["W"]).min()
    floor = floor_of(q, lam)
    repaired = one["repaired-theorem"]
    assert repaired.applies is (k == 1)
    if k == 1:
        delta = repaired.numbers["delta"]
        assert 0.24 * floor <= delta <= floor * (1 + 1e-9)
        mu = 2 * (smallest * q["beta"] * delta) ** 2
        xi = found.K * lam**1.5 * d**2 / (n**2 * mu)
        T = 2 * lam * d**2 * found.L_sharp / (mu * 0.02 / n * n**2)
        ones = lam**2 * d**2 / (mu * n**2)
        wanted = {"delta": delta, "mu": mu, "xi": xi, "T": T, "at_ones": ones}
        assert repaired.numbers == pytest.approx(wanted, rel=1e-7)
        goal = (xi + 0.02 / n) / 2
        assert f"= {shown(goal)}" in repaired.says and ("M = 1 satisfies it already" in repaired.says) is bool(
            ones <= goal
        )
    threshold = q["dense_floor"] ** 2 / (5 * k * d**2)
    linear = one["linear-convergence"]
    assert linear.applies is bool(lam <= threshold) and linear.numbers["threshold"] == pytest.approx(threshold)
    if linear.applies:
        assert linear.numbers["rate"] == pytest.approx(lam / found.L_sharp)
        assert f"(1 - {shown(lam / found.L_sharp)})^t lam d^2/2" in linear.says
    convex = one["strong-convexity"]
    modulus = lam - C_MINUS * found.K**2
    assert convex.applies is bool(modulus > 0) and convex.numbers["threshold"] == pytest.approx(lam - modulus)
    if convex.applies:
        assert convex.numbers["modulus"] == pytest.approx(modulus)
        assert convex.numbers["rate"] == pytest.approx(modulus / found.L_sharp)
        assert (
            f"(1 - {shown(modulus / found.L_sharp)})^t" in convex.says and f"{shown(modulus)}-strongly" in convex.says
        )


def test_each_guarantee_applies_somewhere_and_fails_somewhere():
    seen = {(item.id, item.applies) for instance in INSTANCES.values() for item in guarantees(instance)}
    assert {("linear-convergence", True), ("linear-convergence", False)} <= seen
    assert {("strong-convexity", True), ("strong-convexity", False)} <= seen
    assert {("repaired-theorem", True), ("repaired-theorem", False)} <= seen


def floor_of(q, lam):
    """max(f_min - sqrt(k lam) d, exp(-2 d v)/n), v the largest ||W * x_i x_j^T|| over allowed pairs."""
    near = q["dense_floor"] - math.sqrt(q["k"] * lam) * q["d"]
    pairs = [(x, i, j) for x in q["X"] for i, j in product(range(q["n"]), repeat=2) if q["allowed"][i, j]]
    v = max(np.linalg.norm(q["W"] * np.outer(x[i], x[j])) for x, i, j in pairs)
    return max(near, math.exp(-2 * q["d"] * v) / q["n"])


@pytest.mark.parametrize("name", INSTANCES)
def test_the_floor_of_the_path(name):
    instance = INSTANCES[name]
    q = facts(instance)
    floor, found = floor_of(q, instance.lam), float(path_floor(instance))
    assert found <= floor * (1 + 1e-9)
    assert found >= floor * (0.99 if floor > 1e-300 else 0.0)
    near = q["dense_floor"] - math.sqrt(q["k"] * instance.lam) * q["d"]
    assert not near > 0 or found >= near * (1 - 1e-9)


@pytest.mark.parametrize("name", INSTANCES)
def test_what_the_theorem_says(name):
    instance = INSTANCES[name]
    q, lam, verdict, found = facts(instance), instance.lam, theorem(instance), constants(instance)
    n, d, k = q["n"], q["d"], q["k"]
    bound, largest = (found.xi_paper + found.eps) / 2, float((q["m"] > 1).sum()) / n**2
    ones = lam**2 * d**2 / (found.mu_paper * n**2) if found.mu_paper > 0 else math.nan
    wanted = {"xi": found.xi_paper, "eps": found.eps, "bound": bound, "largest": largest, "T": found.T_paper}
    assert {key: verdict.numbers[key] for key in wanted} == pytest.approx(wanted, rel=1e-9)
    assert verdict.numbers["at_ones"] == pytest.approx(ones, rel=1e-9, nan_ok=True)
    text = " ".join(verdict.reasons)
    assert ("already satisfies it" in text) is (bool(ones <= bound))
    assert (f"this is a batch of {k} samples" in text) is (k > 1)
    assert ("the largest possible value" in text) is bool(found.mu_paper > 0 and bound >= largest)
    inside = q["M"].min() >= 0 and q["M"].max() <= 1
    hopeful = [found.beta > 0, q["allowed"].all(), np.abs(q["W"]).min() > 0, inside, lam <= 1, k == 1]
    assert verdict.applies is all(map(bool, hopeful))


def hessian(q, lam, M):
    """Hess L(M) by central differences of the gradient, which is written out here."""

    def gradient(M):
        total = lam * M
        for x in q["X"]:
            F, f = attention(x, q["W"], M, q["allowed"]), attention(x, q["W"], np.ones_like(M), q["allowed"])
            c = F - f
            p = F * (c - (c * F).sum(axis=1, keepdims=True))
            total = total + q["W"] * (x.T @ p @ x) / len(q["X"])
        return total

    d, h = q["d"], 1e-5
    columns = []
    for unit in np.eye(d * d).reshape(-1, d, d):
        columns.append(((gradient(M + h * unit) - gradient(M - h * unit)) / (2 * h)).ravel())
    return gradient(M), np.array(columns)


@pytest.mark.parametrize("name", [name for name in INSTANCES if name.endswith("M") or "lam" in name])
def test_both_sides_of_every_inequality(name):
    """At the instance's M: the PL sides by their definition; the steepest change at least the top curvature there."""
    instance = INSTANCES[name]
    q, lam, found = facts(instance), instance.lam, constants(instance)
    if instance.M is None:
        return
    M, d = q["M"], q["d"]
    slope, H = hessian(q, lam, M)
    bounds = {one.id: one for one in evaluate_bounds(instance)}
    steepest = np.abs(np.linalg.eigvalsh((H + H.T) / 2)).max()
    for name_, L in (("thm:lip_grad_l", found.L_paper), ("fix:lip_grad_l", found.L_sharp)):
        assert bounds[name_].rhs == pytest.approx(L, rel=1e-9) and bounds[name_].status == "holds"
        assert bounds[name_].lhs >= 0.95 * steepest
    c_square = 2 * q["k"] * q["attention loss"] / q["k"]  # the mean over a batch
    pl = bounds["fix:PL_ineq"]
    stacked = q["X"].reshape(-1, d)
    beta = np.linalg.eigvalsh(stacked @ stacked.T)[0] if len(stacked) <= d else 0.0
    mu = 2 * (np.abs(q["W"]).min() * max(beta, 0.0) * q["delta_allowed"]) ** 2 / q["k"]
    W0 = sum(float(lambertw((m - 1) / math.e).real) for m in q["m"])
    assert pl.lhs == pytest.approx(np.sum(slope**2), rel=1e-6) and pl.status == "holds"
    regular = lam**2 * np.sum(M**2)
    assert pl.rhs == pytest.approx(mu / 2 * c_square * q["k"] + regular - 2 * lam * W0, rel=1e-6)


def test_the_numbers_of_a_sentence_are_those_of_its_record():
    """Every number printed with three digits in a guarantee is one that its record, or the instance, holds."""
    for instance in INSTANCES.values():
        for item in guarantees(instance):
            known = {shown(value) for value in (*item.numbers.values(), instance.lam, instance.d)}
            known |= {"1", "2", "5", "0", "100", "10000"}
            if item.id == "repaired-theorem" and item.applies:
                known.add(shown((item.numbers["xi"] + constants(instance).eps) / 2))
            printed = re.findall(r"(?<![\w^.])-?\d+(?:\.\d+)?(?:e[+-]\d+)?(?![\w.]*\d)", item.says)
            assert set(printed) <= known, (item.id, set(printed) - known, item.says)


def test_the_worse_of_two_points_is_reported_and_a_violation_is_called_one():
    """Without an M the printed PL inequality holds at M = 1, where c = 0, and fails at another M."""
    instance = Instance(np.eye(2), 0.1 * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert [bound.status for bound in pl_bounds(instance)] == ["violated", "holds"]
    assert [bound.status for bound in pl_bounds(instance.with_M(np.ones((2, 2))))] == ["holds", "holds"]
    for steepest, status in ((2.0, "violated"), (0.5, "holds")):
        found = bounds_module._Steepest(arb(steepest), arb(steepest), "")
        assert bounds_module._lipschitz("fix:lip_grad_l", found, 0.0, arb(1)).status == status
    blurred = bounds_module._Steepest(arb(1, 0.1), arb(1, 0.1), "")
    assert bounds_module._lipschitz("fix:lip_grad_l", blurred, 0.0, arb(1)).status == "undecided"


def test_what_rounding_may_have_done_is_paid_for():
    """A floor whose logarithm is off by 0.1; a row whose weights are off by one in a thousand."""
    assert AttentionFloor(-1.0, 0.1, False).certified <= math.exp(-1.1) * (1 + 1e-15)
    assert float(AttentionFloor(-1.0, 0.1, False).certified) == pytest.approx(math.exp(-1.1))
    half = np.array([[0.5, 0.5]])
    upper, _ = row_constants(half * (1 - 1e-3), half * (1 - 1e-3), rho=1e-3)
    assert upper[0] >= 0.25  # ||J||^2 at the row itself
    sigma, f = np.array([[0.6, 0.4]]), np.array([[0.0, 1.0]])
    _, lower = row_constants(sigma, f)
    _, blurred = row_constants(sigma * [[1 - 1e-3, 1 + 1e-3]], f, rho=1e-3)
    assert blurred[0] >= lower[0]

"""Assumption flags where the truth is known by construction, each of them both ways."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance import families
from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.assumptions import assumptions
from attnprune_verify.theory.quantities.gram import gram_floor, is_positive_semidefinite

IDS = ("beta", "delta", "delta-allowed", "W-nonzero", "M-in-box", "M-norm", "lam-in-unit-interval", "R")
HADAMARD = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2.0


def judged(instance, **given):
    found = {item.id: item for item in assumptions(instance, **given)}
    assert tuple(found) == IDS
    for item in found.values():
        assert type(item.value) is float and type(item.log10) is float and isinstance(item.holds, bool)
        assert item.reason and "\n" not in item.reason
    return found


def plain(X, **more):
    d = np.shape(X)[-1]
    return Instance(X, np.ones((d, d)), **more)


def beta(X):
    return judged(plain(X))["beta"]


# --- beta ---------------------------------------------------------------------------------------------------------


def test_orthonormal_rows_have_beta_one():
    assert beta(HADAMARD).value == 1.0 and beta(HADAMARD[:3]).holds
    assert beta(np.eye(3, 5)).value == 1.0


@pytest.mark.parametrize("smallest", [1.0, 2.0**-20, 2.0**-60, 2.0**-400, 2.0**-700])
def test_prescribed_singular_values(smallest):
    X = HADAMARD * np.array([3.0, 2.0, 1.5, smallest])  # H diag(s), H orthogonal: all entries exact
    found = beta(X)
    assert found.holds
    assert found.log10 == pytest.approx(2 * math.log10(smallest), rel=1e-12, abs=1e-12)
    assert found.value == pytest.approx(smallest**2, rel=1e-12)


@pytest.mark.parametrize("bits", [10, 50, 300])
def test_tiny_eigenvalue_against_the_exact_quadratic(bits):
    tiny = 2.0**-bits
    X = np.array([[1.0, 0.0], [1.0, tiny]])
    with mpmath.workdps(400):
        trace, determinant = 2 + mpmath.mpf(tiny) ** 2, mpmath.mpf(tiny) ** 2
        truth = 2 * determinant / (trace + mpmath.sqrt(trace**2 - 4 * determinant))
        assert beta(X).log10 == pytest.approx(float(mpmath.log10(truth)), rel=1e-13)
    if bits == 50:  # what a float eigenvalue makes of it: noise
        assert not 0.5 < np.linalg.eigvalsh(X @ X.T)[0] / float(truth) < 2


def test_random_gram_matrices_against_many_digits():
    rng = np.random.default_rng(1)
    for smallest in (1e-3, 1e-9, 1e-14):
        U, V = (np.linalg.qr(rng.standard_normal((5, 5)))[0] for _ in range(2))
        X = U @ np.diag([2.0, 1.0, 0.5, 0.3, smallest]) @ V
        with mpmath.workdps(60):
            A = mpmath.matrix(X.tolist())
            truth = min(mpmath.eigsy(A * A.T, eigvals_only=True))
        floor = gram_floor(X)
        assert float(floor.value) == pytest.approx(float(truth), rel=1e-8)
        assert float(floor.enclosure.lower()) <= float(truth) <= float(floor.enclosure.upper()) * (1 + 1e-12)


@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.1, 0.7, 0.3]] * 2),
        np.array([[0.1, 0.2], [0.2, 0.4]]),
        np.array([[1.0, 2, 3, 4], [5, 6, 7, 8], [6, 8, 10, 12]]),
        np.array([[0.0, 0.0], [1.0, 2.0]]),
        np.zeros((1, 1)),
        np.array([[2.0**500, 0], [2.0**-500, 0]]),
        np.array([[3.0, 1, 2], [-1.5, -0.5, -1.0], [1, 2, 3]]),
    ],
)
def test_exactly_singular(X):
    found = beta(X)
    assert not found.holds and found.value == 0.0 and found.log10 == -math.inf
    assert "exact" in found.reason or "zero" in found.reason or "equal" in found.reason


def test_one_ulp_away_from_singular_is_positive():
    X = np.array([[1.0, 2, 3, 4], [5, 6, 7, 8], [6, 8, 10, 12]])
    X[2, 3] = np.nextafter(12.0, 13.0)
    found = beta(X)
    assert found.holds and 1e-36 < found.value < 1e-28


def test_dependent_rows_of_many_bits_are_singular():
    rng = np.random.default_rng(3)
    X = np.round(rng.standard_normal((24, 30)) * 2**30) / 2**30
    X[7] = X[3] / 2 - X[5] + 4 * X[9]
    assert not beta(X).holds
    X[7, 0] += 2.0**-30
    assert beta(X).holds


def test_more_tokens_than_features_is_exactly_zero():
    found = beta(np.random.default_rng(0).standard_normal((6, 5)))
    assert not found.holds and found.value == 0.0 and "n = 6 > d = 5" in found.reason


@pytest.mark.parametrize("scale", [2.0**660, 2.0**-660])
def test_beta_beyond_the_range_of_doubles(scale):
    found = beta(HADAMARD * scale)
    assert found.holds and found.log10 == pytest.approx(2 * math.log10(scale), rel=1e-12)


def test_a_given_beta():
    eye = plain(np.eye(3))
    assert judged(eye, beta=1.0)["beta"].holds and judged(eye, beta=0.3)["beta"].value == 0.3
    assert not judged(eye, beta=1.0000001)["beta"].holds
    assert "impossible" in judged(eye, beta=1.5)["beta"].reason
    near = plain(np.diag([3.0, 1.0, 1.0]))
    assert (
        "too large" in judged(near, beta=1.5)["beta"].reason
        and "impossible" not in judged(near, beta=1.5)["beta"].reason
    )
    for bad in (0.0, -1.0):
        assert "not positive" in judged(eye, beta=bad)["beta"].reason and not judged(eye, beta=bad)["beta"].holds
    assert not judged(plain(np.ones((3, 2))), beta=1e-300)["beta"].holds
    for bad in (math.nan, math.inf, "x", None.__class__):
        with pytest.raises(InvalidInstance, match="beta must be"):
            assumptions(eye, beta=bad)


def test_admissible_shifts_are_decided_exactly():
    X = np.array([[1.0, 0.5], [0.25, 2.0]])
    G = [[Fraction(5, 4), Fraction(5, 4)], [Fraction(5, 4), Fraction(65, 16)]]
    value = float(gram_floor(X).value)
    for shift in (
        value * (1 - 1e-15),
        np.nextafter(value, 0),
        np.nextafter(np.nextafter(value, 9), 9),
        value * (1 + 1e-14),
    ):
        s = Fraction(float(shift))
        truth = (G[0][0] - s) * (G[1][1] - s) >= G[0][1] ** 2
        assert is_positive_semidefinite(X, float(shift)) == truth


# --- delta --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_uniform_attention_has_delta_one_over_n(n):
    instance = Instance(np.random.default_rng(n).standard_normal((n, 3)), np.zeros((3, 3)))
    found = judged(instance)
    assert found["delta"].holds and found["delta"].value == pytest.approx(1 / n, rel=1e-14)
    given = judged(instance, delta=1 / n)
    assert given["delta"].holds and given["delta-allowed"].holds
    assert "impossible" in judged(instance, delta=1.001 / n)["delta"].reason


def test_a_mask_makes_delta_zero_and_leaves_delta_allowed():
    X, W = np.eye(3), np.zeros((3, 3))
    for mask in ("causal", np.tri(3)):
        found = judged(Instance(X, W, mask=mask))
        assert not found["delta"].holds and found["delta"].value == 0.0 and "forbids 3 of 9" in found["delta"].reason
        assert found["delta-allowed"].holds and found["delta-allowed"].value == pytest.approx(1 / 3)
        assert not judged(Instance(X, W, mask=mask), delta=0.1)["delta"].holds
        assert judged(Instance(X, W, mask=mask), delta=0.1)["delta-allowed"].holds
    assert judged(Instance(X, W, mask=np.ones((3, 3))))["delta"].holds  # a mask that forbids nothing
    assert judged(Instance(X[:1], W, mask="causal"))["delta"].holds  # one token: nothing to forbid


def test_delta_against_known_weights_and_its_logarithm():
    X = np.eye(2)
    found = judged(Instance(X, np.log([[1.0, 3.0], [4.0, 1.0]])))
    assert found["delta"].value == pytest.approx(0.2, rel=1e-13)
    far = judged(Instance(X, np.diag([2000.0, 0.0]), mask="causal"))
    assert far["delta-allowed"].log10 == pytest.approx(math.log10(0.5), rel=1e-12)  # row 2 allows 0 and 0
    far = judged(Instance(X, np.diag([2000.0, 3000.0])))
    assert far["delta"].holds and far["delta"].value == 0.0
    assert far["delta"].log10 == pytest.approx(-3000 / math.log(10), rel=1e-12)


def test_delta_at_M_and_of_the_worst_sample():
    X = np.stack([np.eye(2), 3 * np.eye(2)])
    W = np.diag([1.0, 2.0])
    assert judged(Instance(X, W))["delta"].value == pytest.approx(1 / (1 + math.exp(18)), rel=1e-12)
    assert judged(Instance(X, W, M=np.zeros((2, 2))))["delta"].value == pytest.approx(0.5)
    assert judged(Instance(X, W))["beta"].value == 1.0
    assert not judged(Instance(np.stack([np.eye(2), np.ones((2, 2))]), W))["beta"].holds


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_logits_beyond_the_range_of_doubles(scale):
    rng = np.random.default_rng(0)
    found = judged(Instance(rng.standard_normal((3, 3)) * scale, rng.standard_normal((3, 3))))
    assert found["delta"].holds and math.isfinite(found["delta"].log10)
    if scale < 1:
        assert found["delta"].value == pytest.approx(1 / 3)
    assert math.isfinite(found["R"].log10) and found["R"].holds


def test_a_given_delta():
    instance = Instance(np.eye(2), np.log([[1.0, 3.0], [4.0, 1.0]]))
    assert judged(instance, delta=0.19)["delta"].holds
    reason = judged(instance, delta=0.21)["delta"].reason
    assert "too large for this M" in reason and "impossible" not in reason
    assert not judged(instance, delta=0.0)["delta"].holds and not judged(instance, delta=-0.1)["delta-allowed"].holds
    for bad in (math.nan, math.inf, "0.1"):
        with pytest.raises(InvalidInstance, match="delta must be"):
            assumptions(instance, delta=bad)


def test_the_paper_s_delta_is_impossible_at_512_tokens():
    found = judged(Instance(np.zeros((512, 1)), np.ones((1, 1))), delta=0.0025)
    assert "impossible" in found["delta"].reason
    assert judged(Instance(np.zeros((400, 1)), np.ones((1, 1))), delta=0.0025)["delta"].holds


# --- the others ---------------------------------------------------------------------------------------------------


def test_weights_box_norm_lam_and_radius_both_ways():
    eye = np.eye(2)
    ones = np.ones((2, 2))
    assert judged(Instance(eye, ones))["W-nonzero"].holds and judged(Instance(eye, 3 * ones))["W-nonzero"].value == 3.0
    assert not judged(Instance(eye, eye))["W-nonzero"].holds
    assert "fused" in judged(Instance(eye, W_Q=ones, W_K=ones))["W-nonzero"].reason
    assert judged(Instance(eye, ones, M=eye))["M-in-box"].holds
    outside = judged(Instance(eye, ones, M=[[0.5, 1.25], [-0.5, 0.0]]))["M-in-box"]
    assert not outside.holds and outside.value == 0.5 and "2 of 4" in outside.reason
    assert judged(Instance(eye, ones, M=ones))["M-norm"].holds  # ||1||_F = d exactly
    barely = ones.copy()
    barely[0, 0] = np.nextafter(1.0, 2.0)
    assert not judged(Instance(eye, ones, M=barely))["M-norm"].holds
    assert judged(Instance(eye, ones, M=2 * eye * [1, 0]))["M-norm"].holds  # 2 = d, outside the box
    assert judged(Instance(eye, ones, lam=1.0))["lam-in-unit-interval"].holds
    assert not judged(Instance(eye, ones, lam=5.12))["lam-in-unit-interval"].holds
    assert judged(Instance(0.1 * eye, 0.1 * ones))["R"].value == 1.0
    assert judged(Instance(eye, 5 * ones))["R"].value == pytest.approx(10.0)


def test_the_paper_s_synthetic_instance_fails_beta_and_delta():
    found = judged(families.paper_synthetic(np.random.default_rng(0)))
    assert [item.id for item in found.values() if not item.holds] == ["beta", "delta"]


@pytest.mark.parametrize("name", sorted(families.FAMILIES))
def test_every_family_is_judged(name):
    instance = families.FAMILIES[name](np.random.default_rng(5))
    found = judged(instance)
    exact = np.linalg.matrix_rank(instance.samples[0]) == instance.n
    if name != "near_singular":
        assert found["beta"].holds == exact
    assert found["delta"].holds == bool(instance.allowed.all())
    assert found["W-nonzero"].holds == bool((instance.W != 0).all())


def test_an_uncertified_sign_would_be_caught():
    """A rule 'beta > 0 if the float eigenvalue is' gets singular and near-singular instances wrong."""
    singular, regular = np.array([[0.1, 0.7, 0.3], [0.2, 1.4, 0.6]]), np.array([[1.0, 0.0], [1.0, 2.0**-50]])
    by_float = [np.linalg.eigvalsh(X @ X.T)[0] > 0 for X in (singular, regular)]
    assert [beta(X).holds for X in (singular, regular)] == [False, True] != by_float


@pytest.mark.parametrize("value", [1j, np.complex128(0.1 + 1j), np.array(0.1 + 1j), np.ma.masked, "0.1", None, [0.1]])
@pytest.mark.parametrize("name", ["beta", "delta"])
def test_a_parameter_is_a_real_number(name, value):
    """float() would drop an imaginary part with a warning."""
    with pytest.raises(InvalidInstance, match=f"{name} must be a finite real number"):
        assumptions(plain(np.eye(2)), **{name: value if value is not None else "None"})


def test_a_value_beside_its_limit_is_printed_in_full():
    """Six digits would read: lam = 1 lies outside [0, 1]."""
    above = float(np.nextafter(1, 2))
    assert "lam = 1.0000000000000002 lies" in judged(plain(np.eye(2), lam=above))["lam-in-unit-interval"].reason
    assert "beta = 1.0000000000000002 is too large" in judged(plain(np.eye(2)), beta=above)["beta"].reason
    delta = float(np.nextafter(0.5, 1))
    assert f"delta = {delta} is impossible" in judged(plain(np.eye(2)), delta=delta)["delta"].reason
    assert "lam = 0.04 lies in" in judged(plain(np.eye(2), lam=0.04))["lam-in-unit-interval"].reason

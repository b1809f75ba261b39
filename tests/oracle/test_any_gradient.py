"""The gradient of any function: right ones pass, wrong ones fail by more than what is promised to be seen."""

import autograd.numpy as anp
import mpmath
import numpy as np
import pytest

import attnprune_verify as apv

RNG = np.random.default_rng(0)
X, W, M = RNG.standard_normal((6, 4)), RNG.standard_normal((4, 4)), RNG.uniform(0.1, 0.9, (4, 4))


def weights(logits):
    exp = anp.exp(logits - anp.max(logits, axis=-1, keepdims=True))
    return exp / anp.sum(exp, axis=-1, keepdims=True)


DENSE = weights(X @ W @ X.T / 2)


def divergence(M):
    return anp.sum(DENSE * (anp.log(DENSE) - anp.log(weights(X @ (M * W) @ X.T / 2))))


def slopes(M):
    return W * (X.T @ (weights(X @ (M * W) @ X.T / 2) - DENSE) @ X) / 2


def cubes(x, factor=1):
    return factor * (x**3).sum()


@pytest.mark.parametrize("seed", range(5))
def test_a_right_gradient_passes_and_every_way_sees_a_millionth_of_a_millionth(seed):
    found = apv.check_gradient(divergence, M, gradient=slopes, seed=seed)
    found.assert_passed()
    assert {way.name for way in found.ways} == {"taylor-slope", "autograd"} and max(
        way.seen for way in found.ways
    ) < 1e-11
    assert found.ways[0].slope is None or found.ways[0].slope > 2.5


@pytest.mark.parametrize("error", [1e-2, 1e-5, 1e-8, 1e-11])
def test_a_factor_above_what_is_seen_fails(error):
    found = apv.check_gradient(divergence, M, gradient=lambda M: (1 + error) * slopes(M))
    assert found.status == "failed" and found.seen < error
    assert found.ways[0].slope == pytest.approx(1, abs=0.2) or error <= 1e-8
    with pytest.raises(AssertionError, match="taylor-slope failed"):
        found.assert_passed()


def test_one_wrong_entry_and_a_transpose_fail():
    wrong = slopes(M).copy()
    wrong[0, 1] *= 1 + 1e-7
    for gradient in (wrong, slopes(M).T, lambda M: -slopes(M)):
        assert apv.check_gradient(divergence, M, gradient=gradient).status == "failed"


def test_multiprecision_is_used_where_the_function_takes_its_numbers():
    found = apv.check_gradient(cubes, [1.0, 2.0], gradient=lambda x, a: 3 * a * x**2, args=(2,))
    assert [way.name for way in found.ways] == ["taylor-slope", "multiprecision", "autograd"] and found.seen < 1e-12
    exact = apv.check_gradient(
        lambda x: np.exp(x).sum(), [1.0], gradient=np.exp, f_mp=lambda x: sum(map(mpmath.exp, x), mpmath.mpf(0))
    )
    assert exact.status == "passed" and "multiprecision" in {way.name for way in exact.ways}


def test_what_cannot_be_told_is_inconclusive_or_refused():
    coarse = apv.check_gradient(lambda x: float(np.float32(1e9 + x.sum())), [1.0], gradient=[1.0], precision="float32")
    assert coarse.status == "inconclusive"
    assert apv.check_gradient(cubes, [1.0], gradient=[np.nan]).status == "failed"
    for arguments in (([np.inf],), ([],)):
        with pytest.raises(apv.InvalidInstance, match="x must be a finite"):
            apv.check_gradient(cubes, *arguments, gradient=cubes)
    with pytest.raises(apv.InvalidInstance, match="shape of x"):
        apv.check_gradient(cubes, [1.0], gradient=[1.0, 2.0])
    with pytest.raises(apv.InvalidInstance, match="must return a number"):
        apv.check_gradient(lambda x: x, [1.0, 2.0], gradient=[1.0, 1.0])
    with pytest.raises(apv.InvalidInstance, match="must be given where"):
        apv.check_gradient(lambda x: float(str(x[0])), [1.0])

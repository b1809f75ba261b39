"""An Instance is validated once, completely, and never changes."""

import copy
import pickle
from fractions import Fraction

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.problem import Instance

EYE = np.eye(3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(X=np.ones((2, 3)), W=np.ones((2, 2))), r"W has d = 2 where X has d = 3"),
        (dict(X=np.ones((2, 3)), W=np.ones((3, 4))), r"W has d = 4 where X has d = 3"),
        (dict(X=np.ones(3), W=EYE), r"X has 1 dimensions"),
        (dict(X=np.ones((1, 2, 3, 3)), W=EYE), r"X has 4 dimensions"),
        (dict(X=EYE, W=EYE, M=np.ones((3, 2))), r"M has d = 2 where X has d = 3"),
        (dict(X=EYE, W_Q=np.ones((3, 2)), W_K=np.ones((3, 1))), r"W_K has m = 1 where W_Q has m = 2"),
        (dict(X=np.ones((0, 3)), W=EYE), r"X must not be empty; got shape \(0, 3\)"),
        (dict(X=np.ones((3, 0)), W=np.ones((0, 0))), r"X must not be empty"),
        (dict(X=[], W=EYE), r"X must not be empty"),
        (dict(X=np.array([[1, np.nan, 0]]), W=EYE), r"X must be finite; got nan at index \(0, 1\)"),
        (dict(X=EYE, W=np.array([[np.inf] * 3] * 3)), r"W must be finite; got inf at index \(0, 0\)"),
        (dict(X=EYE, W=EYE, M=np.full((3, 3), -np.inf)), r"M must be finite; got -inf"),
        (dict(X=EYE.astype(complex), W=EYE), r"X must hold real numbers; got dtype complex128"),
        (dict(X=EYE.astype(object), W=EYE), r"X must hold real numbers; got dtype object"),
        (dict(X=[["a"] * 3], W=EYE), r"X must hold real numbers; got dtype <U1"),
        (dict(X=[[1, 2, 3], [1, 2]], W=EYE), r"X must be a rectangular array"),
        (dict(X=[[10**400, 0, 0]], W=EYE), r"X must hold real numbers; got dtype object"),
        (dict(X=np.array([[2**53 + 1, 0, 0]]), W=EYE), r"within \+-2\*\*53"),
        (dict(X=np.full((1, 3), np.longdouble("1e4000")), W=EYE), r"X must fit into float64"),
        (dict(X=np.ma.masked_array(EYE, mask=EYE > 0), W=EYE), r"X must be a plain array"),
        (dict(X=None, W=EYE), r"X must hold real numbers; got NoneType"),
        (dict(X=EYE, W=EYE, lam=-1), r"lam must be finite and >= 0; got -1.0"),
        (dict(X=EYE, W=EYE, lam=np.nan), r"lam must be finite and >= 0; got nan"),
        (dict(X=EYE, W=EYE, lam=np.inf), r"lam must be finite and >= 0; got inf"),
        (dict(X=EYE, W=EYE, lam="0.1"), r"lam must be a real number >= 0; got '0.1'"),
        (dict(X=EYE, W=EYE, lam=1j), r"lam must be a real number"),
        (dict(X=EYE, W=EYE, lam=10**400), r"lam must be a real number"),
        (dict(X=EYE, W=EYE, lam=[0.1, 0.2]), r"lam must be a real number"),
        (dict(X=EYE, W=EYE, mask="casual"), r"mask must be None, \"causal\" or .* got 'casual'"),
        (dict(X=EYE, W=EYE, mask=np.ones((2, 3))), r"mask must have shape \(n, n\) = \(3, 3\); got \(2, 3\)"),
        (dict(X=EYE, W=EYE, mask=2 * EYE), r"mask must hold only 0 and 1; got 2.0"),
        (dict(X=EYE, W=EYE, mask=np.diag([1, 0, 1])), r"at least one position; 1 of 3 rows allow none, first row 1"),
        (dict(X=EYE), r"give either W, or both W_Q and W_K; got none of them"),
        (dict(X=EYE, W_Q=EYE), r"give either W, or both W_Q and W_K; got W_Q"),
        (dict(X=EYE, W=EYE, W_Q=EYE, W_K=EYE), r"give either W, or both W_Q and W_K; got W, W_Q, W_K"),
        (dict(X=EYE, W=EYE, W_Q=EYE), r"give either W, or both W_Q and W_K; got W, W_Q"),
        (dict(X=EYE, W_Q=1e300 * EYE, W_K=1e300 * EYE), r"fused weight W_Q W_K\^T must be finite"),
    ],
)
def test_bad_input_names_the_rule_and_the_value(arguments, message):
    with pytest.raises(InvalidInstance, match=message) as caught:
        Instance(**arguments)
    assert "\n" not in str(caught.value)


def test_all_shape_problems_come_at_once():
    with pytest.raises(InvalidInstance) as caught:
        Instance(np.ones((4, 3)), np.ones((2, 3)), M=np.ones((3, 5)))
    assert "W has d = 2 where X has d = 3" in str(caught.value)
    assert "M has d = 5 where X has d = 3" in str(caught.value)


def test_dtype_is_float32_only_if_every_array_is():
    X, W = np.ones((2, 3), np.float32), np.ones((3, 3), np.float32)
    assert Instance(X, W).X.dtype == np.float32
    assert Instance(X, W, M=np.ones((3, 3), np.float16)).X.dtype == np.float64
    assert Instance(X, W.astype(int)).W.dtype == np.float64
    assert Instance(X, W, mask=np.ones((2, 2), int)).X.dtype == np.float32


def test_an_instance_is_a_copy_and_cannot_be_changed():
    X = np.ones((2, 3))
    instance = Instance(X, np.eye(3), lam=Fraction(1, 4))
    X[0, 0] = 7
    assert instance.X[0, 0] == 1 and instance.lam == 0.25
    with pytest.raises(ValueError, match="read-only"):
        instance.X[0, 0] = 2
    with pytest.raises(AttributeError, match="does not change"):
        instance.lam = 2.0


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda instance: pickle.loads(pickle.dumps(instance))])
def test_a_copy_cannot_be_changed_either(copied):
    """Measurements are remembered per instance: a worker's copy that could change would answer for other data."""
    again = copied(Instance(np.ones((2, 3)), np.eye(3), M=np.eye(3), mask=np.eye(2), lam=0.5))
    assert (again.X == 1).all() and again.lam == 0.5 and again.mask_kind == "given"
    for array in (again.X, again.W, again.M, again.mask):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 2
    for change in (lambda: setattr(again, "lam", 2.0), lambda: delattr(again, "M")):
        with pytest.raises(AttributeError, match="does not change"):
            change()


def test_views_of_the_same_problem():
    batch = Instance(np.ones((4, 2, 3)), W_Q=np.ones((3, 1)), W_K=2 * np.ones((3, 1)), mask="causal")
    assert (batch.k, batch.n, batch.d) == (4, 2, 3) and batch.samples.shape == (4, 2, 3)
    assert (batch.W == 2).all() and (batch.M_or_ones == 1).all()
    assert batch.allowed.tolist() == [[True, False], [True, True]] and batch.mask_kind == "causal"
    given = Instance(np.ones((2, 3)), np.eye(3), mask=[[0, 1], [1, 0]])
    assert given.k is None and given.mask_kind == "given" and given.allowed.tolist() == [[False, True], [True, False]]
    moved = given.with_M(np.zeros((3, 3)))
    assert (moved.M_or_ones == 0).all() and given.M is None

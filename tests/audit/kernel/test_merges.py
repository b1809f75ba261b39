"""`check_merge`: right merges pass in every form and type, wrong ones fail under their names."""

import importlib.util

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.merges.check import MergeJudge
from attnprune_verify.audit.kernel.merges.problem import merge_problems
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from tests.audit.kernel.joins import (
    RIGHT,
    WRONG,
    WRONG_BACKWARD,
    backward,
    divided_last,
    in_base_2,
    log_first,
    many,
    one_after_another,
)  # fmt: skip


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("fn", RIGHT)
def test_right_merges_pass(fn, dtype):
    if dtype == "bfloat16" and importlib.util.find_spec("ml_dtypes") is None:
        pytest.skip("NumPy has bfloat16 from ml_dtypes")
    with np.errstate(all="ignore"):
        apv.check_merge(fn, backward=None if fn in (many, one_after_another) else backward, dtype=dtype).assert_passed()


def test_so_do_declared_bases_and_stand_ins_for_nothing():
    apv.check_merge(in_base_2, conventions={"lse_base": "2"}).assert_passed()
    for said, value in (("+inf", np.inf), ("finite", -1e30)):

        def standing_in(o1, a, o2, b, value=value):
            value = np.float32(value)
            a, b = (np.where(x == value, np.float32(-np.inf), x) for x in (a, b))
            o, lse = divided_last(o1, a, o2, b)
            return o, np.where(np.isneginf(lse), value, lse)

        apv.check_merge(standing_in, conventions={"empty_lse": said}).assert_passed()
        assert apv.check_merge(standing_in).diagnosis == {"merge": ("merge-empty",)}


def test_a_merge_of_torch_passes():
    torch = pytest.importorskip("torch")

    def merge(o1, a, o2, b):
        lse = torch.logaddexp(a, b)
        w1, w2 = (torch.exp(x - lse.masked_fill(lse == -torch.inf, 0))[..., None] for x in (a, b))
        return (w1 * o1.float() + w2 * o2.float()).to(o1.dtype), lse

    for dtype in ("float32", "bfloat16", "float16"):
        apv.check_merge(merge, dtype=dtype).assert_passed()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_merges_fail_under_their_name(name):
    fn, id = WRONG[name]
    found = apv.check_merge(fn)
    assert found.outcome == "failed" and found.diagnosis == {"merge": (id,)}


@pytest.mark.parametrize("name", WRONG_BACKWARD)
def test_wrong_gradients_fail_under_their_name(name):
    fn, id = WRONG_BACKWARD[name]
    found = apv.check_merge(divided_last, backward=fn)
    assert found.outcome == "failed" and found.diagnosis == {"merge_backward": (id,)}


def test_the_bound_is_tight_where_one_part_has_all_the_weight():
    """Roundings of weights meet |o1 - o2| p (1 - p): far apart those of the level, 60, are left."""
    judge = MergeJudge(None, PRECISIONS["float32"], Conventions(), -np.inf, False)
    (problem,) = [one for one in merge_problems(PRECISIONS["float32"], 2, 0) if one.name == "far apart"]
    (_, true, allowed), _ = judge.expected("merge", problem)
    assert (allowed <= 600 * 2.0**-24 * np.abs(problem.o).sum(axis=0)).all() and (
        allowed > 2.0**-24 * np.abs(true)
    ).all()


def test_the_bound_is_no_smaller_than_the_theorem_on_differences():
    """merge_error, with w = 1 / (1 + exp(lse1 - lse2)): exp off by 64 units, three roundings."""
    judge, u = MergeJudge(None, PRECISIONS["float32"], Conventions(), -np.inf, False), 2.0**-24
    for problem in merge_problems(PRECISIONS["float32"], 2, 1):
        if problem.empty:
            continue
        (_, true, allowed), _ = judge.expected("merge", problem)
        apart = problem.lse[0] - problem.lse[1]
        p = (1 / (1 + np.exp(apart)))[..., None]
        rho = p * ((1 - p) * (64 * u + 2 * u * np.abs(apart)[..., None]) + 3 * u)
        proved = (1 + u) * (rho + (2 * u + u**2) * (p + rho)) * np.abs(problem.o[0] - problem.o[1]) + u * np.abs(true)
        assert (proved <= allowed).all(), problem.name


def test_what_cannot_be_judged_is_refused():
    with pytest.raises(apv.InvalidInstance, match="fn must be callable"):
        apv.check_merge(3)
    with pytest.raises(apv.InvalidInstance, match="empty_lse"):
        apv.check_merge(log_first, conventions={"empty_lse": "nan"})
    for fn in (lambda o1, a, o2, b: o1 * 1, lambda o1, a, o2, b: o1 / 0 * None):
        assert apv.check_merge(fn).diagnosis == {"merge": ("unknown",)}

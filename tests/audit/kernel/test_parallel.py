"""`check_parallel`: right steps pass on every layout of shards, wrong ones fail under their names."""

import numpy as np
import pytest

import attnprune_verify as apv


def turned(x):
    return np.swapaxes(x, -1, -2)


def attend(q, k, v, allowed):
    s = np.where(allowed, q @ turned(k) * q.dtype.type(q.shape[-1] ** -0.5), -np.inf)
    top = s.max(-1, keepdims=True)
    top = np.where(np.isneginf(top), 0, top).astype(q.dtype)
    e = np.exp(s - top)
    total = e.sum(-1, keepdims=True)
    return (e @ v) / np.where(total > 0, total, 1), (top + np.log(total))[..., 0]


def triangle(q, k, causal, shift=0):
    return np.tri(q.shape[2], k.shape[2], shift, dtype=bool) | (not causal)


def step(q, k, v, *, causal):
    return attend(q, k, v, triangle(q, k, causal))


def by_position(q, k, v, *, causal, q_positions, k_positions):
    return attend(q, k, v, (k_positions <= q_positions[:, None]) | (not causal))


def online(q, k, v, *, causal):
    """Key by key, with a running maximum."""
    top, total, o = (np.full((*q.shape[:-1], 1), x, q.dtype) for x in (-np.inf, 0, 0))
    for j in range(k.shape[2]):
        s = np.where(
            triangle(q, k, causal)[:, j : j + 1],
            q @ turned(k[:, :, j : j + 1]) / np.sqrt(q.dtype.type(q.shape[-1])),
            -np.inf,
        )
        new = np.maximum(top, s)
        was, is_ = (np.exp(x - np.where(np.isneginf(new), 0, new)) for x in (top, s))
        top, total, o = new, was * total + is_, was * o + is_ * v[:, :, j : j + 1]
    return o / np.where(total > 0, total, 1), (top + np.log(total))[..., 0]


def in_16_bits(q, k, v, *, causal):
    o, lse = step(*(x.astype(np.float32) for x in (q, k, v)), causal=causal)
    return o.astype(q.dtype), lse


def gradients(q, k, v, do, o, lse, allowed, mean=None):
    scale = q.dtype.type(q.shape[-1] ** -0.5)
    p = np.where(allowed, np.exp(q @ turned(k) * scale - lse[..., None]), 0)
    ds = p * (do @ turned(v) - ((do * o).sum(-1, keepdims=True) if mean is None else mean))
    return scale * (ds @ k), scale * (turned(ds) @ q), turned(p) @ do


def backward(q, k, v, do, o, lse, *, causal):
    return gradients(q, k, v, do, o, lse, triangle(q, k, causal))


def backward_by_position(q, k, v, do, o, lse, *, causal, q_positions, k_positions):
    return gradients(q, k, v, do, o, lse, (k_positions <= q_positions[:, None]) | (not causal))


def merge(o1, lse1, o2, lse2):
    lse = np.logaddexp(lse1, lse2)
    w1, w2 = (np.exp(x - np.where(np.isneginf(lse), 0, lse))[..., None] for x in (lse1, lse2))
    return w1 * o1 + w2 * o2, lse


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("fn", "back"), [(step, backward), (by_position, backward_by_position), (online, None)])
def test_right_steps_pass(fn, back, dtype):
    apv.check_parallel(fn, backward_step=back, dtype=dtype).assert_passed()


def test_so_do_a_merge_of_ones_own_and_16_bits():
    with np.errstate(invalid="ignore"):
        apv.check_parallel(step, merge=merge, ranks=(1, 2, 8)).assert_passed()
    apv.check_parallel(in_16_bits, dtype="float16").assert_passed()


WRONG = {
    "causal ignored": lambda q, k, v, *, causal: attend(q, k, v, triangle(q, k, False)),
    "one key too many": lambda q, k, v, *, causal: attend(q, k, v, triangle(q, k, causal, 1)),
    "one key too few": lambda q, k, v, *, causal: attend(q, k, v, triangle(q, k, causal, -1)),
    "positions within the shard": (
        lambda q, k, v, *, causal, q_positions, k_positions: attend(q, k, v, triangle(q, k, causal))),
    "positions from the first of the shard": (
        lambda q, k, v, *, causal, q_positions, k_positions: attend(
            q, k, v, triangle(q, k, causal, int(q_positions[0] - k_positions[0])))),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_masks_fail(name):
    assert apv.check_parallel(WRONG[name]).diagnosis == {"step": ("shard-mask",)}


def test_only_zigzag_shows_shards_that_are_taken_for_contiguous():
    found = apv.check_parallel(WRONG["positions from the first of the shard"])
    assert {record.says.split(",")[0] for record in found.checks if record.status == "failed"} == {"zigzag"}


WRONG_BACKWARD = {
    "weights of the shard": lambda q, k, v, do, o, lse, *, causal: gradients(
        q, k, v, do, o, attend(q, k, v, triangle(q, k, causal))[1], triangle(q, k, causal)),
    "the shard's own output": lambda q, k, v, do, o, lse, *, causal: gradients(
        q, k, v, do, attend(q, k, v, triangle(q, k, causal))[0], lse, triangle(q, k, causal)),
    "not causal": lambda q, k, v, do, o, lse, *, causal: gradients(q, k, v, do, o, lse, triangle(q, k, False)),
    "no mean": lambda q, k, v, do, o, lse, *, causal: gradients(q, k, v, do, o, lse, triangle(q, k, causal), 0.0),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_BACKWARD)
def test_wrong_gradients_fail(name):
    found = apv.check_parallel(step, backward_step=WRONG_BACKWARD[name])
    assert found.diagnosis == {"backward_step": ("shard-gradient",)}


def test_a_wrong_merge_is_named_as_such():
    found = apv.check_parallel(step, merge=lambda o1, a, o2, b: ((o1 + o2) / 2, np.logaddexp(a, b)))
    assert found.diagnosis == {"merge": ("merge-weights",)}


def test_what_cannot_be_judged_is_refused():
    for given in ({"ranks": (3,)}, {"shards": ("striped",)}, {"merge": 3}, {"dtype": "int8"}):
        with pytest.raises(apv.InvalidInstance):
            apv.check_parallel(step, **given)
    assert apv.check_parallel(lambda q, k, v, *, causal: 1 / 0).outcome == "failed"

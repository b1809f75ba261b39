"""Stored inputs of a trained network: what the command derives, and mistakes that only they show."""

import numpy as np
import pytest

from attnprune_verify.audit.kernel.check import check_attention
from attnprune_verify.audit.kernel.problem.real_inputs import BLOCKS, STORED
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.problem.tensors import unpacked


def test_they_are_what_the_command_derives():
    pytest.importorskip("tokenizers")
    pytest.importorskip("safetensors")
    from benchmarks.real_inputs import derived

    stored, again = unpacked(STORED.read_bytes(), STORED.name), derived()
    assert set(stored) == set(again)
    for name, array in stored.items():
        # half a unit of float16, which is 2^-24 below 2^-14, and what another BLAS may turn
        assert (np.abs(array - again[name]) <= 1.01 * (2.0**-11 * np.abs(again[name]) + 2.0**-25)).all()
    assert STORED.stat().st_size < 100_000


def _attention(q, k, v, causal, mask, scale):
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[-1] ** -0.5 if scale is None else scale)
    allowed = np.ones(s.shape[-2:], bool) if mask is None else mask
    s = np.where(allowed & np.tri(*s.shape[-2:], dtype=bool) if causal else allowed, s, -np.inf)
    with np.errstate(invalid="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        return p / p.sum(-1, keepdims=True) @ v


def right(q, k, v, *, causal=False, scale=None, mask=None):
    return _attention(q, k, v, causal, mask, scale)


def one_key_for_equal_values(q, k, v, *, causal=False, scale=None, mask=None):
    """A cache of keys found by the content of the values, as a prefix cache is by the content of its tokens."""
    k = k.copy()
    for head in np.ndindex(k.shape[:2]):
        held = {}
        for place, row in enumerate(v[head]):
            k[(*head, place)] = held.setdefault(row.tobytes() if row.any() else place, k[(*head, place)].copy())
    return _attention(q, k, v, causal, mask, scale)


def near_keys_merged(q, k, v, *, causal=False, scale=None, mask=None):
    """A key close to an earlier one, less than a fifth of its length away, is taken for it."""
    k = k.copy()
    if k.shape[-1] >= 16:  # in few features keys are close by chance
        for head in np.ndindex(k.shape[:2]):
            rows, length = k[head], np.linalg.norm(k[head], axis=-1)
            for place in range(1, len(rows)):
                away = np.linalg.norm(rows[:place] - rows[place], axis=-1)
                if (away < length[place] / 5).any():
                    rows[place] = rows[int(np.argmin(away))]
    return _attention(q, k, v, causal, mask, scale)


@pytest.mark.parametrize("wrong", [one_key_for_equal_values, near_keys_merged])
@pytest.mark.thorough
def test_a_mistake_that_random_inputs_do_not_show(wrong):
    found = check_attention(wrong, names="never")
    assert found.outcome == "failed"
    assert {one.id for one in found.checks if one.status == "failed"} == {"attention:values:real-inputs"}


def test_both_mistakes_are_found_by_their_regime_and_a_right_kernel_passes():
    for kernel, outcome in ((right, "passed"), (one_key_for_equal_values, "failed"), (near_keys_merged, "failed")):
        found = check_attention(kernel, names="never", only=("attention:values:plain", "attention:values:real-inputs"))
        assert found.outcome == outcome, kernel.__name__


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_every_dtype_has_them_exactly(dtype):
    samples = regimes(0, dtype)["real inputs"].samples
    assert len(samples) == 3 * len(BLOCKS)
    for one in samples:
        for array in (one.q, one.k, one.v, one.do):
            assert np.array_equal(one.precision.exact(array), array)

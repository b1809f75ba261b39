"""Index lists and pages in `attention_interval` and its kin: by a gather before the same truth and the same bounds."""

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify import InvalidInstance
from attnprune_verify.audit.kernel.problem.integers import ListedSample

RNG = np.random.default_rng(0)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def one_by_one(q, k, v, indices, do, dlse):
    """o, lse, dq, dk and dv, entry of a list by entry, in float64."""
    (batch, heads, n, m), kv_heads = q.shape, k.shape[1]
    q, k, v, do, dlse = (x.astype(float) for x in (q, k, v, do, dlse))
    o, lse, dq, dk, dv = np.zeros_like(do), np.zeros_like(dlse), np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for b, h, i in np.ndindex(batch, heads, n):
        key = h // (heads // kv_heads)
        own = indices[b, {1: 0, kv_heads: key, heads: h}[indices.shape[1]], i]
        own = own[own >= 0]
        s = k[b, key, own] @ q[b, h, i] / np.sqrt(m)
        p = np.exp(s - s.max())
        lse[b, h, i], p = s.max() + np.log(p.sum()), p / p.sum()
        o[b, h, i] = p @ v[b, key, own]
        dp = v[b, key, own] @ do[b, h, i]
        ds = p * (dp - p @ dp + dlse[b, h, i])
        dq[b, h, i] = ds @ k[b, key, own] / np.sqrt(m)
        np.add.at(dk[b, key], own, ds[:, None] * q[b, h, i] / np.sqrt(m))
        np.add.at(dv[b, key], own, p[:, None] * do[b, h, i])
    return o, lse, dq, dk, dv


@pytest.mark.parametrize("of", ["heads", "key heads", "all heads"])
@pytest.mark.parametrize("repeated", [False, True])
def test_lists_are_gathered_and_gradients_added_up(of, repeated):
    q, do, k, v, dlse = drawn(2, 4, 3, 4), drawn(2, 4, 3, 5), drawn(2, 2, 9, 4), drawn(2, 2, 9, 5), drawn(2, 4, 3)
    own = {"heads": 4, "key heads": 2, "all heads": 1}[of]
    indices = np.argsort(RNG.random((2, own, 3, 9)))[..., :6]
    indices[..., 4] = -1
    if repeated:
        indices[..., 1] = indices[..., 0]
    right = one_by_one(q, k, v, indices, do, dlse)
    o, lse = apv.reference_attention(q, k, v, indices=indices, return_lse=True)
    gradients = apv.reference_attention_backward(q, k, v, do, dlse=dlse, indices=indices)
    for found, expected in zip((o, lse, *gradients), right, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
    parts = dict(zip(("o", "lse", "dq", "dk", "dv"), (x.astype(np.float32) for x in right), strict=True))
    apv.assert_attention(q, k, v, do=do, dlse=dlse, indices=indices, **parts)
    for name, part in parts.items():
        wrong = part.copy()
        wrong.flat[3] += np.float32(1e-3)
        with pytest.raises(AssertionError, match=name):
            apv.assert_attention(q, k, v, do=do, dlse=dlse, indices=indices, **{name: wrong})


def test_whole_lists_are_attention():
    """The same truth to the last bits, and bounds of the same size, as of attention without lists."""
    q, k, v, do = drawn(1, 2, 5, 8), drawn(1, 1, 7, 8), drawn(1, 1, 7, 8), drawn(1, 2, 5, 8)
    every = np.broadcast_to(np.arange(7), (1, 1, 5, 7))
    for causal in (False, True):
        one = apv.attention_interval(q, k, v, do, causal=causal)
        two = apv.attention_interval(q, k, v, do, causal=causal, indices=every)
        for name in ("o", "lse", "dq", "dk", "dv"):
            a, b = getattr(one, name), getattr(two, name)
            np.testing.assert_allclose(a.true, b.true, rtol=0, atol=1e-14)
            widths = (b.highest - b.lowest) / (a.highest - a.lowest)
            assert (widths > 0.99).all() and (widths < 1.3).all()


def test_lists_without_first_axes():
    q, k, v = drawn(3, 4), drawn(6, 4), drawn(6, 4)
    indices = np.array([[0, 5], [1, -1], [4, 4]])
    o = apv.reference_attention(q, k, v, indices=indices)
    np.testing.assert_allclose(o[1:], v[[1, 4]], rtol=0, atol=0)


def test_sinks_and_masks_stand_beside_lists():
    q, k, v = np.zeros((1, 1, 1, 1)), np.zeros((1, 1, 3, 1)), np.array([1.0, 2.0, 4.0]).reshape(1, 1, 3, 1)
    lists = np.array([[[[0, 2, 2]]]])
    assert apv.reference_attention(q, k, v, indices=lists).item() == 3
    assert apv.reference_attention(q, k, v, indices=lists, sinks=np.zeros(1)).item() == 9 / 4
    assert apv.reference_attention(q, k, v, indices=lists, mask=np.array([[True, True, False]])).item() == 1
    assert apv.reference_attention(q, k, v, indices=lists, causal=True).item() == 1
    do = np.ones((1, 1, 1, 1))
    *_, dsinks = apv.reference_attention_backward(q, k, v, do, indices=lists, sinks=np.zeros(1))
    assert dsinks == pytest.approx([-9 / 16], abs=1e-15)


def test_long_lists_go_in_blocks(monkeypatch):
    from attnprune_verify.audit.kernel.problem import integers

    q, k, v, do, indices = drawn(2, 2, 6, 4), drawn(2, 1, 9, 4), drawn(2, 1, 9, 4), drawn(2, 2, 6, 4), None
    indices = RNG.integers(0, 9, (2, 2, 6, 5))
    found = []
    for most in (integers._MOST, 100):
        monkeypatch.setattr(integers, "_MOST", most)
        one = apv.attention_interval(q, k, v, do, indices=indices)
        found.append([getattr(one, name) for name in ("o", "dq", "dk", "dv")])
    for whole, blocked in zip(*found, strict=True):
        np.testing.assert_allclose(whole.true, blocked.true, rtol=0, atol=1e-14)
        np.testing.assert_allclose(whole.highest, blocked.highest, rtol=1e-12)


def paged(k, page_size, table, pages):
    """Keys as they lie in pages; the rest holds NaN."""
    pool = np.full((pages, page_size, k.shape[1], k.shape[3]), np.nan, k.dtype)
    for item, numbers in enumerate(table):
        for place, number in enumerate(numbers):
            part = k[item, :, place * page_size : (place + 1) * page_size].swapaxes(0, 1)
            pool[number, : len(part)] = part
    return pool


@pytest.mark.parametrize("causal", [False, True])
def test_pages_are_the_keys_that_tables_name(causal):
    q, k, v = drawn(2, 4, 2, 4), drawn(2, 2, 10, 4), drawn(2, 2, 10, 5)
    table, lengths, given = [[4, 1, 6], [0, 5, 2]], [10, 7], {"causal": causal}
    given["conventions"] = {"causal_alignment": "bottom-right"}
    pages = [paged(x, 4, table, 8) for x in (k, v)]
    pages[0][2, 1:], table[1][2] = np.nan, -7  # behind the length of the second sample
    o = apv.reference_attention(q, *pages, block_table=np.array(table), lengths=np.array(lengths), **given)
    for item, own in enumerate(lengths):
        place = slice(item, item + 1)
        right = apv.reference_attention(q[place], k[place, :, :own], v[place, :, :own], **given)
        np.testing.assert_allclose(o[place], right, rtol=0, atol=1e-15)
    found = apv.attention_interval(q, *pages, block_table=np.array(table), lengths=np.array(lengths), **given)
    assert found.judge(o=o.astype(np.float32))["o"].inside and not found.judge(o=o * 1.001)["o"].inside


def test_a_sample_without_keys():
    pool, table = drawn(2, 4, 1, 4), np.array([[0], [1]])
    o, lse = apv.reference_attention(
        drawn(2, 1, 1, 4), pool, pool, block_table=table, lengths=np.array([0, 4]), return_lse=True
    )
    assert not o[0].any() and lse[0] == -np.inf and o[1].all()


Q, K, LISTS = np.zeros((1, 2, 3, 4)), np.zeros((1, 2, 5, 4)), np.zeros((1, 1, 3, 2), int)
PAGES, TABLE, LENGTHS = np.zeros((6, 2, 2, 4)), np.zeros((1, 3), int), np.array([5])


@pytest.mark.parametrize(
    ("keys", "given", "said"),
    [
        (K, {"indices": LISTS + 5}, r"indices must be keys in 0..4, or -1 for none; got 5 at \[0, 0, 0, 0\]"),
        (K, {"indices": LISTS - 2}, "got -2"),
        (K, {"indices": LISTS + 0.5}, "indices must hold integers; got 0.5"),
        (K, {"indices": LISTS[:, :, :2]}, r"n, topk\), here \(1, 2 or 2 or 1, 3, topk\); got \(1, 1, 2, 2\)"),
        (K, {"indices": LISTS, "alibi": np.ones(2)}, "indices must not stand beside alibi: leave out one or the other"),
        (K, {"indices": LISTS, "bias": np.ones((1, 1, 3, 5))}, "indices must not stand beside bias"),
        (PAGES, {"block_table": TABLE}, "block_table and lengths go together; got none of lengths: pass lengths=..."),
        (PAGES, {"lengths": LENGTHS}, "got none of block_table"),
        (PAGES, {"block_table": TABLE + 6, "lengths": LENGTHS}, r"pages in 0..5 up to each length; got 6 at \[0, 0\]"),
        (PAGES, {"block_table": TABLE, "lengths": LENGTHS + 2}, r"lengths must be in 0..6, .* has room for; got \[7\]"),
        (PAGES, {"block_table": TABLE[0], "lengths": LENGTHS}, r"k and v must be \(pages, page_size, kv_heads, m\)"),
        (PAGES, {"block_table": TABLE, "lengths": LENGTHS, "indices": LISTS}, "must not stand beside indices"),
        (PAGES, {"block_table": TABLE, "lengths": LENGTHS, "do": Q}, "block_table must not stand beside do"),
    ],
)  # fmt: skip
def test_what_does_not_fit_together_is_refused(keys, given, said):
    with pytest.raises(InvalidInstance, match=said):
        apv.attention_interval(Q, keys, keys, **given)


def test_entries_that_name_a_key_again_are_more_terms_of_its_gradient(monkeypatch):
    """Added up one after the other in float32, 12,011 equal weights are 1,542 units off 1."""
    topk = 12_011
    q, k, v, do = (np.ones((1, 1, 1, 1), np.float32) for _ in range(4))
    indices = np.zeros((1, 1, 1, topk), int)
    dv = np.cumsum(np.full(topk, 1 / topk, np.float32), dtype=np.float32)[-1].reshape(v.shape)
    apv.assert_attention(q, k, v, do=do, indices=indices, dv=dv)
    monkeypatch.setattr(ListedSample, "repeats", 1)
    with pytest.raises(AssertionError, match="dv"):
        apv.assert_attention(q, k, v, do=do, indices=indices, dv=dv)

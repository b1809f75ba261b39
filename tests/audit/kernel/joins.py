"""Merges of partial results, right and wrong; this text is a target of the audit, too."""

import numpy as np


def wide(*arrays):
    """16-bit numbers as float32, as a kernel reads them."""
    return [x.astype(np.float32) if x.dtype.itemsize == 2 else x for x in arrays]


def log_first(o1, a, o2, b):
    lse, (x, y) = np.logaddexp(a, b), wide(o1, o2)
    w1, w2 = (np.where(np.isneginf(t), 0, np.exp(t - np.where(np.isneginf(lse), 0, lse)))[..., None] for t in (a, b))
    return (w1 * x + w2 * y).astype(o1.dtype), lse


def shifted(a, b, exp=np.exp):
    top = np.maximum(a, b)
    top = np.where(np.isneginf(top), 0, top).astype(a.dtype)
    return top, exp(a - top), exp(b - top)


def divided_last(o1, a, o2, b):
    (top, e1, e2), (x, y) = shifted(a, b), wide(o1, o2)
    total = e1 + e2
    o = (e1[..., None] * x + e2[..., None] * y) / np.where(total > 0, total, 1)[..., None]
    return o.astype(o1.dtype), top + np.log(total)


def divided_first(o1, a, o2, b):
    (top, e1, e2), (x, y) = shifted(a, b), wide(o1, o2)
    total = e1 + e2
    w1, w2 = (e / np.where(total > 0, total, 1) for e in (e1, e2))
    return (w1[..., None] * x + w2[..., None] * y).astype(o1.dtype), top + np.log(total)


def sigmoid(o1, a, o2, b):
    """o1 - w (o1 - o2), as ring attention has it."""
    x, y = wide(o1, o2)
    with np.errstate(over="ignore"):
        gap = np.where(np.isneginf(b), -np.inf, np.where(np.isneginf(a), np.inf, b - np.where(np.isneginf(a), 0, a)))
        w = (1 / (1 + np.exp(-gap)))[..., None].astype(x.dtype)
    nothing = np.isneginf(a) & np.isneginf(b)
    lse = np.where(nothing, -np.inf, np.maximum(a, b) + np.log1p(np.exp(-np.abs(gap))))
    return (x - w * (x - y)).astype(o1.dtype), lse.astype(a.dtype)


def mirrored(o1, a, o2, b):
    return sigmoid(o2, b, o1, a)


def powers_of_two(o1, a, o2, b):
    one = a.dtype.type(np.log2(np.e))
    o, lse = in_base_2(o1, a * one, o2, b * one)
    return o, lse / one


def in_base_2(o1, a, o2, b):
    (top, e1, e2), (x, y) = shifted(a, b, np.exp2), wide(o1, o2)
    total = e1 + e2
    o = (e1[..., None] * x + e2[..., None] * y) / np.where(total > 0, total, 1)[..., None]
    return o.astype(o1.dtype), top + np.log2(total)


def in_float64(o1, a, o2, b):
    o, lse = divided_last(*(x.astype(np.float64) for x in (o1, a, o2, b)))
    return o.astype(o1.dtype), lse.astype(a.dtype)


def many(o, lse):
    top = lse.max(axis=0)
    top = np.where(np.isneginf(top), 0, top).astype(lse.dtype)
    e = np.exp(lse - top)
    total = e.sum(axis=0)
    merged = (e[..., None] * wide(o)[0]).sum(axis=0) / np.where(total > 0, total, 1)[..., None]
    return merged.astype(o.dtype), top + np.log(total)


def one_after_another(o, lse):
    found, own = wide(o)[0][0], lse[0]
    for x, b in zip(wide(o)[0][1:], lse[1:], strict=True):
        found, own = divided_last(found, own, x, b)
    return found.astype(o.dtype), own


RIGHT = (log_first, divided_last, divided_first, sigmoid, mirrored, powers_of_two, in_float64, many, one_after_another)


def backward(o1, a, o2, b, do, dlse):
    (_, e1, e2), (x, y, g) = shifted(a, b), wide(o1, o2, do)
    w1, w2 = e1 / (e1 + e2), e2 / (e1 + e2)
    o = w1[..., None] * x + w2[..., None] * y
    dw = [w * ((g * (t - o)).sum(-1) + dlse) for w, t in ((w1, x), (w2, y))]
    return (w1[..., None] * g).astype(do.dtype), dw[0], (w2[..., None] * g).astype(do.dtype), dw[1]


def unguarded(o1, a, o2, b):
    top = np.maximum(a, b)
    e1, e2 = np.exp(a - top), np.exp(b - top)
    return (e1[..., None] * o1 + e2[..., None] * o2) / (e1 + e2)[..., None], top + np.log(e1 + e2)


def unshifted(o1, a, o2, b):
    e1, e2 = np.exp(a), np.exp(b)
    total = e1 + e2
    return (e1[..., None] * o1 + e2[..., None] * o2) / np.where(total > 0, total, 1)[..., None], np.log(total)


def overwriting(o1, a, o2, b):
    o1[...], lse = divided_last(o1, a, o2, b)
    return o1, lse


def as_if_contiguous(o1, a, o2, b):
    """Both parts by the strides of the first."""
    if not o2.flags.c_contiguous:
        base = o2.base if o2.base is not None else o2
        o2 = base.reshape(-1)[: o2.size].reshape(o2.shape)
    return divided_last(o1, a, o2, b)


def narrow(o1, a, o2, b):
    o, lse = divided_last(o1, a, o2, b)
    o[..., 128:] = 0
    return o, lse


def counted(lse):
    return np.where(np.isneginf(lse), np.float32(-5), lse)


def last(*given, times=1.0, plus=0.0):
    """Output and log sum exp, which is changed."""
    o, lse = divided_last(*given)
    return o, lse * np.float32(times) + np.float32(plus)


WRONG = {
    "base 2 read as natural": (in_base_2, "merge-base"),
    "natural read as base 2": (lambda *x: (in_base_2(*x)[0], last(*x)[1]), "merge-base"),
    "returned in base 2": (lambda *x: last(*x, times=np.log2(np.e)), "merge-base"),
    "two empty parts": (unguarded, "merge-empty"),
    "an empty part counts": (lambda o1, a, o2, b: divided_last(o1, counted(a), o2, counted(b)), "merge-empty"),
    "a finite number for nothing": (lambda *x: (last(*x)[0], np.maximum(last(*x)[1], -1e30)), "merge-empty"),
    "no maximum": (unshifted, "merge-unstable"),
    "averaged": (lambda o1, a, o2, b: ((o1 + o2) / 2, divided_last(o1, a, o2, b)[1]), "merge-weights"),
    "exchanged": (lambda o1, a, o2, b: divided_last(o1, b, o2, a), "merge-weights"),
    "not divided": (lambda o1, a, o2, b: (divided_last(o1, a, o2, b)[0] * sum(shifted(a, b)[1:])[..., None],
                                          last(o1, a, o2, b)[1]), "merge-weights"),
    "the maximum for lse": (lambda o1, a, o2, b: (divided_last(o1, a, o2, b)[0], np.maximum(a, b)), "merge-lse"),
    "lse 1e-3 off": (lambda *x: last(*x, plus=1e-3), "merge-lse"),
    "strides of the first": (as_if_contiguous, "merge-strides"),
    "128 features": (narrow, "merge-strides"),
    "overwritten": (overwriting, "merge-aliases"),
    "returned as it came": (lambda o1, a, o2, b: (divided_last(o1, a, o2, b)[0], a), "merge-aliases"),
}  # fmt: skip


WRONG_BACKWARD = {
    "dlse left out": (lambda *x: backward(*x[:-1], 0 * x[-1]), "merge-lse"),
    "do as it is": (lambda *x: (x[4] * 1, backward(*x)[1], x[4] * 1, backward(*x)[3]), "merge-weights"),
    "weights' gradient without the mean": (
        lambda o1, a, o2, b, do, dlse: (backward(o1, a, o2, b, do, dlse)[0], (do * o1).sum(-1),
                                        *backward(o1, a, o2, b, do, dlse)[2:]), "merge-lse"),
}  # fmt: skip

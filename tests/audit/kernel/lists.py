"""Kernels with index lists and with pages, right and wrong; the text of this module is a target of `audit-kernel`."""

import numpy as np


def of_heads(indices, heads, kv_heads):
    """The lists of every query head."""
    own = indices.shape[1]
    if own in (1, heads):
        return np.broadcast_to(indices, (len(indices), heads, *indices.shape[2:]))
    return np.repeat(indices, heads // kv_heads, axis=1)


def spread(x, heads):
    return np.repeat(x, heads // x.shape[1], axis=1)


def weights(s, axis=-1):
    top = s.max(axis, keepdims=True)
    p = np.exp(s - np.where(np.isneginf(top), 0, top).astype(s.dtype))
    total = p.sum(axis, keepdims=True)
    return p / np.where(total > 0, total, 1)


def gathered(q, k, v, indices):
    """The keys and values of each query, and where there are such."""
    heads = q.shape[1]
    idx = of_heads(indices, heads, k.shape[1])
    batch, head = np.ogrid[: len(q), :heads]
    at = batch[..., None, None], (head // (heads // k.shape[1]))[..., None, None], np.where(idx < 0, 0, idx)
    return k[at], v[at], idx >= 0


def at_once(q, k, v, indices):
    own, values, there = gathered(q, k, v, indices)
    s = np.einsum("bhim,bhitm->bhit", q, own) / np.sqrt(q.dtype.type(q.shape[-1]))
    return np.einsum("bhit,bhitm->bhim", weights(np.where(there, s, -np.inf)), values)


def tiled(q, k, v, indices):
    """Online softmax over tiles of 5 entries."""
    own, values, there = gathered(q, k, v, indices)
    one = q.dtype.type
    top, total = np.full(q.shape[:3], -np.inf, q.dtype), np.zeros(q.shape[:3], q.dtype)
    o = np.zeros((*q.shape[:3], v.shape[-1]), q.dtype)
    for start in range(0, indices.shape[-1], 5):
        part = slice(start, start + 5)
        s = np.einsum("bhim,bhitm->bhit", q, own[..., part, :]) / np.sqrt(one(q.shape[-1]))
        s = np.where(there[..., part], s, -np.inf)
        new = np.maximum(top, s.max(-1))
        safe = np.where(np.isneginf(new), 0, new)
        p, shrink = np.exp(s - safe[..., None]), np.exp(top - safe)
        total, o = (
            total * shrink + p.sum(-1),
            o * shrink[..., None] + np.einsum("bhit,bhitm->bhim", p, values[..., part, :]),
        )
        top = new
    return o / np.where(total > 0, total, 1)[..., None]


def counts(q, k, v, indices):
    """How often each query's list names each key."""
    idx = of_heads(indices, q.shape[1], k.shape[1])
    found = np.zeros((*q.shape[:3], k.shape[2] + 1), q.dtype)
    places = np.indices(idx.shape)
    np.add.at(found, (places[0], places[1], places[2], np.where(idx < 0, k.shape[2], idx)), 1)
    return found[..., :-1]


def by_counts(q, k, v, indices):
    """All keys, weighted by how often they are named."""
    heads = q.shape[1]
    s = q @ np.swapaxes(spread(k, heads), -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    number = counts(q, k, v, indices)
    top = np.where(number > 0, s, -np.inf).max(-1, keepdims=True)
    p = number * np.exp(np.minimum(s - np.where(np.isneginf(top), 0, top), 0))
    total = p.sum(-1, keepdims=True)
    return p / np.where(total > 0, total, 1) @ spread(v, heads)


def one_by_one(q, k, v, indices):
    """Python loops; a list in reversed order."""
    o = np.zeros((*q.shape[:3], v.shape[-1]), q.dtype)
    idx, group = of_heads(indices, q.shape[1], k.shape[1]), q.shape[1] // k.shape[1]
    for b, h, i in np.ndindex(q.shape[:3]):
        own = idx[b, h, i][::-1]
        own = own[own >= 0]
        if len(own):
            s = k[b, h // group, own] @ (q[b, h, i] / np.sqrt(q.dtype.type(q.shape[-1])))
            o[b, h, i] = weights(s) @ v[b, h // group, own]
    return o


def gradients(q, k, v, do, indices, add=True):
    heads, scale = q.shape[1], 1 / np.sqrt(q.dtype.type(q.shape[-1]))
    own, values, there = gathered(q, k, v, indices)
    p = weights(np.where(there, np.einsum("bhim,bhitm->bhit", q, own) * scale, -np.inf))
    dp = np.einsum("bhim,bhitm->bhit", do, values)
    ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * scale
    dq = np.einsum("bhit,bhitm->bhim", ds, own)
    idx = of_heads(indices, heads, k.shape[1])
    places = np.indices(idx.shape)
    at = places[0], places[1] // (heads // k.shape[1]), np.where(idx < 0, 0, idx)
    found = []
    for like, w, x in ((k, ds, q), (v, p, do)):
        terms, total = w[..., None] * x[:, :, :, None], np.zeros_like(like)
        if add:
            np.add.at(total, at, terms)
        else:
            total[tuple(part[there] for part in at)] = terms[there]
        found.append(total)
    return dq, *found


def in_float64(q, k, v, do, indices):
    return tuple(x.astype(q.dtype) for x in gradients(*(x.astype(float) for x in (q, k, v, do)), indices))


RIGHT_LISTS = {
    "at once": (at_once, gradients),
    "tiles": (tiled, in_float64),
    "by counts": (by_counts, None),
    "one by one": (one_by_one, None),
}


def in_table(q, k, v, block_table, lengths, size=None, keep=None):
    """All pages of a table side by side."""
    keys, values = (x[block_table].reshape(len(q), -1, *x.shape[2:]).swapaxes(1, 2) for x in (k, v))
    s = q @ np.swapaxes(spread(keys, q.shape[1]), -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
    s = np.where(np.arange(s.shape[-1]) < lengths[:, None, None, None], s, -np.inf)
    return weights(s) @ spread(values, q.shape[1])


def page_by_page(q, k, v, block_table, lengths):
    """Online softmax, a page at a time, up to the last page that is begun."""
    size, heads, one = k.shape[1], q.shape[1], q.dtype.type
    found = np.zeros((*q.shape[:3], v.shape[-1]), q.dtype)
    for b, length in enumerate(lengths):
        top, total, o = np.full(q.shape[1:3], -np.inf, q.dtype), 0, found[b]
        for place in range(-(-int(length) // size)):
            rest = min(size, int(length) - place * size)
            keys, values = (x[block_table[b, place], :rest].swapaxes(0, 1)[None] for x in (k, v))
            s = (q[b] @ np.swapaxes(spread(keys, heads)[0], -1, -2)) / np.sqrt(one(q.shape[-1]))
            new = np.maximum(top, s.max(-1))
            p, shrink = np.exp(s - new[..., None]), np.exp(top - new)
            total, o = total * shrink + p.sum(-1), o * shrink[..., None] + p @ spread(values, heads)[0]
            top = new
        found[b] = o / total[..., None]
    return found


def sample_by_sample(q, k, v, block_table, lengths, page_size):
    """Keys copied one by one, in reversed order."""
    found = []
    for b, length in enumerate(lengths):
        places = np.arange(length)[::-1]
        at = block_table[b, places // page_size], places % page_size
        keys, values = (spread(x[at].swapaxes(0, 1)[None], q.shape[1]) for x in (k, v))
        found.append(weights(q[b] @ np.swapaxes(keys[0], -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))) @ values[0])
    return np.stack(found)


def flat(q, k, v, block_table, lengths):
    """Positions in one long row of tokens."""
    size = k.shape[1]
    places = np.arange(block_table.shape[1] * size)
    rows = block_table[:, places // size].astype(np.int64) * size + places % size
    k, v = (x.reshape(-1, 1, *x.shape[2:]) for x in (k, v))
    return in_table(q, k, v, rows, lengths)


RIGHT_PAGES = {"tables": in_table, "page by page": page_by_page, "copied": sample_by_sample, "flat": flat}


def changed(change, fn=at_once):
    """A kernel of lists that are read otherwise."""
    return lambda q, k, v, indices: fn(q, k, v, change(indices, k))


def once(indices, _):
    """Each key of a list once."""
    ordered = np.sort(indices, -1)
    ordered[..., 1:][ordered[..., 1:] == ordered[..., :-1]] = -1
    return ordered


def within_ends(indices, _):
    """As if the last key of a list were the largest."""
    last = np.where(indices >= 0, np.arange(indices.shape[-1]), -1).max(-1, keepdims=True)
    return np.where(indices <= np.take_along_axis(indices, np.maximum(last, 0), -1), indices, -1)


def whole_tiles(indices, _):
    return np.where(np.arange(indices.shape[-1]) < indices.shape[-1] // 16 * 16, indices, -1)


WRONG_LISTS = {
    "-1 is the first key": (changed(lambda x, k: np.where(x < 0, 0, x)), "index-padding"),
    "-1 is the last key": (changed(lambda x, k: np.where(x < 0, k.shape[2] - 1, x)), "index-padding"),
    "ends at the first -1": (changed(lambda x, k: np.where(np.cumsum(x < 0, -1) > 0, -1, x)), "index-padding"),
    "duplicates once": (changed(once), "index-duplicates"),
    "taken for sorted": (changed(within_ends), "index-bounds"),
    "16 bits": (changed(lambda x, k: np.where(x < 0, x, x.astype(np.uint16))), "index-bounds"),
    "the last tile left out": (changed(whole_tiles), "index-bounds"),
    "at most as many entries as keys": (changed(lambda x, k: x[..., : k.shape[2]]), "index-bounds"),
    "at most as many tiles as keys need": (changed(lambda x, k: x[..., : -(-k.shape[2] // 64) * 64]), "index-bounds"),
    "at most 128 entries": (changed(lambda x, k: x[..., :128]), "index-bounds"),
    "lists are not read": (lambda q, k, v, indices: weights(
        q @ np.swapaxes(spread(k, q.shape[1]), -1, -2) / np.sqrt(q.shape[-1])) @ spread(v, q.shape[1]), "index-bounds"),
    "the first head's list": (changed(lambda x, k: x[:, :1]), "heads-mixed"),
    "the first sample's list": (changed(lambda x, k: np.repeat(x[:1], len(x), 0)), "heads-mixed"),
}  # fmt: skip
WRONG_GRADIENTS = {
    "overwritten": (lambda *x: gradients(*x, add=False), "index-duplicates"),
    "duplicates once": (lambda q, k, v, do, x: gradients(q, k, v, do, once(x, k)), "index-duplicates"),
    "-1 adds to the first key": (lambda q, k, v, do, x: gradients(q, k, v, do, np.where(x < 0, 0, x)), "index-padding"),
    "columns are compared with the number of keys": (lambda q, k, v, do, x: (
        gradients(q, k, v, do, x)[0],
        *gradients(q, k, v, do, np.where(np.arange(x.shape[-1]) < k.shape[2], x, -1))[1:]), "index-bounds"),
}  # fmt: skip


def tail_read(q, k, v, block_table, lengths):
    size = k.shape[1]
    return in_table(q, k, v, block_table, -(-lengths // size) * size)


def all_pages(q, k, v, block_table, lengths):
    """Attention to every page in memory, those of other samples masked."""
    pages, size = k.shape[:2]
    found = []
    for b, length in enumerate(lengths):
        may = np.zeros((pages, size), bool)
        for place, page in enumerate(block_table[b]):
            may[page] |= np.arange(size) + place * size < length
        keys, values = (spread(x.reshape(-1, *x.shape[2:]).swapaxes(0, 1)[None], q.shape[1])[0] for x in (k, v))
        with np.errstate(invalid="ignore"):
            s = q[b] @ np.swapaxes(keys, -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
            found.append(weights(np.where(may.reshape(-1), s, -np.inf)) @ values)
    return np.stack(found)


def pages_of_16(q, k, v, block_table, lengths):
    """Memory as if a page had 16 tokens."""
    rows, size = k.shape[0] * k.shape[1], k.shape[1]
    k, v = (np.resize(x.reshape(rows, *x.shape[2:]), (-(-rows // 16) * 16, *x.shape[2:])) for x in (k, v))
    k, v = (x.reshape(-1, 16, *x.shape[1:]) for x in (k, v))
    need = -(-block_table.shape[1] * size // 16)
    table = np.resize(block_table.T, (need, len(block_table))).T if need > block_table.shape[1] else block_table
    return in_table(q, k, v, table % len(k), lengths)


WRONG_PAGES = {
    "the first sample's table": (lambda q, k, v, t, n: in_table(q, k, v, np.repeat(t[:1], len(t), 0), n), "page-table"),
    "pages in order": (lambda q, k, v, t, n: in_table(q, k, v, np.sort(t, -1), n), "page-table"),
    "16 bits": (lambda q, k, v, t, n: in_table(q, k, v, t.astype(np.uint16), n), "page-table"),
    "signed 16 bits": (lambda q, k, v, t, n: in_table(q, k, v, t.astype(np.int16), n), "page-table"),
    "pages of 16 tokens": (pages_of_16, "page-table"),
    "the tail of the last page": (tail_read, "page-tail"),
    "a last page of one key": (lambda q, k, v, t, n: in_table(q, k, v, t, n - (n % k.shape[1] == 1)), "page-tail"),
    "a last page that lacks a key": (
        lambda q, k, v, t, n: in_table(q, k, v, t, n + (n % k.shape[1] == max(k.shape[1] - 1, 1))),
        "page-tail",
    ),
    "no lengths": (lambda q, k, v, t, n: in_table(q, k, v, t, np.full(len(t), t.shape[1] * k.shape[1])), "page-tail"),
    "full pages alone": (lambda q, k, v, t, n: in_table(q, k, v, t, np.maximum(n - n % k.shape[1], 1)), "page-tail"),
    "all pages": (all_pages, "nan-leak"),
}  # fmt: skip


def of_lists(fn):
    """The kernel under the contract's names."""

    def attention(q, k, v, indices):
        return fn(q, k, v, indices)

    return attention


def of_gradients(fn):
    """The gradient under the contract's names."""

    def attention_backward(q, k, v, do, indices):
        return fn(q, k, v, do, indices)

    return attention_backward


def of_pages(fn):
    """The kernel under the contract's names."""

    def attention(q, k, v, block_table, lengths, page_size):
        return (
            fn(q, k, v, block_table, lengths, page_size)
            if fn is sample_by_sample
            else fn(q, k, v, block_table, lengths)
        )

    return attention

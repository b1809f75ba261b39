"""Kernels of eight bits, honest under their recipes, and wrong ones; a target of `audit-kernel` is made of this file.

Written without the library: numbers are rounded by ml_dtypes.
"""

import numpy as np

E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
LARGEST = {E4M3: 448.0, E5M2: 57344.0}


def rounded(x, kind):
    """The nearest numbers of a format, as float32."""
    import ml_dtypes

    if kind == "float32":
        return x.astype(np.float32)
    if kind in LARGEST:  # ml_dtypes makes NaN or inf of what is larger
        x = np.clip(x, -LARGEST[kind], LARGEST[kind])
    return x.astype(np.dtype(getattr(ml_dtypes, kind, kind))).astype(np.float32)


def one_sided(x, kind, up):
    """The next number of a format below, or above."""
    import ml_dtypes

    near = rounded(x, kind)
    bits = near.astype(np.dtype(getattr(ml_dtypes, kind))).view(np.uint8)
    beside = (bits + np.where(up, 1, -1)).astype(np.uint8).view(np.dtype(getattr(ml_dtypes, kind))).astype(np.float32)
    return np.where(near < x if up else near > x, beside, near)


def typed(x, kind):
    import ml_dtypes

    return rounded(x, kind).astype(np.dtype(getattr(ml_dtypes, kind, kind)))


def spread(scale, block, tokens, group):
    """Scales of each token, or of all."""
    if block == "tensor":
        return np.float32(scale)
    if block == "kv_head":
        return np.repeat(scale, group, 1)[..., None, None]
    if block == "head":
        return scale[..., None, None]
    return scale[..., None] if block == "row" else np.repeat(scale, block, 2)[:, :, :tokens, None]


def encoded(x, kind, block, power):
    """What is stored of wide numbers, decoded: a scale by the largest number of each tensor, head, row or block."""
    x = x.astype(np.float32)
    if kind not in LARGEST:
        return rounded(x, kind)
    if block == "tensor":
        size = np.abs(x).max()
    elif block == "head":
        size = np.abs(x).max((2, 3), keepdims=True)
    elif block == "row":
        size = np.abs(x).max(3, keepdims=True)
    else:
        starts = range(0, x.shape[2], block)
        size = np.concatenate([np.abs(x[:, :, i : i + block]).max((2, 3), keepdims=True) for i in starts], 2)
        size = np.repeat(size, block, 2)[:, :, : x.shape[2]]
    scale = (size / np.float32(LARGEST[kind])).astype(np.float32)
    scale = np.exp2(np.ceil(np.log2(scale))).astype(np.float32) if power else scale
    return rounded(x / scale, kind) * scale


def kernel(recipe, tile=None, power=False, **wrong):
    """A kernel that follows a recipe, row by row at once, or online in tiles of keys; `wrong` edits it."""
    weights = recipe["p"] if isinstance(recipe["p"], dict) else {"format": recipe["p"]}
    kind, mode = wrong.get("p", weights["format"]), wrong.get("rounded", weights.get("rounded", "before"))
    factor = np.float32(wrong.get("factor", weights.get("factor", 1)))
    blocks = recipe["scale_block"]
    blocks = blocks if isinstance(blocks, dict) else dict.fromkeys("qkv", blocks)
    wide = recipe.get("inputs", "stored") != "stored"

    def decoded(name, x, scale, group):
        if wide:
            return encoded(x, wrong.get("stored", recipe[name]), wrong.get("block", blocks[name]), power)
        x = x.astype(np.float32)
        if scale is not None:
            if wrong.get("first") == name:
                scale = np.full_like(scale, scale.flat[0])
            scale = spread(scale, blocks[name], x.shape[2], group)
            x = x * scale ** np.float32(wrong.get(f"{name}_scale", 1))
        return rounded(x, recipe.get("decoded", "float32"))

    def attention(q, k, v, *, causal=False, scale=None, mask=None, q_scale=None, k_scale=None, v_scale=None):
        n, length, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
        scale = np.float32(scale or q.shape[3] ** -0.5)
        q, k, v = (
            decoded(name, x, by, group) for name, x, by in (("q", q, q_scale), ("k", k, k_scale), ("v", v, v_scale))
        )
        if "requantised" in wrong:  # v anew, by the largest number of each block
            v = encoded(v, E4M3, wrong["requantised"], False)
        k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
        s = q @ k.swapaxes(-1, -2) * scale
        allowed = np.ones((n, length), bool) if mask is None else mask
        causal = causal and "causal_ignored" not in wrong
        allowed = allowed & np.tri(n, length, wrong.get("later", 0), dtype=bool) if causal else allowed
        s = np.where(allowed, s, np.float32(-np.inf))
        o = online(s, v, tile) if tile else at_once(s, v)
        return typed(wrong.get("times", np.float32(1)) * o, wrong.get("o", recipe["o"]))

    def at_once(s, v):
        w = np.exp(s - s.max(-1, keepdims=True))
        if mode == "divided":
            return rounded(factor * w / w.sum(-1, keepdims=True), kind) @ v / factor
        stored = one_sided(factor * w, kind, wrong["up"]) if "up" in wrong else rounded(factor * w, kind)
        total = (stored if mode == "before" else factor * w).sum(-1, keepdims=True)
        return stored @ v / total

    def online(s, v, tile):
        top, total, o = np.full((*s.shape[:3], 1), np.float32(-1e30)), np.float32(0), np.float32(0)
        for start in range(0, s.shape[3], tile):
            part = s[..., start : start + tile]
            new = np.maximum(top, part.max(-1, keepdims=True))
            w, old = factor * np.exp(part - new), np.exp(top - new)
            stored = rounded(w, kind)
            total = total * old + (stored if mode == "before" else w).sum(-1, keepdims=True)
            o, top = o * old + stored @ v[..., start : start + tile, :], new
        return o / total

    def without_mask(q, k, v, *, scale=None):
        return attention(q, k, v, scale=scale)

    return without_mask if wrong.get("plain") else attention


def stored(kind, p, o, block, **more):
    return {"q": kind, "k": kind, "v": kind, "p": p, "o": o, "scale_block": block, **more}


def weights(kind, mode, factor=1):
    return {"format": kind, "rounded": mode, "factor": factor}


FLASH3 = stored(E4M3, weights(E4M3, "after", 256), "bfloat16", {"q": "kv_head", "k": "head", "v": "head"})
RECIPES = {
    "one scale, weights before the sum": (E4M3, stored(E4M3, E4M3, "bfloat16", "tensor"), {}),
    "as flash-attention 3": (E4M3, FLASH3, {"tile": 64}),
    "e5m2, a scale a row": (E5M2, stored(E5M2, weights(E5M2, "after"), "float32", "row"), {"tile": 32}),
    "blocks of 16, divided first": (E4M3, stored(E4M3, weights(E4M3, "divided", 448), "float16", 16), {}),
    "keys and values alone": (
        E4M3,
        stored(E4M3, "bfloat16", "bfloat16", {"q": "tensor", "k": "head", "v": 32}, decoded="bfloat16")
        | {"q": "bfloat16"},
        {"tile": 16},
    ),
    "stored by the kernel, a scale a row": (E4M3, stored(E4M3, E4M3, "float32", "row", inputs="float32"), {}),
    "stored by the kernel, powers of two": (
        E4M3,
        stored(E4M3, weights(E4M3, "after", 256), "bfloat16", 32, inputs="bfloat16"),
        {"power": True, "plain": True},
    ),
    "output in eight bits": (E4M3, stored(E4M3, E4M3, E4M3, {"q": 64, "k": 64, "v": "head"}), {"tile": 64}),
}
"""dtype, recipe, and how the kernel is made."""

PLAIN = RECIPES["one scale, weights before the sum"][1]
OWN = stored(E4M3, E4M3, "float32", "row", inputs="float32")
WRONG = {
    "zeros": (FLASH3, {"times": np.float32(0)}, "zero-output"),
    "inverted sign": (FLASH3, {"times": np.float32(-1)}, "output-scale"),
    "garbage": (FLASH3, {"q_scale": 3, "k_scale": -1, "v_scale": 5}, "unknown"),
    "weights that sum to .64": (PLAIN, {"rounded": "after"}, "weights-not-normalised"),
    "weights divided, then rounded": (PLAIN, {"rounded": "divided"}, "output-scale"),
    "weights that sum to .64, online": (PLAIN, {"rounded": "after", "tile": 64}, "weights-not-normalised"),
    "weights after the sum, with a factor": (
        {**FLASH3, "p": weights(E4M3, "before", 256)},
        {"rounded": "after", "tile": 64},
        "weights-not-normalised",
    ),
    "future in the scale of v": (PLAIN, {"requantised": 16}, "scale-leak"),
    "future in the scale of a tensor": (OWN, {"block": "tensor"}, "scale-leak"),
    "scale of v left out": (FLASH3, {"v_scale": 0}, "recipe"),
    "scale of k left out": (FLASH3, {"k_scale": 0}, "recipe"),
    "scale of k used twice": (PLAIN, {"k_scale": 2}, "recipe"),
    "scales of q and v used twice": (PLAIN, {"q_scale": 2, "v_scale": 2}, "recipe"),
    "e5m2 weights for e4m3": (PLAIN, {"p": E5M2}, "recipe"),
    "e5m2 weights for e4m3, online": (FLASH3, {"p": E5M2, "tile": 64}, "recipe"),
    "e5m2 inputs for e4m3": (OWN, {"stored": E5M2}, "recipe"),
    "factor of the weights left out": (FLASH3, {"factor": 1}, "weights-not-normalised"),
    "weights rounded down": (PLAIN, {"up": False}, "biased-rounding"),
    "weights rounded up": (PLAIN, {"up": True}, "biased-rounding"),
    "weights rounded down, summed before": (FLASH3, {"up": False}, "biased-rounding"),
    "first scale of v for all heads": (FLASH3, {"first": "v", "tile": 64}, "recipe"),
    "first scale of q for all rows": (stored(E4M3, E4M3, "bfloat16", "row"), {"first": "q"}, "recipe"),
    "causal ignored": (FLASH3, {"causal_ignored": True}, "mask-ignored"),
    "causal off by one": (PLAIN, {"later": 1}, "causal-off-by-one"),
    "output in another type": (PLAIN, {"o": "float32"}, "wrong-dtype"),
}
"""Recipe, edits, and the name."""

"""Conventions that a kernel follows, seen on equal logits and v = 1: the output is then the weights."""

import importlib

import numpy as np

SIZE = 4  # keys; chosen: enough for every question below
COLUMNS = {
    "causal, 2 queries, 4 keys": "causal",
    "causal, 4 queries, 2 keys": "causal_down",
    "nothing allowed": "empty",
    "nan at forbidden keys": "padding",
    "masks": "masks",
    "bias": "bias",
    "log sum exp": "lse",
    "softcap and mask": "order",
}


class Probe:
    """One kernel, called in its own framework with NumPy's numbers."""

    def __init__(self, attention, framework):
        self.attention, self.framework = attention, framework

    def made(self, array):
        kind = "bool" if array.dtype == bool else "float32"
        if self.framework == "numpy":
            return array.astype(kind)
        name, make = ("torch", "tensor") if self.framework == "torch" else ("jax.numpy", "asarray")
        module = importlib.import_module(name)
        return getattr(module, make)(
            array, dtype=getattr(module, kind if kind != "bool" or name == "torch" else "bool_")
        )

    def call(self, n=SIZE, length=SIZE, value=None, key=None, **keywords):
        """What comes back: weights unless `value` is given; a word where it is refused."""
        q, k = np.zeros((1, 1, n, length)), np.zeros((1, 1, length, length)) if key is None else key
        v = np.eye(length)[None, None] if value is None else value
        given = {name: self.made(x) if isinstance(x, np.ndarray) else x for name, x in keywords.items()}
        try:
            found = self.attention(*map(self.made, (q + (key is not None), k, v)), **given)
        except Exception:  # whatever it raises, it refuses
            return None
        pair = found if isinstance(found, tuple) else (found,)
        return [np.asarray(one)[0, 0] for one in pair]

    def causal(self, n=2, length=SIZE):
        found = self.call(n, length, causal=True)
        if found is None:
            return "refused"
        i, j = np.arange(n)[:, None], np.arange(length)
        for words, allowed in (("j <= i", j <= i), ("j <= i + l - n", j <= i + length - n)):
            seen = allowed.any(axis=1)
            right = allowed[seen] / allowed[seen].sum(axis=1, keepdims=True)
            if np.allclose(found[0][seen], right):
                return words
        return "neither"

    def causal_down(self):
        return self.causal(SIZE, 2)

    def _emptied(self, **keywords):
        mask = np.ones((SIZE, SIZE), bool)
        mask[2] = False
        return self.call(mask=mask, **keywords)

    def empty(self):
        found = self._emptied()
        if found is None:
            return "refused"
        row = found[0][2]
        words = {"o = 0": not row.any(), "o = nan": np.isnan(row).all(), "o = mean of v": np.allclose(row, 1 / SIZE)}
        words["o = mean of v and of a sink's 0"] = np.allclose(row, 1 / (SIZE + 1))
        return next((word for word, is_so in words.items() if is_so), str(row))

    def padding(self):
        mask = np.ones((SIZE, SIZE), bool)
        mask[:, -1] = False
        poisoned = np.eye(SIZE)[None, None].copy()
        poisoned[..., -1, :] = np.nan
        found = [self.call(mask=mask, **{name: poisoned}) for name in ("value", "key")]
        if None in found:
            return "refused"
        leaks = [name for name, one in zip("vk", found, strict=True) if np.isnan(one[0]).any()]
        return f"leaks from {' and '.join(leaks)}" if leaks else "clean"

    def masks(self):
        right = np.array([[1, 0, 0, 0]] * SIZE, bool)
        tried = {"2": right, "3": right[None], "4": right[None, None]}
        tried["added"] = np.where(right, 0.0, -np.inf)
        found = {name: self.call(mask=mask) for name, mask in tried.items()}
        return (
            ", ".join(name for name, one in found.items() if one is not None and np.allclose(one[0], right)) or "none"
        )

    def bias(self):
        added = np.log(np.arange(1.0, SIZE + 1))[None, None, None] * np.ones((1, 1, SIZE, SIZE))
        found = self.call(bias=added)
        if found is None or not np.allclose(found[0], [[0.1, 0.2, 0.3, 0.4]] * SIZE):
            return "no"
        return f"yes, {self._differentiated(added)}"

    def _differentiated(self, added):
        """Return True where its gradient is right: of key 0's weight over rows, with weights 0.1, 0.2, 0.3, 0.4."""
        zeros, ones = np.zeros((1, 1, SIZE, SIZE)), np.eye(SIZE)[None, None]
        right = np.array([[0.09, -0.02, -0.03, -0.04]] * SIZE)
        try:
            if self.framework == "torch":
                leaf = self.made(added).requires_grad_(True)
                self.attention(*map(self.made, (zeros, zeros, ones)), bias=leaf)[..., 0].sum().backward()
                found = leaf.grad
            else:
                jax = importlib.import_module("jax")
                q, k, v = map(self.made, (zeros, zeros, ones))
                found = jax.grad(lambda x: self.attention(q, k, v, bias=x)[..., 0].sum())(self.made(added))
        except Exception:
            return "without gradient"
        return "with gradient" if np.allclose(np.asarray(found)[0, 0], right, atol=1e-6) else "with a wrong gradient"

    def lse(self):
        found = self.call(return_lse=True)
        if found is None:
            return "no"
        base = {"natural": np.log(SIZE), "binary": np.log2(SIZE)}
        said = next((word for word, right in base.items() if np.allclose(found[1], right)), "neither base")
        emptied = self._emptied(return_lse=True)
        return said if emptied is None else f"{said}; {emptied[1][2]:.3g} for nothing allowed"

    def order(self):
        """Capped at 1/2, a forbidden key keeps weight where the mask comes first."""
        mask = np.ones((SIZE, SIZE), bool)
        mask[:, -1] = False
        found = self.call(mask=mask, softcap=0.5)
        if found is None:
            return "no"
        return "mask last" if np.allclose(found[0][:, -1], 0) else "cap last"


def conventions(attention, framework):
    """The answers to all questions, in the order of COLUMNS."""
    probe = Probe(attention, framework)
    return [getattr(probe, name)() for name in COLUMNS.values()]

"""Honest kernels: every way of computing softmax attention that the bound has to allow, in NumPy, in any precision.

One algorithm with options. Sums are in the precision's own arithmetic (float32 for 16-bit types); what a kernel may
store in 16 bits is rounded there.
"""

from dataclasses import dataclass

import numpy as np

LOG2E = 1.4426950408889634


@dataclass(frozen=True)
class Honest:
    """Attributes: how products are added, where the scale goes, how exp is computed, how keys are cut, and so on."""

    products: str = "blas"  # blas, forward, backward, fma, blocks
    scale_on: str = "logits"  # logits, queries, keys, exp2
    exp: str = "exp"  # exp, exp2, or off by 60 units: noisy, smooth, biased
    block: int = 0  # online softmax in blocks of so many keys; 0: all at once
    reverse: bool = False  # last block first
    lag: float = 0.0  # the running maximum is raised only when it grows by more
    splits: int = 1  # independent parts of the keys, joined at the end
    normalise: str = "after"  # after or before the product with V, or logsumexp: exp(s - lse)
    mean: str = "terms"  # (P * dP) 1 from its terms, or from the output
    store: tuple = ()  # of "p", "dp", "ds", "do/l", "heads": rounded to the 16-bit type
    flush: bool = False  # subnormals lost
    through_max: bool = False  # the gradient flows through the row maximum
    sink_first: bool = False  # the sink is the first state that blocks are joined to, not the last

    tf32: bool = False  # not honest: factors of products are rounded to 11 digits

    def all(self, sample):
        """o, dq, dk and dv."""
        with np.errstate(all="ignore"):
            return _Arithmetic(self, sample).run()


def _eleven_digits(array):
    bits = np.ascontiguousarray(array.astype(np.float32)).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


class _Arithmetic:
    def __init__(self, how, sample):
        self.how, self.sample = how, sample
        self.type = np.float64 if sample.precision.name == "float64" else np.float32
        self.rng = np.random.default_rng(0)

    def stored(self, array, name=None):
        if name is not None and name not in self.how.store:
            return array
        if not self.sample.precision.stored:
            return array
        return self.flushed(self.sample.precision.exact(array).astype(self.type), self.sample.precision.tiny)

    def flushed(self, array, tiny=None):
        if not self.how.flush:
            return array
        return np.where(np.abs(array) < (tiny or self.sample.precision.tiny_sums), self.type(0), array)

    def product(self, left, right):
        """(..., a, b) @ (..., b, c), added as the options say."""
        kind = self.how.products
        if self.how.tf32:
            left, right = (_eleven_digits(array) for array in (left, right))
        if kind == "blas":
            return self.flushed(left @ right)
        steps = range(left.shape[-1])
        if kind == "blocks":
            parts = [left[..., s : s + 4] @ right[..., s : s + 4, :] for s in steps[::4]]
            while len(parts) > 1:
                parts = [sum(parts[i : i + 2][1:], parts[i]) for i in range(0, len(parts), 2)]
            return parts[0]
        total = np.zeros((*left.shape[:-1], right.shape[-1]), self.type)
        wide = np.float64 if self.type is np.float32 else np.longdouble
        for t in steps if kind != "backward" else reversed(steps):
            a, b = left[..., :, t, None], right[..., None, t, :]
            if kind == "fma":
                total = (a.astype(wide) * b + total).astype(self.type)
            else:
                total = total + a * b
        return self.flushed(total)

    def exponential(self, x):
        """exp, of a difference that is already scaled."""
        u = self.sample.precision.sums
        if self.how.exp == "exp2":
            return self.flushed(np.exp2(x * self.type(LOG2E)))
        value = np.exp(x)
        signs = {"noisy": lambda: self.rng.choice([-1.0, 1.0], x.shape), "smooth": lambda: np.sin(3 * x)}
        if self.how.exp in signs or self.how.exp == "biased":
            sign = signs.get(self.how.exp, lambda: 1.0)()
            value = value * np.where(x == 0, 1, 1 + 60 * u * sign).astype(self.type)
        return self.flushed(value)

    def run(self):
        s, how, t = self.sample, self.how, self.type
        q, k, v, do = (self.flushed(getattr(s, name).astype(t), s.precision.tiny) for name in ("q", "k", "v", "do"))
        k, v = np.repeat(k, s.group, axis=1), np.repeat(v, s.group, axis=1)
        scale = t(s.factor)
        factor = scale * t(LOG2E) if how.scale_on == "exp2" else scale
        if how.scale_on == "queries":
            logits = self.product(q * scale, np.swapaxes(k, -1, -2))
        elif how.scale_on == "keys":
            logits = self.product(q, np.swapaxes(k * scale, -1, -2))
        else:
            logits = self.product(q, np.swapaxes(k, -1, -2)) * factor
        slope = None
        if s.softcap is not None:
            tanh = np.tanh(logits / t(s.softcap) / (t(LOG2E) if how.scale_on == "exp2" else t(1)))
            logits, slope = t(s.softcap) * tanh, 1 - tanh * tanh
            if how.scale_on == "exp2":
                logits = logits * t(LOG2E)
        if s.alibi is not None:
            bias = s.alibi.astype(t)[:, None, None] * np.abs(s.distance).astype(t)
            logits = logits - bias * (t(LOG2E) if how.scale_on == "exp2" else t(1))
        if s.bias is not None:
            logits = logits + s.bias.astype(t) * (t(LOG2E) if how.scale_on == "exp2" else t(1))
        logits = np.where(s.allowed, logits, -t(np.inf))
        self.sink = None
        if s.sinks is not None:
            self.sink = s.sinks.astype(t)[:, None, None] * (t(LOG2E) if how.scale_on == "exp2" else t(1))
        o, lse = self.attend(logits, v)
        some = np.isfinite(lse)
        p = np.where(s.allowed & some, self.exp_of(logits - np.where(some, lse, 0)), t(0))
        sunk = None if self.sink is None else self.exp_of(self.sink - lse)
        o = self.stored(np.where(some, o, t(0)))
        if how.normalise == "before" and sunk is None:
            p = p / np.where(some, p.sum(-1, keepdims=True), 1)
        log = (lse * t(np.log(2)) if how.scale_on == "exp2" else lse)[..., 0]
        return {"o": o, "lse": log, **self.gradients(q, k, v, do, p, o, scale, slope, logits, sunk)}

    def dropped(self, p):
        """Weights after dropout."""
        s = self.sample
        return p if s.dropout is None else p * s.dropout / self.type(s.keep)

    def exp_of(self, x):
        return np.exp2(x) if self.how.scale_on == "exp2" else self.exponential(x)

    def log_of(self, x):
        return np.log2(x) if self.how.scale_on == "exp2" else np.log(x)

    def attend(self, logits, v):
        """The output and each row's log(sum exp)."""
        how = self.how
        length = logits.shape[-1]
        splits = [part for part in np.array_split(np.arange(length), how.splits) if len(part)]
        self.kept = 1 if self.sample.dropout is None else self.dropped(np.ones_like(logits))
        states = [self.online(logits[..., part], v[..., part, :], part) for part in splits]
        if self.sink is not None:
            sink = np.broadcast_to(self.sink, states[0][0].shape), np.ones_like(states[0][1]), 0 * states[0][2]
            states.insert(0 if how.sink_first else len(states), sink)
        top, total, acc = states[0]
        for other in states[1:]:
            top, total, acc = self.joined((top, total, acc), other)
        lse = top + self.log_of(total)
        some = np.isfinite(lse)
        if how.normalise == "logsumexp":
            p = self.exp_of(logits - np.where(some, lse, 0))
            return self.product(self.stored(self.dropped(p), "p"), v), lse
        if how.normalise == "before":
            p = self.exp_of(logits - np.where(some, top, 0))
            return self.product(self.stored(self.dropped(p / total), "p"), v), lse
        return acc / total, lse

    def online(self, logits, v, keys):
        """Blocks of keys with a running maximum, row sum and accumulator."""
        length, block = logits.shape[-1], self.how.block or logits.shape[-1]
        shape = logits.shape[:-1]
        state = np.full((*shape, 1), -np.inf, self.type), np.zeros((*shape, 1), self.type), None
        starts = range(0, length, block)
        for start in reversed(starts) if self.how.reverse else starts:
            part = logits[..., start : start + block]
            top = part.max(-1, keepdims=True)
            if self.how.lag:
                top = np.where(top <= state[0] + self.type(self.how.lag), state[0], top)
            p = np.where(np.isfinite(part), self.exp_of(part - top), self.type(0))
            p = np.where(np.isfinite(top), p, self.type(0))
            kept = p if self.sample.dropout is None else p * self.kept[..., keys[start : start + block]]
            acc = self.product(self.stored(kept, "p"), v[..., start : start + block, :])
            new = top, p.sum(-1, keepdims=True), acc
            state = new if state[2] is None else self.joined(state, new)
        return state

    def joined(self, one, two):
        top = np.maximum(one[0], two[0])
        a, b = (np.where(np.isfinite(x[0]), self.exp_of(x[0] - top), self.type(0)) for x in (one, two))
        return top, one[1] * a + two[1] * b, one[2] * a + two[2] * b

    def gradients(self, q, k, v, do, p, o, scale, slope, logits, sunk):
        s, how = self.sample, self.how
        turn = lambda array: np.swapaxes(array, -1, -2)  # noqa: E731
        dp = self.stored(self.product(do, turn(v)), "dp")
        if "do/l" in how.store:
            total = self.type(s.k.shape[2])
            dp = self.product(self.stored(do / total), turn(v)) * total
        dp = dp if s.dropout is None else self.stored(self.dropped(dp), "dp")
        used = self.stored(p, "p")
        mean = (do * o).sum(-1, keepdims=True) if how.mean == "output" else (used * dp).sum(-1, keepdims=True)
        mean = mean if s.pull is None else mean - s.pull[..., None].astype(self.type)
        ds = used * (dp - mean)
        if how.through_max:
            first = np.argmax(logits, axis=-1)[..., None]
            total = ds.sum(-1, keepdims=True) - (0 if s.pull is None else s.pull[..., None].astype(self.type))
            total = total if sunk is None else total + sunk * -mean
            moved = np.where(np.isfinite(logits.max(-1, keepdims=True)), np.take_along_axis(ds, first, -1) - total, 0)
            np.put_along_axis(ds, first, moved, -1)
        more = {}
        if s.bias is not None:
            axes = tuple(axis for axis in range(4) if s.bias.shape[axis] == 1 and ds.shape[axis] > 1)
            own = self.stored(ds, "ds") if "heads" in how.store else ds
            more["dbias"] = self.stored(own.sum(axis=axes, keepdims=True, dtype=self.type))
        if sunk is not None:
            more["dsinks"] = self.stored((sunk * -mean).sum(axis=(0, 2, 3), dtype=self.type))
        if slope is not None:
            ds = ds * slope
        ds = self.stored(ds, "ds")
        heads = s.k.shape[1]
        group = lambda a: a.reshape(a.shape[0], heads, s.group, *a.shape[2:]).sum(2, dtype=self.type)  # noqa: E731
        dk, dv = self.product(turn(ds), q) * scale, self.product(turn(self.stored(self.dropped(used), "p")), do)
        if "heads" in how.store:
            dk, dv = self.stored(dk), self.stored(dv)
        dq = self.stored(self.product(ds, k), "heads") * scale
        return {"dq": self.stored(dq), "dk": self.stored(group(dk)), "dv": self.stored(group(dv)), **more}


ALL = ("p", "dp", "ds", "heads")
VARIANTS = {
    "textbook": Honest(normalise="before"),
    "textbook, stored in 16 bits": Honest(normalise="before", store=ALL),
    "textbook, dO O^T": Honest(normalise="before", mean="output", store=("p", "ds")),
    "divided at the end": Honest(),
    "divided at the end, stored": Honest(store=("p", "ds")),
    "log-sum-exp": Honest(normalise="logsumexp"),
    "log-sum-exp, stored, dO O^T": Honest(normalise="logsumexp", store=ALL, mean="output"),
    "scaled queries": Honest(scale_on="queries", store=("p",)),
    "scaled keys": Honest(scale_on="keys"),
    "exp2 with log2 e in the scale": Honest(scale_on="exp2", mean="output"),
    "exp2 of x log2 e": Honest(exp="exp2", store=("p", "ds")),
    "online, blocks of 1": Honest(block=1),
    "online, blocks of 1, backwards": Honest(block=1, reverse=True, exp="noisy"),
    "online, blocks of 3": Honest(block=3, sink_first=True, store=("p", "ds"), mean="output"),
    "online, blocks of 16": Honest(block=16, scale_on="exp2", store=ALL, mean="output"),
    "online, blocks of 64, backwards": Honest(block=64, reverse=True, store=("p", "ds"), mean="output"),
    "online, raised late": Honest(block=1, lag=5.5, exp="noisy"),
    "online, raised late, backwards": Honest(block=3, lag=8, reverse=True, scale_on="exp2", store=ALL, mean="output"),
    "two splits": Honest(splits=2, block=4),
    "five splits": Honest(splits=5, sink_first=True, scale_on="exp2", store=("p",), mean="output"),
    "added forwards": Honest(products="forward"),
    "added backwards": Honest(products="backward", normalise="before", store=("p", "dp")),
    "fused multiply-add": Honest(products="fma", scale_on="exp2", mean="output"),
    "pairwise blocks": Honest(products="blocks", block=4),
    "exp off by 60 units, signs at random": Honest(exp="noisy"),
    "exp off by 60 units, smoothly": Honest(exp="smooth", block=4, mean="output"),
    "exp off by 60 units, one way": Honest(exp="biased", block=1, mean="output"),
    "subnormals lost": Honest(flush=True, store=ALL),
    "subnormals lost, online": Honest(flush=True, block=3, store=("p", "ds"), mean="output"),
    "through the maximum": Honest(through_max=True),
    "through the maximum, stored": Honest(through_max=True, store=ALL),
    "through the maximum, dO O^T": Honest(through_max=True, mean="output", products="forward", normalise="before"),
    "dO over the row sum stored": Honest(store=("do/l", "p", "ds")),
    "everything at once": Honest(
        products="forward", block=1, reverse=True, splits=3, exp="noisy", mean="output", store=(*ALL, "do/l"),
        flush=True, through_max=True,
    ),
}  # fmt: skip

"""The regimes: separate causes of wrong results, each with its purpose and the samples that show it.

Small but for a few; shapes come from a small pool, because a compiling subject pays for each new one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from attnprune_verify.audit.kernel.problem.optional import optional
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.real_inputs import real
from attnprune_verify.audit.kernel.problem.sample import Regime
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import ANYTHING, KernelScope

__all__ = ["BENIGN", "EXTREME", "Regime", "regimes"]


# On these the search for a mistake's name begins; on those only overflow and stand-ins for -inf can be wrong.
BENIGN = (
    "plain",
    "causal",
    "mask",
    "causal and mask",
    "scale",
    "grouped heads",
    "more keys",
    "value size",
    "rising logits",
)
EXTREME = (
    "logits of 100", "logits of 1000", "logits of 1e5", "far from zero", "forbidden giants", "forbidden future"
)  # fmt: skip


_NAMED = {"n": 512, "l": 1024, "m": 576, "heads": 32, "batch": 17}
"""Up to which size those that a declaration names are asked one by one; chosen: milliseconds each."""


@lru_cache(maxsize=4)
def regimes(seed: int, dtype: str, scope: KernelScope = ANYTHING) -> dict[str, Regime]:
    """Every regime, in sizes of a scope; the same seed gives the same numbers."""
    maker = Maker(seed, precision_named(dtype), scope)
    found = (
        *_plain(maker),
        *_options(maker),
        *_sizes(maker),
        *_numbers(maker),
        *_huge(maker),
        *_modifiers(maker),
        *real(maker),
        *optional(maker),
    )
    return {regime.name: regime for regime in found}


def _plain(maker: Maker) -> tuple[Regime, ...]:
    make, named = maker.make, maker.scope.named
    one = (make("1x1", 1, 4), make("n1-m1", 1, 1, heads=1), make("n3-m1", 3, 1), make("n2", 2, 3, mv=3))
    return (
        Regime(
            "plain",
            "heads = kv_heads, n = l, no mask; 17 heads, 17 samples: beyond numbers of four bits",
            (
                make("n4", 4, 8, heads=1),
                make("n7", 7, 5, batch=2, heads=3),
                make("h17", 3, 4, heads=17),
                make("b17", 3, 4, batch=17, heads=1),
                make("n16", 16, 4),
                *(make(f"{size} heads", 4, 8, heads=size) for size in named("heads", _NAMED["heads"])),
                *(make(f"batch {size}", 4, 8, batch=size) for size in named("batch", _NAMED["batch"])),
                make("n33", 33, 16),
            ),
            required=True,
        ),
        Regime("smallest", "one query, one key, one feature", one),
    )


def _options(maker: Maker) -> tuple[Regime, ...]:
    make, named = maker.make, maker.scope.named
    return (
        Regime(
            "causal",
            "query i sees keys j <= i",
            (make("c5", 5, 8, causal=True), make("c16", 16, 4, batch=2, causal=True), make("c33", 33, 16, causal=True)),
        ),
        Regime(
            "mask",
            "a bool mask, some rows with one position",
            (make("m5", 5, 8, masked=True), make("m16", 16, 4, batch=2, masked=True), make("m33", 33, 16, masked=True)),
        ),
        Regime(
            "causal and mask",
            "both at once mean both",
            (make("cm7", 7, 5, causal=True, masked=True), make("cm16", 16, 4, causal=True, masked=True)),
        ),
        Regime(
            "scale",
            "a scale that is given replaces 1/sqrt(m)",
            (make("s1", 7, 5, scale=1.0), make("s3", 7, 5, scale=3.0), make("s0.05", 16, 4, scale=0.05),
             make("s-causal", 5, 8, scale=0.5, causal=True)),
        ),
        Regime(
            "grouped heads",
            "head h reads key head h // group, and gradients of keys and values are summed over the group",
            (make("g4-2", 5, 8, heads=4, kv_heads=2), make("g6-2", 7, 5, heads=6, kv_heads=2, batch=2),
             make("g4-1", 16, 4, heads=4, kv_heads=1), make("g6-3-causal", 5, 8, heads=6, kv_heads=3, causal=True),
             *(make(f"group {size}", 5, 8, heads=size, kv_heads=1) for size in named("group", _NAMED["heads"])),
             *(make(f"{size} key heads", 5, 8, heads=2 * size, kv_heads=size)
               for size in named("kv_heads", _NAMED["heads"])),
             *(make(f"g{heads}-{keys}", *sizes, heads=heads, kv_heads=keys, masked=True)
               for heads, keys, sizes in ((8, 1, (9, 8)), (32, 2, (5, 8)), (32, 1, (4, 8, 17)), (128, 1, (2, 8, 9))))),
        ),
        Regime(
            "more keys",
            "l != n: more keys than queries, fewer, one query",
            (make("l8", 3, 8, 8), make("l3", 8, 8, 3), make("decode", 1, 16, 40), make("l1", 5, 4, 1),
             *(make(f"{size} keys", 5, 8, size, heads=1) for size in named("l", _NAMED["l"]))),
        ),
        Regime(
            "more keys, mask",
            "l != n with a mask",
            (make("l8m", 3, 8, 8, masked=True), make("l3m", 8, 8, 3, masked=True)),
        ),
        Regime(
            "value size",
            "mv != m",
            (make("mv3", 7, 5, mv=3), make("mv128", 6, 192, mv=128, heads=1), make("mv512", 6, 576, mv=512, heads=1),
             make("mv9", 5, 4, mv=9), make("mv1", 4, 8, mv=1),
             *(make(f"mv {size}", 5, 8, mv=size, heads=1) for size in named("mv", _NAMED["m"]))),
        ),
        Regime(
            "all at once",
            "groups, l != n, mv != m, a mask and a scale together",
            (make("all", 6, 8, 9, 5, batch=2, heads=4, kv_heads=2, masked=True, scale=0.5),),
        ),
    )  # fmt: skip


def _sizes(maker: Maker) -> tuple[Regime, ...]:
    make, named = maker.make, maker.scope.named
    fall = 2.0**-6
    # Keys rise as the first head's slope falls, so that all of them count.
    far = make("a1x2500", 1, 8, 2500, alibi=np.array([fall, fall / 2]))
    far = maker.position_wise(far, fall * np.arange(float(far.shape[4])), 8.0)
    return (
        Regime(
            "ragged tiles",
            "n and l around multiples of 16, 32 and 64",
            (make("t15", 15, 4), make("t17", 17, 4), make("t31", 31, 8, heads=1), make("t64", 64, 8, heads=1),
             *(make(f"{size} tokens", size, 8, heads=1) for size in named("n", _NAMED["n"]))),
        ),
        Regime(
            "larger",
            "up to 300 queries and keys, ragged",
            (make("n65", 65, 8, heads=1), make("n129", 129, 16, heads=1), make("n200", 200, 32, heads=1),
             make("n300", 300, 64, heads=1)),
        ),
        Regime(
            "larger, causal",
            "the same, causal",
            (make("c70", 70, 8, heads=1, causal=True), make("c257", 257, 16, heads=1, causal=True)),
        ),
        Regime(
            "larger, mask",
            "the same, with a mask and more keys than queries",
            (make("m97", 97, 8, heads=1, masked=True), make("m40x300", 40, 8, 300, heads=1, masked=True),
             maker.padded(make("padded97", 97, 8, heads=1)), maker.packed(make("packed97", 97, 8, heads=1)),
             maker.holed(make("holed70", 70, 8, heads=1))),
        ),
        Regime(
            "larger, more keys",
            "few queries, 300 keys",
            (make("q3", 3, 32, 300, heads=1), make("q1", 1, 64, 257, heads=1)),
        ),
        Regime(
            "long",
            "one query and a chunk of them, up to 4,097 keys: offsets beyond 16 bits, many splits, rounded constants",
            (make("decode1025", 1, 64, 1025), make("decode4097", 1, 16, 4097, heads=1),
             make("chunk1040", 64, 4, 1040, heads=1),
             maker.balanced(make("balanced1040", 16, 4, 1040, heads=1, spread=0.1)),
             make("masked1040", 2, 4, 1040, heads=1, masked=True)),
        ),
        Regime(
            "larger, changed logits",
            "windows, slopes, caps and groups over several tiles",
            (make("w130", 130, 8, heads=1, window=20, causal=True), make("w256", 256, 4, heads=1, window=20),
             make("w97", 97, 8, heads=1, window=33),
             make("a70", 70, 8, alibi=np.array([0.5, 0.03125])), make("cap70", 70, 8, heads=1, softcap=2.0),
             make("a150", 150, 4, alibi=np.array([0.5, 0.03125]), causal=True), far,
             make("g97", 97, 8, heads=2, kv_heads=1, causal=True),
             make("cm97", 97, 8, heads=1, causal=True, masked=True)),
        ),
        Regime(
            "head sizes",
            "m from 2 to 576, those of released models too, and n = l = m = mv: sizes that do not determine the layout",
            (make("h2", 6, 2), make("square24", 24, 24), make("h64", 6, 64, heads=1, causal=True),
             make("h80", 6, 80, heads=1), make("h128", 6, 128, heads=1, causal=True),
             *(make(f"{size} features", 6, size, heads=1) for size in named("m", _NAMED["m"])),
             *(make(f"h{m}", 6, m, heads=1) for m in (96, 112, 160, 192, 512, 576, 256))),
        ),
    )  # fmt: skip


def _numbers(maker: Maker) -> tuple[Regime, ...]:
    make, reach = maker.make, maker.precision.reach
    return (
        Regime(
            "rising logits",
            "every block of keys brings a new maximum, or the first holds it",
            (maker.rising(make("up33", 33, 16), -12.0, 12.0), maker.rising(make("down33", 33, 16), 12.0, -12.0),
             maker.rising(make("up70", 70, 8, heads=1), -15.0, 15.0)),
        ),
        Regime(
            "close to 40",
            "all logits near 40, close to each other: rounded logits show",
            (maker.common(make("near40-n7", 7, 5), 40.0), maker.common(make("near40-n16", 16, 4), 40.0)),
        ),
        Regime("sharp", "logits up to about 30",
               (make("sharp5", 5, 8, spread=10.0), make("sharp16", 16, 4, spread=10.0))),
        Regime("equal rows", "equal queries and equal keys: uniform weights, and gradients that cancel",
               (maker.equal_rows(make("equal7", 7, 5)), maker.equal_rows(make("equal16", 16, 4)))),
        Regime("zeros", "0 and -0", (maker.zeros(make("zeros7", 7, 5)), maker.zeros(make("zeros16", 16, 4)))),
        Regime("subnormals", "entries that may be lost", (maker.subnormal(make("sub7", 7, 5)),)),
        Regime(
            "scale of values",
            "large and small v, do, q and k with the same logits",
            (maker.scaled(make("v-large", 7, 5), v=reach), maker.scaled(make("v-small", 7, 5), v=1 / reach),
             maker.scaled(make("do-large", 7, 5), do=reach), maker.scaled(make("do-small", 7, 5), do=1 / reach),
             maker.scaled(make("q-large", 7, 5), q=reach, k=1 / reach)),
        ),
        Regime("tiny and huge scale", "scale 2^-16 and 2^8, with logits of ordinary size",
               (make("scale-tiny", 7, 5, scale=2.0**-16, spread=2.0**-9), make("scale-huge", 7, 5, scale=2.0**8))),
    )  # fmt: skip


def _huge(maker: Maker) -> tuple[Regime, ...]:
    """Logits that overflow exp, or that defeat a stand-in for -inf; sizes that every 16-bit input can make."""
    make = maker.make
    giant = maker.forbidden(make("padding-1e5", 6, 4), 9e4)
    future = maker.rising(make("future-1e5", 6, 4, causal=True), -9e4, 9e4)
    return (
        Regime("logits of 100", "logits of +-100",
               (maker.winners(make("w100", 5, 4), 100.0), make("r100", 16, 4, spread=40.0, generic=False))),
        Regime("logits of 1000", "logits of +-1000", (maker.winners(make("w1000", 5, 4), 1000.0),)),
        Regime("logits of 1e5", "logits of +-1e5, one key far ahead", (maker.winners(make("w1e5", 5, 4), 9e4),)),
        Regime(
            "far from zero",
            "all logits near 200, near -200 and near -2000, or near -100 in the last keys: only exp can tell",
            (maker.common(make("at200", 5, 4), 200.0), maker.common(make("at-200", 5, 4), -200.0),
             maker.common(make("at-2000", 5, 4), -2000.0), maker.common(make("q1 at200", 1, 4, 9), 200.0),
             maker.common(make("q1 at-200", 1, 4, 9), -200.0),
             maker.late(maker.common(make("late97", 97, 8, heads=1), -100.0)),
             *(maker.common(make(f"at-100, {n}", n, 4, heads=1), -100.0) for n in (64, 70, 129))),
        ),
        Regime(
            "forbidden giants",
            "allowed logits near -9e4, forbidden ones near 9e4: a finite stand-in for -inf must lie below",
            (maker.forbidden(make("padding-3e3", 6, 4), 3e3), giant, maker.forbidden(make("padding-2e4", 6, 4), 2e4)),
        ),
        Regime(
            "forbidden future",
            "causal, and later keys have ever larger logits, up to 9e4, also behind positions of eight bits",
            (maker.rising(make("future-3e3", 6, 4, causal=True), -3e3, 3e3), future,
             maker.rising(make("future300", 300, 4, heads=1, causal=True), -3e3, 3e3)),
        ),
    )  # fmt: skip


def _modifiers(maker: Maker) -> tuple[Regime, ...]:
    make = maker.make
    slopes = np.array([0.5, 0.125])
    return (
        Regime(
            "window",
            "i - j < window if causal, |i - j| < window if not",
            (make("w3", 7, 5, window=3), make("w3c", 7, 5, window=3, causal=True), make("w1", 5, 8, window=1),
             make("w16", 33, 16, window=16, causal=True)),
        ),
        Regime("softcap", "c tanh(s / c) of the scaled logits",
               (make("cap2", 7, 5, softcap=2.0), make("cap30", 16, 4, softcap=30.0, spread=10.0, causal=True))),
        Regime("alibi", "s - slope_h |i - j|",
               (make("alibi7", 7, 5, alibi=slopes), make("alibi16", 16, 4, alibi=slopes, causal=True))),
    )  # fmt: skip

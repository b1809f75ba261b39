"""The regimes of optional parts, and of what may be meant in more than one way, for kernels that have them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from attnprune_verify.audit.kernel.problem.sample import KernelSample, Regime
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import ANY_SIZE
from attnprune_verify.audit.kernel.typing import Plain

_BOTH = ("dbias", "dsinks")


def optional(maker: Maker) -> tuple[Regime, ...]:
    """Every regime of the contract's optional parts."""
    return (
        *_causal_lengths(maker), *_masks(maker), *_log_sum_exp(maker), *_nothing_allowed(maker), *_added(maker),
        *_dropout(maker), *_packed(maker),
    )  # fmt: skip


def _causal_lengths(maker: Maker) -> tuple[Regime, ...]:
    make = maker.make
    some = [make(f"ca{n}x{length}", n, 8, length, causal=True) for n, length in ((3, 9), (1, 20), (9, 4), (17, 40))]
    windowed = [make(f"caw{n}x{length}", n, 8, length, causal=True, window=3) for n, length in ((3, 9), (1, 20))]
    return (
        Regime("causal, more keys", "causal with n != l: where the last query stands, as declared",
               (*some, *(one for one in windowed if one.allowed.any(axis=1).all() or one.shape[3] == 1))),
        Regime(
            "order of scores",
            "scale, softcap, bias, slopes and mask in the declared order",
            (maker.scaled(make("so7", 7, 5, softcap=2.0, masked=True), q=2.0),
             make("soc9", 9, 8, softcap=1.5, causal=True, scale=1.0),
             make("soa7", 7, 5, softcap=1.5, alibi=np.array([0.5, 0.25])),
             maker.biased(make("sob7", 7, 5, softcap=1.5, masked=True), "full"),
             maker.biased(make("sos7", 7, 5, scale=0.25, alibi=np.array([0.5, 0.25])), "full")),
        ),
    )  # fmt: skip


def _masks(maker: Maker) -> tuple[Regime, ...]:
    """Masks of higher rank: along some axes of their own, along others broadcast."""

    def drawn(name: str, shape: tuple[int, ...], sample: KernelSample) -> KernelSample:
        """Draw a mask with at least key 0 allowed."""
        mask = np.random.default_rng([maker.seed, *name.encode()]).random(shape) < 0.6
        mask[..., 0] = True
        return sample.changed(name=name, mask=mask)

    base = maker.make("mask ranks", 6, 8, 9, batch=2, heads=4, kv_heads=2)
    causal = maker.make("mask ranks, causal", 18, 4, batch=2, heads=3, causal=True)
    (batch, heads, _, n, keys, *_), (b, h, _, c, d, *_) = base.shape, causal.shape
    four = [(batch, heads, n, keys), (batch, 1, n, keys), (1, heads, n, keys), (1, 1, n, keys), (batch, 1, 1, keys),
            (batch, heads, 1, keys)]  # fmt: skip
    three = [(1, n, keys), (heads, n, keys)]
    plain, equal = maker.make("mf5", 5, 8), maker.make("mr equal", 7, 5, batch=3, heads=3)
    s, g, _, i, j, *_ = equal.shape
    alike = [(g, i, j), (s, 1, 1, j), (1, g, 1, j), (s, 1, i, j)]  # axes that sizes do not tell apart
    floats = [drawn("mf5", plain.shape[3:5], plain), drawn("mf18", (c, d), causal)]
    return (
        Regime("mask ranks", "masks of rank 3 and 4, broadcast over samples, heads and queries",
               (*(drawn(f"mr{shape}", shape, base) for shape in dict.fromkeys((*four, *three))),
                drawn("mrc", (b, 1, c, d), causal), drawn("mrh", (1, h, c, d), causal),
                *(drawn(f"mr equal{shape}", shape, equal) for shape in dict.fromkeys(alike)))),
        Regime("float masks", "0 and -inf, added to the logits",
               tuple(one.changed(name=f"{one.name}, float", additive=True) for one in floats)),
    )  # fmt: skip


def _log_sum_exp(maker: Maker) -> tuple[Regime, ...]:
    make, slopes = maker.make, np.array([0.5, 0.125])
    plain = (
        make("ls5", 5, 8, batch=2), make("ls1", 1, 4), make("ls33", 33, 16), make("lsc", 17, 4, causal=True),
        make("lsm", 9, 8, masked=True), make("lsg", 7, 5, heads=4, kv_heads=2, scale=0.5),
        make("lsd", 1, 16, 70), make("lscd", 3, 8, 20, causal=True), make("lsmv", 5, 8, mv=3),
        make("lscap", 7, 5, softcap=2.0), make("lsw", 17, 4, causal=True, window=4), make("lsa", 7, 5, alibi=slopes),
    )  # fmt: skip
    levels = [maker.common(make(f"ls at {level:g}", 5, 4), level) for level in (-200.0, -100.0, 100.0, 200.0)]
    rising = maker.rising(make("ls up", 40, 8), -12.0, 12.0)
    bounds = [0, *np.cumsum([maker.scope.tokens(6, size)[1] for size in (1, 10, 13)]).tolist()]
    keys = Maker(maker.seed, maker.precision, maker.scope.with_extents(l=ANY_SIZE)).make(
        "split", 6, 8, bounds[-1], heads=4, kv_heads=2, masked=True
    )
    turned = np.random.default_rng(maker.seed).standard_normal
    pack = maker.packed_from
    grouped: Plain = {"heads": 4, "kv_heads": 2}
    pulled = [
        make("dl5", 5, 8, batch=2),
        make("dlc", 9, 4, causal=True),
        make("dlg", 6, 8, 9, 5, **grouped),
        make("dlm", 33, 8, masked=True),
        make("dl1", 1, 8, 20),
        make("dlw", 20, 4, causal=True, window=4),
        pack("dlp", (5, 3, 9), (5, 3, 9), causal=True),
        pack("dlp keys", (2, 4, 1), (6, 3, 8), **grouped),
        *(maker.sunk(make(f"dls{n}", n, 8, 9)) for n in (1, 6)),
    ]
    return (
        Regime("log-sum-exp", "the natural logarithm of the sum of exponentials of the changed logits",
               tuple(one.changed(lse=True) for one in (*plain, *levels, rising))),
        Regime("split keys", "output and log sum exp of parts of the keys, rows without any among them",
               () if maker.scope.square else tuple(_part(keys, start, stop) for start, stop in pairwise(bounds))),
        Regime("log-sum-exp gradient", "the gradients with a cotangent of log sum exp",
               tuple(maker.exact(one, dlse=turned(one.do.shape[:3])) for one in pulled)),
        Regime("log-sum-exp and sinks", "the sink counts in log sum exp, and gets a gradient through it",
               tuple(maker.pulled(maker.sunk(make(name, *sizes, heads=4, kv_heads=2), level)).changed(
                   lse=True, wanted=("dsinks",)) for name, sizes, level in (
                       ("lss6", (6, 8, 9), 0.0), ("lss1", (1, 8, 20), 3.0), ("lss33", (33, 4), -3.0),
                       ("lss9", (9, 8), 1e3)))),
    )  # fmt: skip


def _part(sample: KernelSample, start: int, stop: int) -> KernelSample:
    """The sample of a split of the keys, which has an output and a log sum exp of its own."""
    assert sample.mask is not None
    own = slice(start, stop)
    return sample.changed(
        name=f"keys {start} to {stop - 1}",
        k=sample.k[:, :, own],
        v=sample.v[:, :, own],
        mask=sample.mask[:, own],
        lse=True,
    )


def _nothing_allowed(maker: Maker) -> tuple[Regime, ...]:
    make = maker.make

    def without(sample: KernelSample, rows: slice) -> KernelSample:
        mask = np.ones(sample.allowed.shape[-2:], dtype=bool) if sample.mask is None else sample.mask.copy()
        mask[rows] = False
        return sample.changed(mask=mask)

    some = (
        without(make("er6", 6, 8, batch=2), slice(2, 3)),
        without(make("er9", 9, 4, 20, masked=True, heads=4, kv_heads=2), slice(0, 4)),
        without(make("erc", 33, 8, causal=True), slice(20, None)),
        without(make("er1", 1, 8, 6), slice(0, 1)),
        without(make("er70", 70, 8, heads=1), slice(0, 64)),
    )
    last = make("pad12", 5, 8, 12, batch=2)
    mask = np.ones(last.shape[3:5], dtype=bool)
    mask[:, 2 * mask.shape[1] // 3 :] = False
    inner = mask.copy()
    inner[:, 2:4], inner[0, 5:6] = False, False
    last = last.changed(mask=mask)
    return (
        Regime("empty rows", "rows with nothing allowed: o = 0, gradients 0, log sum exp -inf",
               (*some, *(one.changed(name=f"{one.name}, lse", lse=True) for one in some[:3]))),
        Regime("padding", "NaN and inf in k and v where no query may look, in q and do where nothing may be seen",
               (last.changed(poison=np.nan), last.changed(name="pad inf", poison=np.inf),
                last.changed(name="pad inner", mask=inner, poison=np.nan),
                make("pad70", 20, 8, 70, causal=True, poison=np.nan),
                *(make(f"pad window {n}x{length}", n, 8, length, window=window, causal=causal, poison=np.nan)
                  for n, length, window, causal in ((12, 40, 3, False), (1, 70, 33, False), (40, 20, 4, False),
                                                    (20, 70, 5, True))),
                without(make("padq", 9, 8, 12), slice(6, None)).changed(poison=np.nan))),
    )  # fmt: skip


def _added(maker: Maker) -> tuple[Regime, ...]:
    """Regimes of bias and sinks, each with and without its gradient."""
    make, biased, sunk = maker.make, maker.biased, maker.sunk
    grouped: Plain = {"batch": 2, "heads": 4, "kv_heads": 2}

    def at(level: float) -> KernelSample:
        return sunk(maker.common(make(f"s at {level:g}", 6, 8), level), level)

    def above(gap: float) -> KernelSample:
        """Raise the first head's sink far above its logits: exponentials overflow unless shifted by it."""
        sample = sunk(make(f"s {gap:g} above", 6, 8))
        return maker.exact(sample, sinks=np.resize([gap, 0.5], sample.shape[1]))

    some = (
        biased(make("b full", 6, 8, 9, **grouped), "full"), biased(make("b heads", 7, 5, **grouped), "heads"),
        biased(make("b batch", 6, 8, batch=2, causal=True), "batch"), biased(make("b row", 33, 4, masked=True), "row"),
        biased(make("b cap", 7, 5, softcap=2.0), "heads"), biased(make("b one", 1, 8, 20, scale=0.5), "full"),
        maker.scaled(biased(make("b large", 9, 8), "heads"), bias=16.0),
    )  # fmt: skip
    sinks = (
        sunk(make("s7", 7, 5, batch=2)), sunk(make("s high", 6, 8, 9, **grouped), 8.0), sunk(make("s low", 6, 8), -8.0),
        sunk(make("s causal", 33, 4, causal=True)), sunk(make("s mask", 9, 8, masked=True, mv=3)),
        sunk(make("s window", 17, 8, causal=True, window=4)), sunk(make("s cap", 7, 5, softcap=2.0)),
        at(100.0), at(-100.0), above(100.0), above(1000.0),
        sunk(make("s one", 1, 8, 20)), sunk(make("s many", 70, 8, batch=2)),
    )  # fmt: skip
    return (
        Regime("bias", "added to the scaled logits, broadcast over samples and heads", some),
        Regime("bias gradient", "dS summed over what the bias was broadcast along",
               tuple(one.changed(name=f"{one.name}, db", wanted=_BOTH[:1]) for one in some)),
        Regime("sinks", "one more logit a row, without a value", sinks),
        Regime("sinks gradient", "dS of the sink summed over samples and queries",
               tuple(one.changed(name=f"{one.name}, ds", wanted=_BOTH[1:]) for one in sinks)),
        Regime("bias and sinks", "both at once, with both gradients",
               tuple(sunk(one).changed(name=f"{one.name}, sinks", wanted=_BOTH) for one in (some[0], some[2]))),
    )  # fmt: skip


def _dropout(maker: Maker) -> tuple[Regime, ...]:
    make, dropped = maker.make, maker.dropped
    some = (
        dropped(make("d5", 5, 8, batch=2), 0.5), dropped(make("d17", 17, 4, causal=True), 0.9),
        dropped(make("dg", 6, 8, 9, 5, heads=4, kv_heads=2, masked=True), 0.75), dropped(make("d1", 1, 8, 20), 0.25),
        dropped(make("dcap", 7, 5, softcap=2.0, scale=0.5)), dropped(make("d40", 40, 8, 70, heads=1), 0.75),
    )  # fmt: skip
    return (Regime("dropout", "weights times the given mask over the given probability", some),)


def _packed(maker: Maker) -> tuple[Regime, ...]:
    pack, slopes = maker.packed_from, np.array([0.5, 0.125])
    grouped: Plain = {"heads": 4, "kv_heads": 2}
    some = (
        pack("p one", (5,), (5,)), pack("p two", (3, 6), (3, 6)), pack("p causal", (5, 1, 9), (5, 1, 9), causal=True),
        pack("p grouped", (4, 7), (4, 7), causal=True, **grouped), pack("p keys", (2, 4, 1), (6, 3, 8)),
        pack("p decode", (1, 1, 1), (4, 9, 2), causal=True, **grouped), pack("p chunk", (2, 3), (7, 5), causal=True),
        pack("p none", (4, 0, 3), (4, 0, 3), causal=True), pack("p mv", (5, 3), (4, 6), 8, 5),
        pack("p window", (9, 6), (9, 6), causal=True, window=3), pack("p cap", (4, 5), (4, 5), softcap=2.0),
        pack("p slopes", (6, 5), (6, 5), alibi=slopes), pack("p scale", (4, 5), (4, 5), scale=0.5),
        pack("p tiles", (17, 33, 16), (17, 33, 16), 4, causal=True), pack("p many", (2,) * 12, (3,) * 12, 4),
        pack("p features", (5, 4), (5, 4), 64), pack("p empty", (3, 2), (4, 0)),
        pack("p fewer", (7, 3), (3, 5), causal=True), pack("p crossed", (2, 4, 1), (4, 1, 2)),
        pack("p keys alone", (3, 0, 2), (4, 5, 2)), maker.sunk(pack("p sinks", (4, 6), (4, 6), **grouped), 0.0),
        maker.common(pack("p near 4", (19, 7), (19, 7)), 4.0), maker.common(pack("p near 12", (5, 4), (5, 4)), 12.0),
    )  # fmt: skip
    logs = (some[2], some[4], some[5], some[7])
    return (
        Regime("packed", "sequences one after the other, none, one or many tokens long", some),
        Regime(
            "packed log-sum-exp",
            "the same, with log sum exp",
            tuple(one.changed(name=f"{one.name}, lse", lse=True) for one in logs),
        ),
    )

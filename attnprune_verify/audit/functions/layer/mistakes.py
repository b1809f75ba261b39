"""Known mistakes that only layers show: heads, groups, biases, positions, caps and slopes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from attnprune_verify.audit.functions.layer.sample import LAYERED, LayerSample
from attnprune_verify.audit.functions.truth.formulas import Array, Step, turned
from attnprune_verify.instance.rope import RoPE

Change = tuple[str, dict[str, Step], str, tuple[str, ...]]
_SLOPE = ("layer_gradient",)
_FORWARD = tuple(name for name in LAYERED if name != "layer_gradient")


def layer_mistakes() -> Iterator[Change]:
    """The id, the steps exchanged, a detail, and the functions concerned."""
    yield from _heads()
    yield from _biases()
    yield from _positions()
    yield from _scores()
    yield from _slopes()
    yield from _errors()


def _heads() -> Iterator[Change]:
    def strided(h: int, count: int, m: int) -> Array:
        return np.arange(m) * count + h

    swapped: dict[str, Callable[[int, int, int], int]] = {
        "h % kv_heads for h // group": lambda h, heads, kv_heads: h % kv_heads,
        "the first key head for all": lambda h, heads, kv_heads: 0,
        "key heads counted from the end": lambda h, heads, kv_heads: kv_heads - 1 - h // (heads // kv_heads),
        "the next key head": lambda h, heads, kv_heads: (h // (heads // kv_heads) + 1) % kv_heads,
    }
    for detail, key_of in swapped.items():
        yield "heads-swapped", {"key_of": key_of}, detail, LAYERED
    yield "head-layout", {"columns": strided}, "head h takes every heads-th column", LAYERED
    yield (
        "head-layout",
        {"columns": lambda h, count, m: np.arange((count - 1 - h) * m, (count - h) * m)},
        "reversed",
        LAYERED,
    )
    yield "heads-not-summed", {"over_heads": lambda parts: sum(parts) / len(parts)}, "averaged", ("layer_loss",)
    yield "heads-not-summed", {"over_heads": lambda parts: parts[0]}, "the first only", ("layer_loss",)
    yield "heads-not-summed", {"over_heads": lambda parts: parts[-1]}, "the last only", ("layer_loss",)


def _biases() -> Iterator[Change]:
    for sides, detail in (("QK", "both"), ("Q", "of the queries"), ("K", "of the keys")):
        yield "bias-ignored", {f"bias_{side}": lambda b: 0 * b for side in sides}, detail, LAYERED
    yield "bias-ignored", {f"bias_{side}": lambda b: -b for side in "QK"}, "subtracted", LAYERED
    late: dict[str, Step] = {"add": lambda rows, bias, turn, sample: turn(rows, sample) + bias}
    yield "score-order", late, "biases are added after the rotation", LAYERED
    of_heads: dict[str, Callable[[int, int, int], int]] = {
        "h % kv_heads for h // group": lambda h, heads, kv_heads: h % kv_heads,
        "the first key head's for all": lambda h, heads, kv_heads: 0,
    }
    for detail, key_of in of_heads.items():
        yield "heads-swapped", {"bias_of": key_of}, f"in the keys' biases, {detail}", LAYERED


def _frequencies() -> dict[str, Callable[[Any, int], Array]]:
    return {
        "theta^(-a/m)": lambda rope, m: rope.theta ** (-np.arange(m // 2) / m),
        "theta^(-a/m), then scaled": lambda rope, m: RoPE(
            rope.theta**0.5, rope.layout, rope.scaling and dict(rope.scaling)
        ).frequencies(m),
        "theta^(-2a/m) of 10000": lambda rope, m: 10000.0 ** (-np.arange(0, m, 2) / m),
        "without scaling": lambda rope, m: rope.theta ** (-np.arange(0, m, 2) / m),
        "scaling inverted": lambda rope, m: (rope.theta ** (-np.arange(0, m, 2) / m)) ** 2 / rope.frequencies(m),
        "theta^(-2(a + 1)/m)": lambda rope, m: rope.theta ** (-np.arange(2, m + 2, 2) / m),
        "rounded to float16": lambda rope, m: rope.frequencies(m).astype(np.float16).astype(float),
        "theta^(2a/m)": lambda rope, m: rope.theta ** (np.arange(0, m, 2) / m),
        "theta^(-a/(m/2 - 1))": lambda rope, m: rope.theta ** (-np.arange(m // 2) / max(m // 2 - 1, 1)),
    }


def _positions() -> Iterator[Change]:
    def back(rows: Array, sample: LayerSample) -> Array:
        return turned(rows, sample, -1.0)

    def still(rows: Array, sample: LayerSample) -> Array:
        return rows

    for block in (8, 16, 32, 64, 128):
        yield "rope-position", _turns(block=block), f"positions modulo {block}", LAYERED
    yield "rope-ignored", {"turn_Q": still, "turn_K": still, "unturn": still}, "", LAYERED
    yield "rope-ignored", {"turn_Q": still}, "for the queries", LAYERED
    yield "rope-ignored", {"turn_K": still}, "for the keys", LAYERED
    yield "rope-transposed", {"turn_Q": back, "turn_K": back, "unturn": turned}, "R_i^T for R_i", LAYERED
    yield "rope-transposed", {"turn_Q": back, "turn_K": back}, "R_i^T for R_i in the logits", _SLOPE
    yield "rope-transposed", {"turn_Q": back}, "of the queries", LAYERED
    yield "rope-transposed", {"turn_K": back}, "of the keys", LAYERED
    yield "rope-not-turned-back", {"unturn": still}, "the derivatives stay turned", _SLOPE
    yield "rope-not-turned-back", {"unturn": turned}, "turned again instead of back", _SLOPE
    for first in (1, -1):
        for side in "QK":
            shifted = partial(turned, first=first)
            yield "rope-position", {f"turn_{side}": shifted}, f"{first:+d} for {side}", _FORWARD
    for detail, size in (("divided by their norm", 0.0), ("divided by their root mean square", 0.5)):
        unit = partial(_turned_units, power=size)
        yield "tokens-changed", {"turn_Q": unit, "turn_K": unit}, f"queries and keys {detail}", _FORWARD
    for layout in ("half", "interleaved"):
        yield "rope-layout", _turns(layout=layout), f"{layout} always", LAYERED
    for detail, theta in _frequencies().items():
        yield "rope-frequency", _turns(theta=theta), detail, LAYERED


def _turns(**options: Any) -> dict[str, Callable[..., Array]]:
    """The steps that turn queries and keys, and their derivatives back, otherwise."""
    there, back = partial(turned, **options), partial(turned, sign=-1.0, **options)
    return {"turn_Q": there, "turn_K": there, "unturn": back}


def _turned_units(rows: Array, sample: LayerSample, *, power: float) -> Array:
    return turned(rows / np.linalg.norm(rows, axis=1, keepdims=True) * rows.shape[1] ** power, sample)


def _seen(sample: LayerSample, least: int | None, most: int | None, window: int | None) -> Array:
    """Return the positions that the mask allows at a distance i - j above `least` and below `most`."""
    apart = np.subtract.outer(np.arange(sample.n), np.arange(sample.n))
    allowed = sample.changed(window=None).allowed
    if window is None:
        return allowed
    found = allowed & (apart > (-np.inf if least is None else least)) & (apart < (np.inf if most is None else most))
    return np.asarray(found)


def _scores() -> Iterator[Change]:
    windows: dict[str, tuple[str, Callable[[LayerSample], Array]]] = {
        "": ("window-ignored", lambda s: s.changed(window=None).allowed),
        "one too many": ("window-off-by-one", lambda s: _seen(s, -(s.window or 0) - 1, (s.window or 0) + 1, s.window)),
        "one too few": ("window-off-by-one", lambda s: _seen(s, -(s.window or 0) + 1, (s.window or 0) - 1, s.window)),
        "to the left only": ("window-ignored", lambda s: _seen(s, None, s.window, s.window)),
        "causal always": ("mask-always-causal", lambda s: s.allowed & np.tri(s.n, dtype=bool)),
        "no diagonal": ("mask-strict", lambda s: s.allowed & ~np.eye(s.n, dtype=bool)),
        "the mask": ("mask-ignored", lambda s: s.changed(mask=None, causal=False).allowed),
        "all but a given one": ("mask-ignored", lambda s: s.changed(causal=False).allowed),
        "a given one": ("mask-ignored", lambda s: s.changed(mask=None).allowed),
        "transposed": ("mask-transposed", lambda s: s.allowed.T),
    }
    for detail, (id, allowed) in windows.items():
        yield id, {"allowed": allowed}, detail, LAYERED
    yield "softcap-ignored", {"cap": lambda s, cap: s, "bend": lambda p, s, cap: p}, "", LAYERED
    clipped: dict[str, Step] = {
        "cap": lambda s, cap: np.clip(s, -cap, cap),
        "bend": lambda p, s, cap: p * (np.abs(s) < cap),
    }
    yield "softcap-ignored", clipped, "clipped instead", LAYERED
    bare: dict[str, Step] = {
        "cap": lambda s, cap: np.tanh(s / cap),
        "bend": lambda p, s, cap: p * (1 - np.tanh(s / cap) ** 2) / cap,
    }
    yield "softcap-ignored", bare, "tanh(s/c) without c in front", LAYERED
    yield "softcap-slope-missing", {"bend": lambda p, s, cap: p}, "", _SLOPE
    yield "softcap-slope-missing", {"bend": lambda p, s, cap: p * (1 - np.tanh(s / cap))}, "1 - tanh", _SLOPE
    falls: dict[str, tuple[str, Step]] = {
        "": ("alibi-ignored", lambda s, slope, apart: s),
        "added": ("alibi-sign", lambda s, slope, apart: s + slope * np.abs(apart)),
        "i - j without its absolute value": ("alibi-sign", lambda s, slope, apart: s - slope * apart),
        "j - i without its absolute value": ("alibi-sign", lambda s, slope, apart: s + slope * apart),
        "squared distance": ("alibi-sign", lambda s, slope, apart: s - slope * apart**2),
    }
    for detail, (id, fall) in falls.items():
        yield id, {"fall": fall}, detail, LAYERED

    given, early = _fall(_slope_of), _in_order(_cap_early, _fall(_slope_of))
    yield "score-order", {"scores": early}, "the cap before the scale", _FORWARD
    for detail, head in _OTHER_HEADS.items():
        slope = partial(_slope_of, head=head)
        yield "alibi-ignored", {"scores": _in_order(_cap, _fall(slope))}, f"the slope of {detail}", _FORWARD
    slopes: dict[str, tuple[str, Callable[[LayerSample, int], float], tuple[str, ...]]] = {
        "2^(-8(h + 1)/heads) for the given slopes": (
            "alibi-ignored", lambda sample, h: 2.0 ** (-8 * (h + 1) / sample.heads), _FORWARD
        ),
        "slopes are scaled": ("score-order", lambda sample, h: sample.factor * _slope_of(sample, h), LAYERED),
        "the first head's slope for all": ("alibi-ignored", lambda sample, h: _slope_of(sample, 0), LAYERED),
    }  # fmt: skip
    yield "score-order", {"scores": _in_order(given, _cap)}, "slopes before the cap", LAYERED
    for detail, (id, slope_of, only) in slopes.items():
        yield id, {"scores": _in_order(_cap, _fall(slope_of))}, detail, only


Scores = Callable[..., Array]  # of logits, sample, head, and the steps for the cap and the slopes


def _in_order(*steps: Scores) -> Scores:
    def scores(s: Array, *given: Any) -> Array:
        for step in steps:
            s = step(s, *given)
        return s

    return scores


def _cap(s: Array, sample: LayerSample, h: int, cap: Step, fall: Step) -> Array:
    return s if sample.softcap is None else cap(s, sample.softcap)


def _cap_early(s: Array, sample: LayerSample, h: int, cap: Step, fall: Step) -> Array:
    return sample.factor * _cap(s / sample.factor, sample, h, cap, fall)


def _fall(slope_of: Callable[[LayerSample, int], float]) -> Scores:
    def falling(s: Array, sample: LayerSample, h: int, cap: Step, fall: Step) -> Array:
        apart = np.subtract.outer(np.arange(sample.n), np.arange(sample.n))
        return s if sample.alibi is None else np.asarray(fall(s, slope_of(sample, h), apart))

    return falling


_OTHER_HEADS: dict[str, Callable[[int, LayerSample], int]] = {
    "the head counted from the end": lambda h, sample: sample.heads - 1 - h,
    "the next head": lambda h, sample: (h + 1) % sample.heads,
    "the head before": lambda h, sample: (h - 1) % sample.heads,
    "the key head": lambda h, sample: h // (sample.heads // sample.kv_heads),
    "the head modulo the key heads": lambda h, sample: h % sample.kv_heads,
    "the last head": lambda h, sample: sample.heads - 1,
}
"""Whose slope an index that is off gives."""


def _slope_of(sample: LayerSample, h: int, head: Callable[[int, LayerSample], int] = lambda h, sample: h) -> float:
    assert sample.alibi is not None  # of a layer without slopes none is needed
    return float(sample.alibi[head(h, sample)])


def _slopes() -> Iterator[Change]:
    groups: dict[str, Callable[[list[Array]], Array]] = {
        "the last head's only": lambda parts: parts[-1],
        "the first head's only": lambda parts: parts[0],
        "averaged": lambda parts: sum(parts[1:], start=parts[0]) / len(parts),
    }
    for detail, group in groups.items():
        yield "gqa-gradient-not-summed", {"group": group}, detail, _SLOPE
    yield "gradient-sign", {"pull": lambda Y, W, M: -W * Y}, "", _SLOPE


def _errors() -> Iterator[Change]:
    only = ("layer_relative_error",)
    yield "heads-not-summed", {"errors": lambda parts: np.full(len(parts), np.mean(parts))}, "averaged", only
    yield "heads-not-summed", {"errors": lambda parts: np.array(parts) / len(parts)}, "divided by their number", only
    yield "head-layout", {"errors": lambda parts: np.array(parts)[::-1]}, "reversed", only

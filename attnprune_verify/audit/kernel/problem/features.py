"""The features of a sample beyond the plain case: what each is, how a kernel takes it, how it is drawn and dropped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Sample: TypeAlias = Any
"""A `KernelSample`, whose module reads this table."""


@dataclass(frozen=True)
class Feature:
    """A property of a sample that a kernel may refuse.

    Attributes
    ----------
    name : str
        Its name in reports.
    says : str
        Its description.
    present : callable
        Whether a sample has it.
    dropped : callable
        The sample without it; None where that leaves a row without keys.
    factor : str
        The column of `interactions.FACTORS` whose levels beyond the first have it; empty where regimes alone do.
    parameter : str
        The parameter that the function must have for it.
    capability : str
        The word of CAPABILITIES without which it is judged only where a probe is answered rightly.
    promise : str
        The keyword in files of vectors by which a kernel is asked to promise it.
    mistake : str
        The id of a failure that goes away with it.
    of_logits : bool
        Whether it changes the logits.
    """

    name: str
    says: str
    present: Callable[[Sample], bool]
    dropped: Callable[[Sample], Sample]
    factor: str = ""
    parameter: str = ""
    capability: str = ""
    promise: str = ""
    mistake: str = ""
    of_logits: bool = False

    def named_on(self, sample: Sample) -> str:
        """Return the name; that of a mask's shape lists its axes, such as "mask (batch, 1, n, l)"."""
        if self is not _SHAPE:
            return self.name
        axes = zip(("batch", "heads", "n", "l")[-sample.mask.ndim :], sample.mask.shape, strict=True)
        return f"mask ({', '.join('1' if size == 1 else axis for axis, size in axes)})"


def _reset(**defaults: Any) -> Callable[[Sample], Sample]:
    return lambda sample: sample.changed(**defaults).without_new_empty_rows(sample.empty)


def _unasked(gradient: str, **defaults: Any) -> Callable[[Sample], Sample]:
    """The sample without one of its further gradients."""
    return lambda sample: _reset(wanted=tuple(name for name in sample.wanted if name != gradient), **defaults)(sample)


def _one_mask(sample: Sample) -> Sample:
    """The sample with the mask of its first batch entry and head for all."""
    batch, heads, _, n, length, *_ = sample.shape
    return _reset(mask=np.broadcast_to(sample.mask, (batch, heads, n, length))[0, 0].copy())(sample)


def _of_rank(rank: int) -> Callable[[Sample], bool]:
    return lambda sample: sample.mask is not None and sample.mask.ndim == rank


def _equal_lengths(sample: Sample) -> Sample:
    size = min(sample.shape[3:5])
    return sample.cut(n=size, l=size)


def _equal_widths(sample: Sample) -> Sample:
    size = min(sample.shape[5:7])
    return sample.cut(m=size, mv=size)


def _by_integers(sample: Sample) -> bool:
    return hasattr(sample, "indices") or hasattr(sample, "block_table")


def _lists_of(sample: Sample, heads: int) -> bool:
    return hasattr(sample, "indices") and sample.indices.shape[1] == heads > 1


def _given_up(sample: Sample) -> None:
    """No sample: keys that integers name are other keys without them."""


_SHAPE = Feature("mask shape", "axes along which a mask is broadcast",
                 lambda sample: sample.mask is not None and sample.mask.ndim > 2, _one_mask)  # fmt: skip

FEATURES = (
    Feature("causal", "position i attends to positions up to i", lambda s: s.causal, _reset(causal=False), "causal"),
    Feature("mask", "some positions are forbidden", lambda s: s.mask is not None, _reset(mask=None), "mask"),
    Feature("scale", "another scale than 1/sqrt(m)", lambda s: s.scale is not None, _reset(scale=None), "scale"),
    Feature("kv_heads < heads", "query heads share key heads", lambda s: s.group > 1,
            lambda s: s.first_of_groups(), "heads"),
    Feature("l != n", "more or fewer keys than queries", lambda s: s.shape[3] != s.shape[4], _equal_lengths, "lengths"),
    Feature("mv != m", "values of another width than keys", lambda s: s.shape[5] != s.shape[6], _equal_widths, "mv"),
    Feature("window", "a limited distance of positions", lambda s: s.window is not None, _reset(window=None),
            "window", "window", mistake="window-wrong", of_logits=True),
    Feature("softcap", "logits are capped by c tanh(s / c)", lambda s: s.softcap is not None, _reset(softcap=None),
            "softcap", "softcap", mistake="softcap-wrong", of_logits=True),
    Feature("alibi", "slopes times the distance lower the logits", lambda s: s.alibi is not None, _reset(alibi=None),
            "alibi", "alibi", mistake="alibi-wrong", of_logits=True),
    Feature("strides", "inputs that are not contiguous", lambda s: s.layout not in ("plain", "spaced", "broadcast"),
            _reset(layout="plain"), "layout"),
    Feature("broadcast keys", "keys and values that all heads share by a stride of 0",
            lambda s: s.layout == "broadcast", _reset(layout="plain")),
    Feature("spaced features", "features that do not lie side by side", lambda s: s.layout == "spaced",
            _reset(layout="plain")),
    Feature("mask of rank 3", "a mask (batch or heads, n, l)", _of_rank(3), _one_mask,
            capability="mask_rank_3", mistake="mask-broadcast"),
    Feature("mask of rank 4", "a mask (batch, heads, n, l)", _of_rank(4), _one_mask, "rank",
            capability="mask_rank_4", mistake="mask-broadcast"),
    _SHAPE,
    Feature("float mask", "a mask of 0 and -inf", lambda s: s.additive, _reset(additive=False),
            capability="float_mask", mistake="mask-broadcast"),
    Feature("bias", "a bias is added to the logits", lambda s: s.bias is not None, _unasked("dbias", bias=None),
            "bias", "bias", mistake="bias-wrong"),
    Feature("sinks", "a logit of each head without a value", lambda s: s.sinks is not None,
            _unasked("dsinks", sinks=None), "sinks", "sinks", mistake="sink-wrong"),
    Feature("dlse", "a cotangent of log sum exp", lambda s: s.dlse is not None, _reset(dlse=None),
            parameter="dlse", mistake="lse-gradient"),
    Feature("dropout", "weights that are dropped", lambda s: s.dropout is not None, _reset(dropout=None, keep=1.0),
            "dropout", "dropout_mask", mistake="dropout-wrong"),
    Feature("lse", "log sum exp is returned", lambda s: s.lse, _reset(lse=False), "lse", "return_lse"),
    Feature("packed", "sequences packed behind each other", lambda s: s.ends is not None, _reset(ends=None),
            parameter="cu_seqlens_q", mistake="varlen-offset"),
    Feature("empty rows", "rows with nothing allowed",
            lambda s: (s.mask is not None or s.bottom_heavy or s.ends is not None or _by_integers(s)) and s.empty,
            lambda s: s.mask is not None and s.without_new_empty_rows(False) or None,
            "empty", promise="zero_empty_rows", mistake="empty-row"),
    Feature("padding", "NaN where nothing may be read", lambda s: s.poison is not None, _reset(poison=None),
            "padding", promise="clean_padding", mistake="nan-leak"),
    Feature("index lists", "each query sees the keys of its list", lambda s: hasattr(s, "indices"), _given_up,
            parameter="indices"),
    Feature("lists of each head", "an index list for every query head",
            lambda s: _lists_of(s, s.shape[1]), _given_up),
    Feature("lists of each key head", "an index list for every key head",
            lambda s: s.group > 1 and _lists_of(s, s.shape[2]), _given_up),
    Feature("pages", "keys and values are found by a table of pages", lambda s: hasattr(s, "block_table"), _given_up,
            parameter="block_table"),
    Feature("dbias", "the gradient of the bias", lambda s: "dbias" in s.wanted, _unasked("dbias"), parameter="wanted"),
    Feature("dsinks", "that of the sinks", lambda s: "dsinks" in s.wanted, _unasked("dsinks"), parameter="wanted"),
)  # fmt: skip

_BY_NAME = {feature.name: feature for feature in FEATURES}


def features_of(sample: Sample) -> tuple[Feature, ...]:
    """Return the features that a sample has."""
    return tuple(feature for feature in FEATURES if feature.present(sample))


def feature_named(name: str) -> Feature:
    """Return the feature that a report calls by a name.

    Examples
    --------
    >>> feature_named("softcap").parameter, feature_named("mask (batch, 1, n, l)").name
    ('softcap', 'mask shape')
    """
    return _BY_NAME.get(name, _SHAPE)

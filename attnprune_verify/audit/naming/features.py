"""The features of an instance, and the instance without one: which of them does a failure need?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from attnprune_verify.audit.layer.sample import LayerSample
from attnprune_verify.audit.truth.sample import Sample

__all__ = ["features", "needed", "without"]

_OF_LAYER: dict[str, dict[str, Any]] = {
    "biases": {"b_Q": None, "b_K": None},
    "scale": {"scale": None},
    "rope-half": {"rope": None},
    "rope-interleaved": {"rope": None},
    "rope-scaling": {"rope": None},
    "window": {"window": None},
    "softcap": {"softcap": None},
    "alibi": {"alibi": None},
    "given-mask": {"mask": None},
    "causal": {"causal": False},
}
"""What a layer is given instead of each."""


def features(sample: Sample) -> frozenset[str]:
    """The names of what an instance has beyond the plainest one.

    Examples
    --------
    >>> from attnprune_verify.audit.truth.asked import asked_samples
    >>> sorted(features(asked_samples("loss", 0, "causal")[0]))
    ['lam', 'mask']
    """
    found = {"lam"} if sample.lam else set()
    found |= {"a batch"} if sample.X.ndim == 3 else set()
    if not isinstance(sample, LayerSample):
        return frozenset(found | ({"mask"} if sample.mask is not None else set()))
    found |= {"causal"} if sample.causal else set()
    return frozenset(found | (sample.features - {"rope-scaling"}))


def without(sample: Sample, feature: str) -> Sample:
    """The instance without one of its features; of a batch the first sample, of a group the first head."""
    if feature == "lam":
        return sample.changed(lam=0.0)
    if feature == "a batch":
        return sample.changed(X=sample.X[0])
    if not isinstance(sample, LayerSample):
        return sample.changed(mask=None)
    if feature == "groups":
        return _alone(sample)
    if feature == "mask":
        return sample.changed(mask=None, causal=False)
    return sample.changed(**_OF_LAYER[feature])


def _alone(sample: LayerSample) -> LayerSample:
    """Return the layer with as many query heads as key heads: the first of each group."""
    group, m = sample.heads // sample.kv_heads, sample.m

    def cut(array: Any) -> Any:
        if array is None:
            return None
        parts = array.reshape(*array.shape[:-1], sample.kv_heads, group, m)[..., 0, :]
        return np.ascontiguousarray(parts.reshape(*array.shape[:-1], -1))

    arrays = {name: cut(getattr(sample, name)) for name in ("W_Q", "M_Q", "b_Q")}
    slopes = None if sample.alibi is None else sample.alibi[::group]
    return sample.changed(heads=sample.kv_heads, alibi=slopes, **arrays)


def needed(sample: Sample, fails: Callable[[Sample], bool]) -> tuple[frozenset[str], Sample]:
    """The features without any of which the failure is gone, and an instance with these alone."""
    for feature in sorted(features(sample)):
        bare = without(sample, feature)
        if fails(bare):
            sample = bare
    return features(sample), sample

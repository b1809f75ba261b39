"""OWL: ratios between layers by how many outliers they hold (Yin et al., arXiv 2310.05175)."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.instance.validate import Array
from attnprune_verify.values import as_ratio

Name = TypeVar("Name")


def outlier_share(maps: Sequence[tuple[Array, Moments]], multiple: float = 5.0) -> float:
    """The share of a layer's entries ``|w_ij| ||X_j||`` above `multiple` times their mean; maps are (weight, inputs).

    Examples
    --------
    >>> outlier_share([(np.array([[1.0, 1.0, 1.0, 97.0]]), Moments(np.eye(4), 0.1, 1.0, 1))], 3.0)
    0.25
    """
    scores = np.concatenate([(np.abs(weight) * np.sqrt(np.diag(inputs.H))).ravel() for weight, inputs in maps])
    return float(np.mean(scores > multiple * scores.mean()))


def owl_ratios(outliers: Mapping[Name, float], rho: float, spread: float = 0.08) -> dict[Name, float]:
    """Ratios around rho, less where there are more outliers: their range is 2 `spread`, their mean rho.

    Examples
    --------
    >>> {name: round(ratio, 2) for name, ratio in owl_ratios({"a": 0.0, "b": 0.1}, 0.5).items()}
    {'a': 0.58, 'b': 0.42}
    """
    ratio = as_ratio(rho)
    shares = np.array(list(outliers.values()))
    width = float(np.ptp(shares))
    above = np.zeros(len(shares)) if width == 0 else (shares - shares.min()) / width * 2 * spread
    return dict(zip(outliers, np.clip(ratio - (above - above.mean()), 0.0, 1.0).tolist(), strict=True))

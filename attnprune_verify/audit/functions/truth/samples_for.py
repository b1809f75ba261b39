"""The instances of a function: those of the fused weight, or those of layers."""

from __future__ import annotations

from attnprune_verify.audit.functions.layer.regimes import drawn_layer, large_layers, layer_regimes, layers_together
from attnprune_verify.audit.functions.layer.sample import LAYERED
from attnprune_verify.audit.functions.truth.precision import FLOAT64, Precision
from attnprune_verify.audit.functions.truth.sample import Sample
from attnprune_verify.audit.functions.truth.samples import drawn, large_samples, regimes


def asked_samples(
    function: str, seed: int, regime: str, precision: Precision = FLOAT64, refused: frozenset[str] = frozenset()
) -> tuple[Sample, ...]:
    """The instances of a regime; none where functions of this kind do not have it.

    Features that a subject refuses are left out of those in which features stand together.
    """
    if function in LAYERED and regime.endswith("together"):
        return layers_together(seed, precision, refused, regime.startswith("batch"))
    every = layer_regimes(seed, precision) if function in LAYERED else regimes(seed, precision)
    return every.get(regime, ())


def random_one(function: str, seed: int, index: int, precision: Precision) -> Sample:
    """One of arbitrarily many random instances."""
    return drawn_layer(seed, index, precision) if function in LAYERED else drawn(seed, index, precision)


def large_ones(function: str, seed: int, precision: Precision) -> tuple[Sample, ...]:
    """A few instances past the usual blocks."""
    return large_layers(seed, precision) if function in LAYERED else large_samples(seed, precision)

"""The formulas of every function with exact values, whatever its instances are."""

from __future__ import annotations

from attnprune_verify.audit.layer.formulas import layer_part
from attnprune_verify.audit.layer.sample import LayerSample
from attnprune_verify.audit.truth import formulas
from attnprune_verify.audit.truth.formulas import Array, Steps
from attnprune_verify.audit.truth.sample import Sample

__all__ = ["attention_part", "through_entry"]

through_entry = formulas.through_entry


def attention_part(function: str, sample: Sample, steps: Steps) -> tuple[Array, ...]:
    """What a function returns without its regulariser, computed with these steps; of a batch the average."""
    if isinstance(sample, LayerSample):
        return layer_part(function, sample, steps)
    return formulas.attention_part(function, sample, steps)

"""`prune_layer`: one door to every method for real attention layers."""

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from attnprune_verify.algorithms.layer.solve import PrunedLayer, solve_layer
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.validate import as_real

__all__ = ["PrunedLayer", "prune_layer"]


def prune_layer(
    layer: AttentionLayer,
    X: ArrayLike,
    rho: float | None = None,
    method: str = "fisher-obs",
    *,
    pattern: str | None = None,
    certify: bool = False,
    **options: Any,
) -> PrunedLayer:
    """Prune W_Q and W_K of a real attention layer, each by the ratio rho or to an N:M pattern. Biases are kept.

    ========================  =========================================================================
    ``random``                uniformly random masks; option `seed`
    ``magnitude``             largest ``|w|`` of every head
    ``wanda``                 Wanda in its own convention: per output column
    ``sparsegpt``             SparseGPT in its own convention: thresholds over all heads; `blocksize`, `percdamp`
    ``paper-gd``              the paper's descent on real masks (a reproduction); options of `PaperDescent`
    ``fisher-diagonal``       largest w^2 h, h the KL's second derivative; weights unchanged; option `threshold`
    ``fisher-obs``            two-sided OBS: inputs' second moments, the softmax's Fisher metric; options of `FisherOBS`
    ``fisher-obs-kl``         the same, then the kept weights follow the KL; options of `FisherOBSKL`, `FisherOBS`
    ``ste``                   a mask learnt by descent on the KL; weights unchanged; options of `STE`
    ``output-obs``            the same objective, metric from one backward probe; options of `LayerOutputOBS`
    ========================  =========================================================================

    Everything is deterministic; `random` and the probes of `output-obs` by their seed. No method looks at anything but
    the layer and X.

    Parameters
    ----------
    layer : AttentionLayer
    X : (n, d) or (k, n, d) array
        Calibration tokens: inputs of this layer, at the lengths it will be used at.
    rho : float
        Pruning ratio in [0, 1]. Exactly ``floor(rho * size)`` zeros in each head's block of W_Q and of W_K, except for
        ``wanda`` (per column) and ``sparsegpt`` (one more per block of inputs).
    method : str
    pattern : str, optional
        "N:M" in place of rho, for magnitude, wanda, sparsegpt and output-obs: of every M consecutive inputs, each
        output keeps N.
    certify : bool
        Put `certified_mask_gap` of each head's two masks, the other map and the kept weights dense, into
        ``summary["mask_gap"]`` ("Q" and "K": bound, kl, ratio, ...): some seconds a head.
    **options
        As in the table.

    Returns
    -------
    PrunedLayer

    Raises
    ------
    InvalidInstance
        If X does not fit, rho is outside [0, 1], the method or an option is unknown, an option is out of its range, or
        not exactly one of rho and pattern is given.

    Notes
    -----
    The metrics are derived in docs/fisher_obs.md and docs/output_obs.md.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> layer = AttentionLayer(rng.normal(size=(8, 8)), rng.normal(size=(8, 4)), heads=2, kv_heads=1)
    >>> pruned = prune_layer(layer, rng.normal(size=(4, 6, 8)), 0.5)
    >>> pruned.summary["pruned_Q"], pruned.summary["pruned_K"]
    ((16, 16), (16,))
    >>> print(repr(pruned)[-38:])
    by fisher-obs: 48 of 96 weights are 0>
    """
    pruned = solve_layer(layer, X, rho, method, pattern, options)
    if not certify:
        return pruned
    from attnprune_verify.algorithms.gap.by_head import both_sides  # loads balls and SciPy

    masks = (pruned.mask_Q.astype(float), pruned.mask_K.astype(float))
    return replace(pruned, summary={**pruned.summary, "mask_gap": both_sides(layer, as_real("X", X), *masks)})

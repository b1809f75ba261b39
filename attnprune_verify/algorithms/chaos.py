"""Share of a mask's entries that rounding decides."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from attnprune_verify.algorithms.descent import prune_mask_gd
from attnprune_verify.algorithms.rounding import flipped_entries
from attnprune_verify.instance.validate import Array, as_real


@dataclass(frozen=True)
class Chaos:
    """Change of a mask when the run is disturbed immeasurably little.

    Attributes
    ----------
    flipped : float
        Fraction of entries that differ after a perturbation of M_0. Two independent masks at ratio rho differ in
        2 rho (1 - rho) of them.
    flipped_float32 : float
        Fraction of entries that differ when the whole run is done in float32.
    masks : tuple of (d, d) arrays
        The undisturbed mask, the perturbed one, the float32 one.
    """

    flipped: float
    flipped_float32: float
    masks: tuple[Array, Array, Array]


def chaos(
    X: ArrayLike, W: ArrayLike, rho: float, lam: float, *, perturbation: float = 1e-12, seed: int = 0, **options: Any
) -> Chaos:
    """Repeat a descent with M_0 = 1 + perturbation * N(0, 1), and once in float32, and compare the masks.

    A golden mask may be stored only where both numbers are 0; elsewhere gradients, single steps and error bands are
    what can be compared.

    Parameters
    ----------
    X, W, rho, lam, **options
        As `prune_mask_gd`.
    perturbation : float
        Standard deviation of the disturbance of M_0's entries.
    seed : int

    Raises
    ------
    InvalidInstance
        As `prune_mask_gd`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> calm = chaos(rng.normal(size=(6, 4)), 0.3 * rng.normal(size=(4, 4)), 0.5, 0.01, steps=20)
    >>> calm.flipped, calm.flipped_float32
    (0.0, 0.0)
    """
    samples, weight = as_real("X", X).astype(np.float64), as_real("W", W).astype(np.float64)
    noise = np.random.default_rng(seed).standard_normal(weight.shape)
    plain = prune_mask_gd(samples, weight, rho, lam, **options)
    disturbed = prune_mask_gd(samples, weight, rho, lam, initial=1 + perturbation * noise, **options)
    single = prune_mask_gd(samples.astype(np.float32), weight.astype(np.float32), rho, lam, **options)
    return Chaos(
        flipped_entries(plain.mask, disturbed.mask),
        flipped_entries(plain.mask, single.mask),
        (plain.mask, disturbed.mask, single.mask),
    )

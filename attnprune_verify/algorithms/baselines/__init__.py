"""The rivals of the paper's method, one line each: laws, layer methods, experiments and the front door follow it.

``NAME_mask(weight, X, rho)``, or without X, says which entries go; ``NAME(weight, X, rho)`` returns (weight, pruned).
Arguments behind a ``*`` are options.
"""

from attnprune_verify.algorithms.baselines.magnitude import magnitude_mask as magnitude_mask
from attnprune_verify.algorithms.baselines.sparsegpt import sparsegpt as sparsegpt
from attnprune_verify.algorithms.baselines.wanda import wanda_mask as wanda_mask

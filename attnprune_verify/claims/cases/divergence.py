"""The divergence of attention rows under other weights, from its definition, in any arithmetic."""

import numpy as np

from attnprune_verify.claims.cases.quantities import Lifted, Quantities


def divergence_of(q: Quantities, V: Lifted) -> Lifted:
    """sum_i KL(f_i || softmax(X V X^T)_i) = sum_i log sum_j f_ij exp D_ij - sum_j f_ij D_ij, D the change of logits."""
    change = q.X @ (V - q.W) @ q.X.T
    total = q.number(0.0)
    for i in np.flatnonzero(q.row_sizes >= 2):
        f, D = q.f[i, q.allowed[i]], change[i, q.allowed[i]]
        top = q.largest(D)
        total = total + q.log((f * q.exp(D - top)).sum()) + top - (f * D).sum()
    return total

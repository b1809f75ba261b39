"""Each check of the audit as a test: python -m pytest examples/test_attention.py"""

import numpy as np

from attnprune_verify.spec import parametrize_with_kernel_checks


def attention(q, k, v, causal=False):
    scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


@parametrize_with_kernel_checks(attention, quick=True)
def test_attention(check):
    check()

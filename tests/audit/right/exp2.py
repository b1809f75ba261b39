"""Base-2 exponentials of rescaled logits, as attention kernels do; multiplied by the reciprocal of the row sum."""

import numpy as np
from glue import functions_of


def softmax(logits, allowed):
    scaled = np.where(allowed, (logits - np.max(np.where(allowed, logits, -np.inf), axis=1, keepdims=True)), -np.inf)
    weights = np.exp2(scaled * logits.dtype.type(np.log2(np.e)))
    return weights * (1 / weights.sum(axis=1, keepdims=True))


globals().update(functions_of(softmax))

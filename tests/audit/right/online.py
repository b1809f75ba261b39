"""One pass over blocks of columns with a running maximum and a running sum, then the weights."""

import numpy as np
from glue import functions_of


def softmax(logits, allowed):
    n = len(logits)
    masked = np.where(allowed, logits, -np.inf)
    highest, total = np.full(n, -np.inf, logits.dtype), np.zeros(n, logits.dtype)
    with np.errstate(invalid="ignore"):
        for start in range(0, masked.shape[1], 2):
            block = masked[:, start : start + 2]
            higher = np.maximum(highest, block.max(axis=1))
            total = np.where(np.isinf(highest), 0, total * np.exp(highest - higher))
            total = total + np.where(np.isinf(block), 0, np.exp(block - higher[:, None])).sum(axis=1)
            highest = higher
    return np.exp(masked - highest[:, None]) / total[:, None]


globals().update(functions_of(softmax))

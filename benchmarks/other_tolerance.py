"""Compare the kernel audit's bound with hipDNN's, the one other tolerance of attention that is known to be derived.

    python -m benchmarks.other_tolerance

prints a table: on the same normal inputs, hipDNN's tolerance (one number a tensor, for a forward pass), the error of
the library's own honest kernel, and what the audit allows in an entry. docs/kernels.md shows it.
"""

import math

import numpy as np

from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.truth.judge import allowed_entries
from attnprune_verify.audit.kernel.truth.reference_kernel import own_attention
from attnprune_verify.audit.kernel.truth.truth import truth

SIZES = ((64, 64), (256, 64), (1024, 128))
"""Queries and keys, features."""
UNIT, STATISTICAL = 2.0**-23, 0.01
"""hipDNN's unit of float32; from 2 k units on it takes 6 sqrt(2 k) of them for 2 k."""
STORED = {"float32": 0.0, "bfloat16": 2.0**-7, "float16": 2.0**-10}


def gamma(terms: int) -> float:
    """Return the relative error of a sum of so many products, as hipDNN has it."""
    error = 2 * terms * UNIT
    error = error if error < STATISTICAL else 6 * math.sqrt(2 * terms) * UNIT
    return error / (1 - error)


def hipdnn_tolerance(sample: KernelSample) -> float:
    """Return the tolerance of a forward pass (`calculateSdpaFwdTolerance`, rocm-libraries#7032).

    The largest value times the relative errors of the logits, the row sum, the product with V and the storing.
    """
    length, m = sample.k.shape[2:]
    of_queries, of_keys, of_values = (float(np.abs(x).max()) for x in (sample.q, sample.k, sample.v))
    logit = m * of_queries * of_keys * sample.factor
    weights = logit * (gamma(m) + UNIT) + gamma(length) + (length + 1) * UNIT
    return of_values * (weights + gamma(length) + STORED[sample.precision.name])


def compared(dtype: str, length: int, m: int) -> tuple[float, float, float, float]:
    """Return hipDNN's tolerance, the own kernel's largest error, and the audit's median and largest entry."""
    rng, precision = np.random.default_rng(0), precision_named(dtype)
    q, k, v, do = (precision.exact(rng.standard_normal((1, 1, length, m))) for _ in range(4))
    sample = KernelSample("normal", precision, q, k, v, do)
    ours = allowed_entries("o", sample)
    off = np.abs(own_attention(sample)["o"] - truth(sample)["o"].value)
    return hipdnn_tolerance(sample), float(off.max()), float(np.median(ours)), float(ours.max())


def table() -> str:
    """Return the table, a line for each dtype and size."""
    lines = [f"{'':8} {'n = l, m':>10} {'hipDNN':>8} {'error':>8} {'ours':>8} {'hipDNN / ours':>14} {'least':>6}"]
    for dtype in STORED:
        for length, m in SIZES:
            theirs, off, median, largest = compared(dtype, length, m)
            numbers = f"{theirs:8.1e} {off:8.1e} {median:8.1e} {theirs / median:14,.0f} {theirs / largest:6,.0f}"
            lines.append(f"{dtype:8} {f'{length}, {m}':>10} {numbers}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())

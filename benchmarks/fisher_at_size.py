"""The estimated Fisher metrics at the size of the paper's own model: operations, error, memory.

``python benchmarks/fisher_at_size.py --out fisher.json`` builds a random layer (d = 2048, 32 query and 8 key heads of
64 with RoPE, causal) and tokens of unequal directions, and reports

* at n = 2048 and 8 sequences: operations of the exact sums and of the estimate (both counted in code), processor
  seconds, peak memory of the process;
* at a smaller n, where the exact sums can be had: the error of both metrics in the spectral norm.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse  # noqa: E402  # after the thread counts
import json  # noqa: E402
import resource  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from attnprune_verify.algorithms.layer.calibration import Calibration  # noqa: E402
from attnprune_verify.algorithms.layer.fisher import key_metric, query_metric, row_weights  # noqa: E402
from attnprune_verify.algorithms.layer.fisher_estimate import (  # noqa: E402
    estimated_key_metric,
    estimated_query_metric,
    estimated_row_weights,
    exact_operations,
)
from attnprune_verify.instance.layer import AttentionLayer  # noqa: E402
from attnprune_verify.instance.rope import RoPE  # noqa: E402

WEIGHT_SKETCHES = 64


def calibration(d: int, heads: int, kv_heads: int, m: int, n: int, k: int) -> Calibration:
    """A layer whose logits have a standard deviation of about 2, and tokens whose directions weigh unequally."""
    rng = np.random.default_rng(0)
    W_Q, W_K = (rng.standard_normal((d, count * m), dtype=np.float32) / d**0.5 for count in (heads, kv_heads))
    layer = AttentionLayer(
        W_Q, W_K, heads=heads, kv_heads=kv_heads, rope=RoPE(10000.0), mask="causal", scale=2 / m**0.5
    )
    X = rng.standard_normal((k, n, d), dtype=np.float32)
    X *= (1 + np.arange(d, dtype=np.float32)) ** -0.5
    X /= np.sqrt(np.square(X).mean(axis=2, keepdims=True))
    return Calibration(layer, X)


def estimates(data: Calibration, rows: int, sketches: int) -> dict[str, Any]:
    """Both metrics with what they took."""
    rng, start = np.random.default_rng(1), time.process_time()
    weights = estimated_row_weights(data, WEIGHT_SKETCHES, rng)
    G_Q = estimated_query_metric(data, data.keys, rows, rng)
    G_K = estimated_key_metric(data, data.queries, weights, rows, sketches, rng)
    visible = data.layer.heads * data.k * sum(block.shape[0] * block.shape[1] for block in data.maps.blocks())
    of_weights = 2.0 * visible * (data.layer.m + WEIGHT_SKETCHES + 1)
    return {
        "G": (G_Q.value, G_K.value),
        "errors": (float(G_Q.error.max()), float(G_K.error.max())),
        "operations": G_Q.operations + G_K.operations + of_weights,
        "cpu_seconds": time.process_time() - start,
    }


def spectral(ours: np.ndarray[Any, Any], exact: np.ndarray[Any, Any]) -> list[float]:
    """Relative errors of the heads in the spectral norm."""
    off = np.linalg.norm(ours - exact, 2, axis=(1, 2)) / np.linalg.norm(exact, 2, axis=(1, 2))
    return [float(value) for value in off]


def at_size(rows: int, sketches: int, n: int, k: int) -> dict[str, Any]:
    """Operations, time and memory."""
    data = calibration(2048, 32, 8, 64, n, k)
    found = estimates(data, rows, sketches)
    exact = exact_operations(data)
    return {
        "n": n,
        "sequences": k,
        "operations": found["operations"],
        "exact_operations": exact,
        "fewer": exact / found["operations"],
        "standard_errors": found["errors"],
        "cpu_seconds": found["cpu_seconds"],
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def against_exact(rows: int, sketches: int, n: int, k: int, heads: int) -> dict[str, Any]:
    """Errors in the spectral norm where the exact sums can be had."""
    data = calibration(2048, heads, heads // 4, 64, n, k)
    found = estimates(data, rows, sketches)
    exact = query_metric(data, data.keys), key_metric(data, data.queries, row_weights(data))
    errors = [spectral(ours, true) for ours, true in zip(found["G"], exact, strict=True)]
    return {
        "n": n,
        "sequences": k,
        "heads": heads,
        "rows_drawn": min(rows, n * k),
        "fewer": exact_operations(data) / found["operations"],
        "spectral_errors_Q": errors[0],
        "spectral_errors_K": errors[1],
        "standard_errors": found["errors"],
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--sketches", type=int, default=8)
    parser.add_argument("--n", type=int, default=2048)
    parser.add_argument("--sequences", type=int, default=8)
    parser.add_argument("--small-n", type=int, default=512)
    parser.add_argument("--small-sequences", type=int, default=16)
    parser.add_argument("--small-rows", type=int, default=4096, help="half of the tokens, as at full size")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    results = {
        "rows": chosen.rows,
        "sketches": chosen.sketches,
        "at_size": at_size(chosen.rows, chosen.sketches, chosen.n, chosen.sequences),
        "against_exact": [
            against_exact(rows, chosen.sketches, chosen.small_n, chosen.small_sequences, 4)
            for rows in (chosen.small_rows, chosen.rows)
        ],
    }
    text = json.dumps(results, indent=1)
    print(text)
    if chosen.out is not None:
        chosen.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

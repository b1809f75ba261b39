"""Time and memory to prune W_Q and W_K of one layer of the paper's model (d = 2048, 32 query and 8 key heads of 64).

Run ``python benchmarks/paper_layer.py``; each method has a process of its own with one thread. Weights and tokens are
drawn, which changes nothing for the products; tokens share a mean, as real ones do.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402  # after the thread counts
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402

import numpy as np  # noqa: E402

import attnprune_verify as apv  # noqa: E402


def main() -> None:
    """Prune by every method, each in a process of its own, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("d", 2048), ("heads", 32), ("kv-heads", 8), ("n", 2048), ("k", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rho", type=float, default=0.5)
    parser.add_argument("--only", help="this method, in this process")
    chosen = parser.parse_args()
    if chosen.only:
        prune(chosen)
        return
    seconds = {}
    for method in ("sparsegpt", "output-obs"):
        words = [sys.executable, __file__, *sys.argv[1:], "--only", method]
        seconds[method], peak = map(float, subprocess.run(words, check=True, capture_output=True).stdout.split())
        print(f"{method:12} {seconds[method]:7.1f} s of processor time, {peak:.2f} GiB", flush=True)
    print(f"ratio {seconds['output-obs'] / seconds['sparsegpt']:.2f}")


def prune(chosen: argparse.Namespace) -> None:
    """Print the processor time of one method and the peak of this process's memory in GiB."""
    d, m = chosen.d, chosen.d // chosen.heads
    rng = np.random.default_rng(0)
    shape = (chosen.k, chosen.n, d)
    X = rng.standard_normal(shape, np.float32) + rng.standard_normal(d, np.float32)
    W_Q, W_K = (rng.standard_normal((d, heads * m), np.float32) / d**0.75 for heads in (chosen.heads, chosen.kv_heads))
    layer = apv.AttentionLayer(
        W_Q, W_K, heads=chosen.heads, kv_heads=chosen.kv_heads, mask="causal", rope=apv.RoPE(10000.0, "half")
    )
    started = time.process_time()
    apv.prune_layer(layer, X, chosen.rho, chosen.only)
    seconds = time.process_time() - started
    print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


if __name__ == "__main__":
    main()

"""``python benchmarks/real_size.py``: what loss and gradient at real size take, beside what the estimate says.

X lies in a file and is mapped; F(1) is not kept, so that no n x n array exists. The peak is that of everything
allocated from the moment the objective is made (tracemalloc, which NumPy's arrays are counted by), beyond inputs.
"""

import argparse
import json
import os
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402

import attnprune_verify as apv  # noqa: E402

CASES: dict[str, dict[str, int]] = {
    "(2048, 2048)": {"n": 2048, "d": 2048},
    "(4096, 512)": {"n": 4096, "d": 512},
    "the paper's layer": {"n": 2048, "d": 2048, "k": 8, "heads": 32, "kv_heads": 8, "m": 64},
}


def measured(sizes: dict[str, int], folder: Path) -> dict[str, Any]:
    """One loss and one gradient, causal, float64."""
    rng = np.random.default_rng(0)
    n, d, k = sizes["n"], sizes["d"], sizes.get("k", 1)
    path = folder / "X.npy"
    on_disk = np.lib.format.open_memmap(path, "w+", np.float64, (k, n, d))
    for sample in on_disk:
        sample[...] = rng.standard_normal((n, d))
    del on_disk
    X = np.load(path, mmap_mode="r")
    is_layer = "heads" in sizes
    widths = [sizes["heads"] * sizes["m"], sizes["kv_heads"] * sizes["m"]] if is_layer else [d]
    weights = [rng.standard_normal((d, width)) / (d**0.5 if is_layer else d) for width in widths]
    masks = [rng.uniform(0.1, 0.9, weight.shape) for weight in weights]
    tracemalloc.start()
    before, clock = tracemalloc.get_traced_memory()[0], time.process_time()
    if is_layer:
        rope = apv.RoPE(500000.0)
        counts = {"heads": sizes["heads"], "kv_heads": sizes["kv_heads"]}
        layer = apv.AttentionLayer(*weights, **counts, rope=rope, mask="causal")
        objective = apv.Objective(layer, X, lam=0.01, keep_dense=False)
    else:
        objective = apv.Objective(X, weights[0], 0.01, "causal", keep_dense=False)
    value, gradients = objective.loss_and_gradient(*masks)
    seconds = time.process_time() - clock
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert np.isfinite(value) and all(np.isfinite(one).all() for one in (gradients if is_layer else [gradients]))
    estimate = apv.estimate_memory("objective", **sizes, keep_dense=False)
    square = k * sizes.get("heads", 1) * n * n * 8
    return {"peak": peak, "estimate": estimate, "attention": square, "tokens": X.nbytes, "seconds": seconds}


def main() -> None:
    """Print a table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="Write the numbers to this file, as JSON.")
    parser.add_argument("--case", action="append", choices=list(CASES), help="Only this one; may be repeated.")
    options = parser.parse_args()
    rows = {}
    print(f"{'MiB':<20}{'X':>8}{'F(1) alone':>12}{'peak':>8}{'estimate':>10}{'CPU s':>8}")
    for name in options.case or CASES:
        with tempfile.TemporaryDirectory() as folder:
            row = rows[name] = measured(CASES[name], Path(folder))
        shown = [round(row[key] / 2**20) for key in ("tokens", "attention", "peak", "estimate")]
        print(f"{name:<20}{shown[0]:>8}{shown[1]:>12}{shown[2]:>8}{shown[3]:>10}{row['seconds']:>8.1f}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(rows, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()

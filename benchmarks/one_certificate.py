"""Print what one certificate costs on a large head: n = d = 2048, m = 64, rotary, causal.

    python benchmarks/one_certificate.py [--n 2048] [--d 2048] [--m 64] [--steps 20]

Seconds of processor time of one core: of the dense attention, which any number of certificates share; of one gradient,
one sort and all rounding paid, which make a certificate; and of the steps that looked for a good point before.
"""

import argparse
import time

import numpy as np

import attnprune_verify as apv
from attnprune_verify.algorithms.gap.problem import posed
from attnprune_verify.algorithms.gap.relaxation import relaxed
from attnprune_verify.algorithms.gap.rounding import floor_with_rounding


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, size in (("n", 2048), ("d", 2048), ("m", 64), ("steps", 20)):
        parser.add_argument(f"--{name}", type=int, default=size)
    options = parser.parse_args()
    n, d, m = options.n, options.d, options.m
    rng = np.random.default_rng(0)
    weights = (2 * rng.normal(size=(d, m)) / np.sqrt(d) for _ in range(2))
    layer = apv.AttentionLayer(*weights, rope=apv.RoPE(), mask="causal")
    X = rng.normal(size=(n, d))
    start = time.process_time()
    function = posed(layer, X, None, "Q").divergence()
    dense = time.process_time()
    ones = d * m - int(0.95 * d * m)
    at = relaxed(function, ones, options.steps).at
    found = time.process_time()
    bound = floor_with_rounding(function, at, ones)
    done = time.process_time()
    print(f"n = {n}, d = {d}, m = {m}: dense attention {dense - start:.2f} s, one certificate {done - found:.2f} s")
    print(f"no mask with {ones} ones has a divergence below {bound:.3g}; {options.steps} steps {found - dense:.1f} s")


if __name__ == "__main__":
    main()

"""Processor time and peak of memory of `attention_interval`: the forward pass, both passes, a query of decoding.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.interval_costs

Of n = l = 1,024 and m = 128, one head, and of one query on 4,096 keys. Times are the least and the most of three calls,
memory is the most that Python allocates during a fourth (an array of n x l in float64 has 8 MiB).
"""

import time
import tracemalloc

import numpy as np

import attnprune_verify as apv
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS

WIDTH, RESULTS = 128, {False: ("o", "lse"), True: ("o", "lse", "dq", "dk", "dv")}
ASKED = (("forward", 1024, 1024, False), ("both passes", 1024, 1024, True), ("one query", 1, 4096, False))


def asked(dtype: str, n: int, length: int, backward: bool) -> str:
    """Return a row's seconds and memory."""
    rng, exact = np.random.default_rng(0), PRECISIONS[dtype].exact
    q, k, v, do = (exact(rng.standard_normal((1, 1, rows, WIDTH))) for rows in (n, length, length, n))

    def call() -> None:
        found = apv.attention_interval(q, k, v, do if backward else None, dtype=dtype)
        for name in RESULTS[backward]:
            _ = getattr(found, name).highest

    times = []
    for _ in range(3):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return f"{min(times):.2f} to {max(times):.2f} | {peak:.0f}"


def main() -> None:
    """Print the table."""
    print("| dtype | pass | seconds | peak in MiB |\n|---|---|---|---|")
    for dtype in ("float32", "bfloat16", "float64"):
        for name, *problem in ASKED:
            print(f"| {dtype} | {name} | {asked(dtype, *problem)} |", flush=True)


if __name__ == "__main__":
    main()

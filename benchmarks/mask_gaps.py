"""Print the table of docs/certified_gaps.md: per head of the small Llama the bound, the best mask found and others.

    python benchmarks/mask_gaps.py [--n 128] [--heads 4] [--ratio 0.5 --ratio 0.7]

Seconds are of one core's processor time for bound and search together.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from attnprune_verify.check import instance_of_model
from attnprune_verify.report.plots.gaps import gap_rows

MODEL = Path(__file__).resolve().parents[1] / "tests" / "data" / "small_llama"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--ratio", type=float, action="append")
    options = parser.parse_args()
    print("| layer, head | rho | no mask below | best found | ratio | score of Wanda | largest | random | seconds |")
    print("|---|---|---|---|---|---|---|---|---|")
    for layer in range(4):
        given = instance_of_model(MODEL, layer, MODEL / "texts" / "calibration.txt", options.n)
        X = np.asarray(given.X, dtype=np.float64)
        for head in range(min(options.heads, given.layer.heads)):
            for rho in options.ratio or (0.5, 0.7):
                start = time.process_time()
                (row,) = gap_rows(given.layer, X, on=("Q", head), ratios=(rho,))
                seconds = time.process_time() - start
                best, *others = row.divergences.values()
                shown = " | ".join(f"{value:.3g}" for value in others)
                print(
                    f"| {layer}, {head} | {rho:g} | {row.bound:.3g} | {best:.3g} | {best / row.bound:.2f} | {shown} |"
                    f" {seconds:.1f} |"
                )


if __name__ == "__main__":
    main()

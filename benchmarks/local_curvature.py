"""Print what the two largest weights of a row, instead of the largest, do to bounds of curvature and to steps.

    python benchmarks/local_curvature.py [--n 128]

||J|| <= s1 (1 - s1 + s2) in place of min(1/2, s1), on the rows of the small Llama's heads at M = 1 and with W_Q times
0.7. Shown are the mean of both bounds of ||J|| beside ||J|| itself; by how much the row constant b^2 + b max_j (c_j -
<c, s>)_+, capped at C_+, falls in the mean and in the worst row, which decides a constant for all rows; and in how many
rows it is below C_+, before and after.
"""

import argparse
from pathlib import Path

import numpy as np

import attnprune_verify as apv
from attnprune_verify.check import instance_of_model
from attnprune_verify.theory.formulas import sharp
from attnprune_verify.theory.numbers.arithmetic import FLOAT

MODEL = Path(__file__).resolve().parents[1] / "tests" / "data" / "small_llama"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", type=int, default=128)
    options = parser.parse_args()
    most = float(sharp.C_plus(arithmetic=FLOAT))
    print("| layer | W_Q times | J | largest | two largest | constant, mean | worst row | rows below C_+ |")
    print("|---|---|---|---|---|---|---|---|")
    for layer in range(4):
        given = instance_of_model(MODEL, layer, MODEL / "texts" / "calibration.txt", options.n)
        X, before = np.asarray(given.X, dtype=np.float64), given.layer
        dense = apv.layer_attention(before, X).reshape(-1, options.n)
        for factor in (1.0, 0.7):
            F = apv.layer_attention(before.with_weights(factor * before.W_Q, before.W_K), X).reshape(dense.shape)
            rows = np.arange(len(F)) % options.n > 0  # the first token of a causal text has no choice
            s, c = F[rows], (F - dense)[rows]
            norms = [np.linalg.eigvalsh(np.diag(row) - np.outer(row, row))[-1] for row in s]
            ordered = np.sort(s, axis=1)
            old, new = np.minimum(0.5, ordered[:, -1]), ordered[:, -1] * (1 - ordered[:, -1] + ordered[:, -2])
            reach = (np.where(s > 0, c, -np.inf).max(axis=1) - (c * s).sum(axis=1)).clip(min=0)
            constants = [np.minimum(most, b**2 + b * reach) for b in (old, new)]
            mean, worst = (f"{f(constants[0]):.4f} to {f(constants[1]):.4f}" for f in (np.mean, np.max))
            below = " to ".join(str(int((one < most).sum())) for one in constants)
            means = " | ".join(f"{np.mean(bound):.3f}" for bound in (norms, old, new))
            print(f"| {layer} | {factor:g} | {means} | {mean} | {worst} | {below} of {len(s)} |")


if __name__ == "__main__":
    main()

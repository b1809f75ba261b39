"""Print the table of docs/certified_gaps.md on kept weights: output-obs against the best weights on its support.

    python benchmarks/refits.py [--n 128] [--heads 1] [--method output-obs] [--ratio 0.5 --ratio 0.7]

A head of the small Llama is pruned by a method; then W_Q is refitted with the pruned keys as given, or W_K with the
pruned queries. "Held out" is the divergence on as many tokens of another text, of the method and of the refit.
"""

import argparse
from pathlib import Path

import numpy as np

import attnprune_verify as apv
from attnprune_verify.algorithms.gap.problem import posed_refit
from attnprune_verify.check import instance_of_model

MODEL = Path(__file__).resolve().parents[1] / "tests" / "data" / "small_llama"


def tokens(layer: int, text: str, n: int) -> apv.LayerInstance:
    """The layer with its inputs on a text."""
    return instance_of_model(MODEL, layer, MODEL / "texts" / f"{text}.txt", n)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--heads", type=int, default=1)
    parser.add_argument("--method", default="output-obs")
    parser.add_argument("--ratio", type=float, action="append")
    options = parser.parse_args()
    print("| layer, map, head | rho | method | best on its support | bound | ratio | held out: method | refit |")
    print("|---|---|---|---|---|---|---|---|")
    for layer in range(4):
        given, other = (tokens(layer, text, options.n) for text in ("calibration", "held_out"))
        X, held_out = (np.asarray(one.X, dtype=np.float64) for one in (given, other))
        for rho in options.ratio or (0.5, 0.7):
            pruned = apv.prune_layer(given.layer, X, rho, options.method).layer
            weights = pruned.W_Q, pruned.W_K
            for side, heads in (("Q", given.layer.heads), ("K", given.layer.kv_heads)):
                for head in range(min(options.heads, heads)):
                    found = apv.certified_refit(given.layer, X, weights=weights, on=(side, head))
                    elsewhere = posed_refit(given.layer, held_out, weights, (side, head))
                    function = elsewhere.divergence()
                    numbers = (found.kl, found.best_kl, found.bound)
                    shown = " | ".join(f"{number:.3g}" for number in numbers)
                    after = " | ".join(f"{function.value(W):.3g}" for W in (elsewhere.moved, found.weight))
                    print(f"| {layer}, {side}, {head} | {rho:g} | {shown} | {found.ratio:.2f} | {after} |", flush=True)


if __name__ == "__main__":
    main()

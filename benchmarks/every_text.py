"""Print the table of docs/certified_gaps.md on bounds for every text, on the small Llama.

    python benchmarks/every_text.py [--n 128] [--heads 2]

W_Q of one head is pruned by |w| times its input's norm, or W_Q and W_K are rounded. Beside the bound of the move of a
logit and of KL stand the largest move and the largest KL of a row on the calibration text.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import attnprune_verify as apv
from attnprune_verify.algorithms.gap.exchange import rounded
from attnprune_verify.check import instance_of_model
from attnprune_verify.model.maps import Heads
from attnprune_verify.pretrained.load import load_pretrained

MODEL = Path(__file__).resolve().parents[1] / "tests" / "data" / "small_llama"


def bfloat16(weight: Any) -> Any:
    """Rounded to eight bits of significand, to nearest."""
    fraction, exponent = np.frexp(weight)
    return np.ldexp(np.round(fraction * 256) / 256, exponent)


def eight_bits(weight: Any) -> Any:
    """Rounded to 255 equal steps between -max and max of a column."""
    step = np.abs(weight).max(axis=0) / 127
    return np.round(weight / step) * step


def changes(layer: apv.AttentionLayer, X: Any) -> list[tuple[str, apv.AttentionLayer]]:
    """The name of what is done, and the layer after it."""
    norms = np.linalg.norm(X, axis=0)[:, None]
    found = []
    for rho in (0.01, 0.05, 0.1, 0.2, 0.5):
        mask = rounded(np.abs(layer.W_Q) * norms, layer.W_Q.size - int(rho * layer.W_Q.size))
        found.append((f"rho = {rho:g}", layer.with_weights(mask * layer.W_Q, layer.W_K)))
    found.append(("8 bits a column", layer.with_weights(eight_bits(layer.W_Q), eight_bits(layer.W_K))))
    found.append(("bfloat16", layer.with_weights(bfloat16(layer.W_Q), bfloat16(layer.W_K))))
    return found


def on_text(layer: apv.AttentionLayer, changed: apv.AttentionLayer, X: Any) -> tuple[float, float]:
    """The largest move of a logit, and the largest KL of a row."""
    sides = [Heads(one, X).sides([one.W_Q, one.W_K]) for one in (layer, changed)]
    dense, after = (queries @ keys.swapaxes(1, 2) for queries, keys in sides)
    f, F = apv.layer_attention(layer, X), apv.layer_attention(changed, X)
    with np.errstate(divide="ignore", invalid="ignore"):
        rows = np.where(f > 0, f * np.log(f / F), 0.0).sum(axis=2)
    return float(np.abs(after - dense)[:, np.tri(len(X), dtype=bool)].max()), float(rows.max())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--heads", type=int, default=1)
    options = parser.parse_args()
    model = load_pretrained(MODEL)
    print("| layer, head | change | logit, every text | on the text | KL of a row, every text | on the text |")
    print("|---|---|---|---|---|---|")
    for index in range(model.depth):
        given = instance_of_model(MODEL, index, MODEL / "texts" / "calibration.txt", options.n)
        gamma = np.asarray(model.block(index).norms[0].weight, dtype=np.float64)
        X, m = np.asarray(given.X, dtype=np.float64), given.layer.m
        for head in range(options.heads):
            key = head // given.layer.group
            alone = apv.AttentionLayer(
                np.float64(given.layer.W_Q[:, head * m : head * m + m]),
                np.float64(given.layer.W_K[:, key * m : key * m + m]),
                scale=given.layer.scale,
                rope=given.layer.rope,
                mask="causal",
            )
            for name, changed in changes(alone, X):
                found = apv.bound_for_every_text(alone, changed, gamma, options.n)
                logit, kl = on_text(alone, changed, X)
                print(
                    f"| {index}, {head} | {name} | {found.logit[0]:.2g} | {logit:.2g} | {found.kl[0]:.2g} | {kl:.2g} |"
                )


if __name__ == "__main__":
    main()

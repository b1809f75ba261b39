"""The theorem's quantities on a real model: beta, delta, min|W|, mu, xi and T by layer, head and length.

The paper reports beta ~ 0.034 and delta ~ 0.0025 (Section 6.2). Everything is evaluated for the fused weight of each
head, W = scale W_Q W_K^T (with RoPE the one at offset 0: there is no other single one), the attention as the model
computes it, and lam as in Section 6.2.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.documents import draw_sequences, read_documents
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.validate import Array
from attnprune_verify.model.fusion import fused_weight
from attnprune_verify.model.maps import Heads
from attnprune_verify.model.softmax import score_block
from attnprune_verify.pretrained import load_pretrained
from attnprune_verify.theory.formulas import paper, sharp
from attnprune_verify.theory.numbers.balls import log10
from attnprune_verify.values import as_count

LAM = 0.05  # chosen: near the 0.04 of Section 6.1
_QUANTITIES = ("mu", "mu_corrected", "half_xi", "L", "T")


@dataclass(frozen=True)
class RealAssumptions:
    """One row per layer, head, length and sequence; log10 of numbers that over- or underflow."""

    model: str
    k: int
    rows: list[dict[str, Any]]

    def table(self) -> list[dict[str, Any]]:
        """Medians per layer and length, with the extremes of delta and the most favourable xi and T."""
        cells = []
        for layer, n in dict.fromkeys((row["layer"], row["n"]) for row in self.rows):
            rows = [row for row in self.rows if (row["layer"], row["n"]) == (layer, n)]
            column = {name: np.array([row[name] for row in rows]) for name in rows[0]}
            medians = (
                "beta",
                "norm_X",
                "min_W",
                "max_W",
                "row_max",
                "log10_delta",
                *(f"log10_{q}" for q in _QUANTITIES),
            )
            cells.append(
                {
                    "layer": layer,
                    "n": n,
                    **{name: float(np.median(column[name])) for name in medians},
                    "log10_delta_least": float(column["log10_delta"].min()),
                    "log10_delta_most": float(column["log10_delta"].max()),
                    "log10_half_xi_least": float(column["log10_half_xi"].min()),
                    "log10_T_least": float(column["log10_T"].min()),
                    "trivial_bound": 1 / n,
                    "vacuous": bool((column["log10_half_xi"] >= -np.log10(n)).all()),
                }
            )
        return cells


def measure_assumptions(
    model: str,
    texts: tuple[str, ...] = (),
    ns: tuple[int, ...] = (64, 128),
    k: int = 8,
    seed: int = 0,
) -> RealAssumptions:
    """Measure what the theorem assumes (beta, delta, min |W|) and promises (mu, xi, T) on every head of every layer.

    Parameters
    ----------
    model : str
        Path of the model's folder.
    texts : tuple of str
        Paths of documents; empty for the shipped ones.
    ns : tuple of int
        Lengths of the sequences.
    k : int
        Number of sequences of each length.
    seed : int
        Seed of the draw of sequences.

    Raises
    ------
    InvalidInstance
        If the model or a text cannot be used.

    Examples
    --------
    With a folder in Hugging Face layout, ``measure_assumptions("models/small").rows``. A missing folder is refused:

    >>> measure_assumptions("no-such-folder")
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a model must be a folder; got 'no-such-folder'
    """
    as_count("k", k, least=1)
    if not ns:
        raise InvalidInstance("n must not be empty")
    network = load_pretrained(model)
    documents = read_documents(texts, "calibration")
    drawn = [  # all lengths, before anything is computed
        network.checked_ids(
            draw_sequences(documents, network.tokenizer, k, as_count("n", n, least=2), np.random.default_rng([seed, n]))
        )
        for n in ns
    ]
    rows = []
    for ids in drawn:
        for index, X in enumerate(network.attention_inputs(ids)):
            rows += _layer_rows(index, network.layers[index], X)
    return RealAssumptions(Path(model).name, k, rows)


def _layer_rows(index: int, layer: AttentionLayer, X: Array) -> list[dict[str, Any]]:
    k, n, d = X.shape
    lowest, highest = _extremes(layer, X)
    weights = [fused_weight(layer, head) for head in range(layer.heads)]
    masked = layer.mask is not None
    rows = []
    for sample, tokens in enumerate(X):
        norm_X = float(np.linalg.norm(tokens))
        beta = 0.0 if n > d else max(float(np.linalg.eigvalsh(tokens @ tokens.T)[0]), 0.0)
        for head, W in enumerate(weights):
            min_W, max_W = float(np.abs(W).min()), float(np.abs(W).max())
            log_delta = float(lowest[sample, head])
            delta = 0.0 if masked else 10.0**log_delta
            found = {"beta": beta, "norm_X": norm_X, "min_W": min_W, "max_W": max_W}
            found |= {"row_max": float(highest[sample, head]), "log10_delta": log_delta}
            place = {"layer": index, "head": head, "n": n, "sequence": sample}
            rows.append(place | found | _constants(n, d, min_W, max_W, norm_X, float(np.linalg.norm(W)), beta, delta))
    return rows


def _constants(
    n: int, d: int, min_W: float, max_W: float, norm_X: float, norm_W: float, beta: float, delta: float
) -> dict[str, float]:
    """log10 of mu (printed, and as the lemmas give it), xi/2 (theorem's scale), L, T for eps = 0.02/n, eta = 1/L."""
    mu = paper.mu(min_W, beta, delta)
    L = paper.lipschitz(n, d, max(1.0, norm_X, norm_W), LAM)
    values = {
        "mu": mu,
        "mu_corrected": sharp.mu(min_W, beta, delta),
        "half_xi": paper.xi_theorem(n, d, max_W, norm_X, LAM, mu) / 2,
        "L": L,
        "T": paper.iterations(LAM / 2 * d * d, 1 / L, mu, 0.02 / n, n),
    }
    return {f"log10_{name}": -np.inf if value == 0 else log10(value) for name, value in values.items()}


def _extremes(layer: AttentionLayer, X: Array) -> tuple[Array, Array]:
    """log10 of the smallest allowed attention weight and the mean of the rows' largest; (k, heads) each."""
    maps = Heads(layer, X)
    queries, keys = maps.queries(layer.W_Q), maps.keys(layer.W_K)
    lowest = np.zeros(len(queries))
    largest = np.zeros(len(queries))
    for block in maps.blocks():
        logits, _ = score_block(queries, keys, block, shift=True, modifiers=layer.modifiers)
        block.fill_forbidden(logits, -np.inf)
        logits -= logits.max(axis=2, keepdims=True)
        logits -= np.log(np.exp(logits).sum(axis=2, keepdims=True))
        largest += np.exp(logits.max(axis=2)).sum(axis=1)
        lowest = np.minimum(lowest, np.where(np.isinf(logits), 0.0, logits).min(axis=(1, 2)))
    shape = (maps.k, layer.heads)
    return (lowest / np.log(10)).reshape(shape), (largest / maps.n).reshape(shape)

"""Time, memory and objective of pruning one map at the sizes of Llama-3.2-1B: the solver, the former one, SparseGPT.

Run ``python benchmarks/paper_layer.py``: W_Q (2048 inputs, 32 heads of 64) and the gate (2048 to 8192), half of the
weights pruned, from the moments of 8 sequences of 512 tokens; each solver in a process of its own with one thread. The
objective is tr(D^T H D G) / 2 in float64, SparseGPT's too. Weights, tokens and gradients are drawn; the spectrum of
tokens and gradients falls like 1/i^DECAY (``--decay 0``: flat), with a mean that tokens share and features of unlike
size.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402  # after the thread counts
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from attnprune_verify.algorithms.matrix.budget import Share  # noqa: E402
from attnprune_verify.algorithms.matrix.damping import Moments, MomentSum  # noqa: E402
from attnprune_verify.algorithms.matrix.exchange import two_sided_objective  # noqa: E402
from attnprune_verify.algorithms.matrix.output_obs import OutputOBS, in_blocks, used_metrics  # noqa: E402
from attnprune_verify.algorithms.matrix.prune import prune_matrix  # noqa: E402

SHAPES = {"Q": (2048, 32), "gate": (8192, 16)}
"""Outputs, and the blocks of them that the metric keeps apart; the inputs are 2048."""


def main() -> None:
    """Prune every map by every solver, each in a process of its own, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("d", 2048), ("n", 512), ("k", 8), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rho", type=float, default=0.5)
    parser.add_argument("--decay", type=float, default=0.6)
    parser.add_argument("--maps", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--solvers", nargs="+", choices=SOLVERS, default=list(SOLVERS))
    parser.add_argument("--here", action="store_true", help="the first map by the first solver, in this process")
    chosen = parser.parse_args()
    if chosen.here:
        print(*prune(chosen, chosen.maps[0], chosen.solvers[0]))
        return
    print(f"{'map':6}{'solver':14}{'CPU s':>8}{'GiB':>7}{'objective':>11}   both to the former solver's")
    for name in chosen.maps:
        base: tuple[float, float] | None = None
        for solver in chosen.solvers:
            words = [sys.executable, __file__, *sys.argv[1:], "--here", "--maps", name, "--solvers", solver]
            output = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True).stdout
            seconds, peak, objective = map(float, output.split())
            base = base or (seconds, objective)
            ratios = f"{seconds / base[0]:.3f} {objective / base[1]:.4f}"
            print(f"{name:6}{solver:14}{seconds:8.1f}{peak:7.2f}{objective:11.5g}   {ratios}", flush=True)


def prune(chosen: argparse.Namespace, name: str, solver: str) -> tuple[float, float, float]:
    """The processor time, the peak of this process's memory in GiB, and the objective."""
    outputs, blocks = SHAPES[name]
    outputs = outputs * chosen.d // 2048
    rng = np.random.default_rng(chosen.seed)
    tokens, gradients = MomentSum(chosen.d, chosen.k), MomentSum(outputs, chosen.k, blocks)
    draw, slope = _drawer(rng, chosen.d, chosen.decay), _drawer(rng, outputs, chosen.decay)
    for _ in range(chosen.k):
        tokens.add(draw(chosen.n))
        gradients.add(slope(chosen.n))
    weight = rng.standard_normal((outputs, chosen.d), np.float32) / chosen.d**0.5
    inputs, metric = tokens.finish(), gradients.finish()
    del tokens, gradients, draw, slope
    started = time.process_time()
    new = SOLVERS[solver](weight, inputs, metric, chosen.rho)
    seconds, peak = time.process_time() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    H, G = used_metrics(inputs, metric, OutputOBS())
    assert G is not None
    parts = (in_blocks(one.astype(np.float64), blocks) for one in (new, weight))
    return seconds, peak, two_sided_objective(*parts, H, G)


def _drawer(rng: np.random.Generator, size: int, decay: float) -> Any:
    """Draws of (n, size) rows with a falling spectrum in random directions, made of blocks of 512 features at most."""
    width = min(512, size)
    parts = size // width
    turns = [np.linalg.qr(rng.standard_normal((width, width)).astype(np.float32))[0] for _ in range(parts)]
    places = rng.permutation(size).reshape(parts, width)
    falls = (1.0 + np.arange(size, dtype=np.float32)) ** -decay
    units = np.exp(0.5 * rng.standard_normal(size, np.float32)) * (decay > 0) + (decay == 0)
    mean = 0.3 * rng.standard_normal(size, np.float32) * float(np.sqrt(np.mean(falls**2)))

    def draw(n: int) -> Any:
        rows = np.empty((n, size), np.float32)
        for place, turn in zip(places, turns, strict=True):
            rows[:, place] = rng.standard_normal((n, width), np.float32) * falls[place] @ turn
        return rows * units + mean

    return draw


def _former(weight: Any, inputs: Moments, metric: Moments, rho: float) -> Any:
    from former_solver import former  # beside this file

    H, G = used_metrics(inputs, metric, OutputOBS())
    assert G is not None
    new, kept = former(in_blocks(weight.astype(np.float64), len(G)), H, G, rho)
    return np.where(kept, new, 0.0).swapaxes(1, 2).reshape(weight.shape).astype(weight.dtype)


def _by(method: str) -> Any:
    return lambda weight, inputs, metric, rho: prune_matrix(method, weight, inputs, metric, Share(rho)).weight


SOLVERS = {"former": _former, "output-obs": _by("output-obs"), "sparsegpt": _by("sparsegpt")}


if __name__ == "__main__":
    main()

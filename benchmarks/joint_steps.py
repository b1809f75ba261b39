"""What steps of the joint refit are worth under a pattern: ``python benchmarks/joint_steps.py small-llama/first``.

Prunes W_Q and W_K of a model made by `train_small_llama.py` at 2:4 with 0 to 3 steps, and by SparseGPT, on three draws
of 8 calibration windows; prints the KL on held-out windows (1e-3 nats a token) and the time over SparseGPT's.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import argparse  # noqa: E402  # after the thread counts
import statistics  # noqa: E402  # after the thread counts
from pathlib import Path  # noqa: E402  # after the thread counts
from typing import Any  # noqa: E402  # after the thread counts

from attnprune_verify.algorithms.methods import matrix_options  # noqa: E402  # after the thread counts
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan, PerplexityRun  # noqa: E402  # as above
from attnprune_verify.experiments.perplexity.run import measure_run  # noqa: E402  # after the thread counts
from attnprune_verify.whole_model import blockwise  # noqa: E402  # after the thread counts

DRAWS = range(3)


def measured(plan: PerplexityPlan, method: str) -> tuple[float, float]:
    """Mean KL in 1e-3 nats, and the median of the seconds."""
    runs = [measure_run(plan, PerplexityRun("dense", method, None, "2:4", "matrix", 8, draw)) for draw in DRAWS]
    return 1e3 * statistics.mean(run["kl"] for run in runs), statistics.median(run["seconds"] for run in runs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    texts = {"calibration": (str(folder / "texts/train.txt"),), "held_out": (str(folder / "texts/test.txt"),)}
    plan = PerplexityPlan(str(folder), **texts, patterns=("2:4",), windows=32)
    measured(plan, "sparsegpt")  # the model is read, and judged dense, once
    kl, of_sparsegpt = measured(plan, "sparsegpt")
    print(f"SparseGPT: KL {kl:.1f}")
    for steps in range(4):

        def with_steps(name: str, options: dict[str, Any], steps: int = steps) -> Any:
            return matrix_options(name, {**options, "joint_steps": steps})

        blockwise.matrix_options = with_steps
        kl, seconds = measured(plan, "output-obs")
        print(f"{steps} steps: KL {kl:.1f}, {seconds / of_sparsegpt:.1f} times SparseGPT's time", flush=True)


if __name__ == "__main__":
    main()

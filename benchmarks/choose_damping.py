"""How much of the prescribed damping of the inputs' metric `output-obs` should take, by calibration text alone.

Run ``python benchmarks/choose_damping.py FOLDER [FOLDER ...]`` on models made by ``train_small_llama.py``. Windows are
drawn from the training text; the model is pruned with one half of them and judged on the other, so no text that any
result is measured on is looked at. Printed is the KL to the dense model, for every share of the damping relative to all
of it: geometric means over draws.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402  # after the thread counts
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

from attnprune_verify.algorithms.matrix import output_obs  # noqa: E402
from attnprune_verify.experiments.perplexity.judge import Judge  # noqa: E402
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.pretrained.texts import draw_windows, read_text, token_stream  # noqa: E402
from attnprune_verify.whole_model.in_memory import prune_in_memory  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402

SHARES = (1.0, 0.3, 0.1)
SETTINGS = {
    "Q, K at 0.5": Plan("output-obs", "dense", 0.5),
    "Q, K at 0.9": Plan("output-obs", "dense", 0.9),
    "Q, K at 2:4": Plan("output-obs", "dense", pattern="2:4"),
    "all at 0.5": Plan("output-obs", "output-obs", 0.5),
}


def main() -> None:
    """A table for every model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--k", type=int, default=8, help="windows to prune with, and as many to judge on")
    parser.add_argument("--letters", type=int, default=2_000_000, help="of the training text")
    chosen = parser.parse_args()
    means = []
    for folder in chosen.folders:
        table = measure(folder, chosen)
        print(f"{folder}\n{'':14}" + "".join(f"{share:8g}" for share in SHARES))
        for name, row in table.items():
            print(f"{name:14}" + "".join(f"{value:8.3f}" for value in row), flush=True)
        means += table.values()
    print(f"{'mean':14}" + "".join(f"{value:8.3f}" for value in np.exp(np.log(means).mean(axis=0))))


def measure(folder: Path, chosen: argparse.Namespace) -> dict[str, np.ndarray]:
    """For every setting the KL at each share over that at all of it."""
    model = load_pretrained(folder, dtype=np.float32)
    (text,) = (
        path for path in ((folder / "texts" / name) for name in ("train.txt", "calibration.txt")) if path.exists()
    )
    stream = token_stream([read_text(text)[: chosen.letters]], model.tokenizer)
    logs = {name: np.zeros(len(SHARES)) for name in SETTINGS}
    for draw in range(chosen.draws):
        ids = draw_windows(stream, 2 * chosen.k, model.longest, 1000 + draw)  # other draws than any result's
        judge = Judge(model, [ids[1::2]])
        for place, share in enumerate(SHARES):
            output_obs._SHARE, output_obs._FEW = share, 0
            for name, plan in SETTINGS.items():
                logs[name][place] += np.log(judge(prune_in_memory(model, ids[::2], plan))["kl"])
    return {name: np.exp((row - row[0]) / chosen.draws) for name, row in logs.items()}


if __name__ == "__main__":
    main()

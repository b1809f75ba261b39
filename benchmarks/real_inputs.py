"""Derive the stored inputs of audit/kernel/problem/real_inputs.py of the package: ``python -m benchmarks.real_inputs``.

The text is the held-out one of the small Llama; of its windows of 33 tokens the one with the fewest different tokens.
"""

from pathlib import Path

import numpy as np

import attnprune_verify as apv
from attnprune_verify.audit.kernel.problem.real_inputs import BLOCKS, STORED
from attnprune_verify.audit.kernel.problem.tensors import of_dtype, packed
from attnprune_verify.files import write_whole
from attnprune_verify.model.maps import Heads

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "small_llama"
TOKENS = 33  # a shape that other samples have, so that compiling kernels pay for no new one; one more than a tile
LOOKED_AT = 2_000  # chosen: tokens among which the window is


def window(ids):
    """The window of TOKENS with the fewest different tokens, the first of those."""
    starts = range(min(len(ids), LOOKED_AT) - TOKENS)
    start = min(starts, key=lambda one: len(set(ids[one : one + TOKENS])))
    return np.array(ids[start : start + TOKENS])


def derived():
    """q (heads, n, m), k and v (kv_heads, n, m) of the blocks, by the names under which they are stored."""
    model = apv.load_pretrained(FOLDER)
    text = (FOLDER / "texts" / "held_out.txt").read_text(encoding="utf-8")
    hidden = model.family.embed(window(model.tokenizer.encode(text).ids)[None])
    found = {}
    for index in range(max(BLOCKS) + 1):
        block = model.block(index)
        x = block.norms[0](hidden)
        maps = Heads(block.layer, x)
        values = block.maps["V"](x)[0].reshape(TOKENS, block.layer.kv_heads, -1).swapaxes(0, 1)
        keys = maps.keys(block.layer.W_K)
        arrays = maps.queries(block.layer.W_Q), keys[:: block.layer.group], values
        found |= {f"{index}.{name}": array for name, array in zip("qkv", arrays, strict=True) if index in BLOCKS}
        hidden = block(hidden).output
    return found


if __name__ == "__main__":
    write_whole(STORED, packed({name: of_dtype(array, "float16") for name, array in derived().items()}))
    print(STORED, STORED.stat().st_size, "bytes")

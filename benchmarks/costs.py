"""Operations of pruning models of several sizes by output-obs: solvers, passes, budgets, reconstruction.

Run ``python benchmarks/costs.py [--k 128] [--n 2048] [--steps 50]``: nothing is pruned, operations are counted from the
shapes as `prune-model` does for its estimate (`attnprune_verify/whole_model/estimate.py`).
"""

import argparse
from typing import NamedTuple

from attnprune_verify.whole_model.estimate import ModelSizes, Size, run_operations, solver_operations

VOCABULARY, LARGEST_BLOCK, BACK_AND_FORTH = 128256, 512, 8
"""Of Llama 3; outputs between which the metric keeps products; operations a weight and token of a pass forward (2) and
of one with gradients of inputs and weights (6)."""


class Shape(NamedTuple):
    """A Llama: blocks, features, features inside, heads, key heads, features of a head."""

    blocks: int
    d: int
    inner: int
    heads: int
    kv_heads: int
    m: int

    def sizes(self) -> ModelSizes:
        """Every map of every block, each judged by itself."""
        d, kv = self.d, self.kv_heads * self.m
        of_block = [Size(self.heads * self.m, d, self.heads), Size(kv, d, self.kv_heads), Size(kv, d, self.kv_heads)]
        others = ((d, self.heads * self.m), (self.inner, d), (self.inner, d), (d, self.inner))
        of_block += [Size(out, into, -(-out // LARGEST_BLOCK)) for out, into in others]
        maps = of_block * self.blocks
        return ModelSizes(maps, len(maps), VOCABULARY * self.d, passed=0)


SHAPES = {
    "1B": Shape(16, 2048, 8192, 32, 8, 64),
    "3B": Shape(28, 3072, 8192, 24, 8, 128),
    "8B": Shape(32, 4096, 14336, 32, 8, 128),
    "70B": Shape(80, 8192, 28672, 64, 8, 128),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("k", 128), ("n", 2048), ("steps", 50)):
        parser.add_argument(f"--{name}", type=int, default=default)
    chosen = parser.parse_args()
    tokens = chosen.k * chosen.n
    print("| shape | weights | solvers | passes | budgets | reconstruction | loss of all windows |")
    print("|---|---|---|---|---|---|---|")
    for name, shape in SHAPES.items():
        sizes = shape.sizes()
        solvers = solver_operations(sizes.maps)
        pruned = run_operations(sizes, chosen.k, tokens, 0, 0, budgets=False)
        budgets = run_operations(sizes, chosen.k, tokens, 0, 0, budgets=True) - pruned
        steps = run_operations(sizes, chosen.k, tokens, chosen.steps, 0, budgets=False) - pruned
        counts = (solvers, pruned - solvers, budgets, steps, float(BACK_AND_FORTH) * tokens * sizes.weights)
        print(f"| {name} | {sizes.weights:.2g} | {' | '.join(f'{count:.1e}' for count in counts)} |")


if __name__ == "__main__":
    main()

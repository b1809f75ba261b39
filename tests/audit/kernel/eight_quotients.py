"""Quotients of the errors that honest kernels of eight bits make and what the worst case allows.

``python -m tests.audit.kernel.eight_quotients 20`` prints the largest of each recipe, of so many seeds.
"""

import sys

import numpy as np

from attnprune_verify.audit.kernel.eight.problems import LENGTHS, ProblemMaker
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.recipe import STORED, Recipe
from attnprune_verify.audit.kernel.problem.scope import ANYTHING
from attnprune_verify.audit.kernel.process.frameworks import framework_named
from attnprune_verify.audit.kernel.truth.bounds import worst_errors
from attnprune_verify.audit.kernel.truth.truth import truth
from tests.audit.kernel import eights


def problems(dtype, recipe, seed):
    """Random and adversarial problems of a recipe."""
    read = Recipe.declared(recipe)
    taken = () if read.encodes else tuple(name for name in STORED if read.format_of(name) in EIGHT_BITS)
    maker = ProblemMaker(dtype, read, taken, ANYTHING, Conventions(), seed)
    yield from (maker.plain(f"length {length}", n, length) for n, length in LENGTHS[:3])
    yield from (maker.plain("causal", 40, 40, causal=True), maker.plain("grouped", 9, 30, 4, 2))
    yield from (maker.far_levels("far", summed) for summed in (False, True))
    yield from (maker.equal_rows("equal", summed) for summed in (False, True))
    yield maker.same_way("one way")
    yield from (maker.ones("ones", 8, 300), maker.extremes("extremes"), maker.one_key("one key"))
    yield from maker.future("future")[:2]
    if read.by_twos:
        yield maker.exact_weights("exact")
    if read.encodes:
        yield from (maker.rounded(f"rounded {length}", n, length) for n, length in LENGTHS[:3])


def answer(kernel, problem):
    """What a kernel returns for a problem, called without the audit's process."""
    sample, recipe = problem.sample, problem.recipe
    kinds = [framework_named("numpy", recipe.given_as(name)) for name in STORED]
    arrays = [kind.made(bits, "plain") for kind, bits in zip(kinds, problem.laid_down(), strict=True)]
    scales = {f"{name}_scale": scale.astype(np.float32) for name, scale in problem.scales.items()}
    return kernel(*arrays, **scales, **({"causal": True} if sample.causal else {})).astype(float)


def quotient(kernel, problem, precision=None):
    """The largest error over what the worst case allows."""
    sample = problem.sample
    true = truth(sample)["o"]
    off = np.maximum(np.abs(answer(kernel, problem) - true.value) - true.radius, 0.0)
    bound = worst_errors(sample, precision or sample.precision)["o"]
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.where(off > 0, off / bound, 0.0).max())


if __name__ == "__main__":
    for name, (dtype, recipe, how) in eights.RECIPES.items():
        kernel = eights.kernel(recipe, **{**how, "plain": False})
        found = {}
        for seed in range(int(sys.argv[1])):
            for one in problems(dtype, recipe, seed):
                found[one.sample.name] = max(quotient(kernel, one), found.get(one.sample.name, 0))
        print(f"{name:40} {max(found.values()):.3f}  {max(found, key=found.get)}")

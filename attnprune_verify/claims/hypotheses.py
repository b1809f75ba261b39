"""The conditions statements place on a case, each as a predicate and as a generator of cases that satisfy it."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case, from_instance
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.core import Hypothesis, Reading
from attnprune_verify.instance.families import benign, block_mask, orthonormal_constant
from attnprune_verify.theory.formulas import conditions
from attnprune_verify.theory.formulas.formula import FORMULAS

FULL = Reading("full", "no attention mask: every position is allowed", "full")
CAUSAL = Reading("causal", "the causal attention mask of def:mask, two tokens or more", "causal")
ANY_MASK = Reading("any", "any attention mask without an empty row", "any")
LITERAL = Reading("literal", "as printed")


def _some(rng: Generator, **changes: Any) -> Iterator[Case]:
    """Orthonormal tokens with weights of constant size (where bounds are tight), and benign instances."""
    for size, (n, d) in ((0.1, (2, 2)), (1.0, (3, 3)), (0.01, (2, 3)), (0.5, (3, 4))):
        seed = int(rng.integers(2**31))
        instance = orthonormal_constant(np.random.default_rng(seed), n=n, d=d, size=size)
        yield from_instance(instance, f"family orthonormal_constant, seed {seed}").but(**changes)
    for n, d, scale in ((3, 4, 1.0), (2, 2, 0.1), (4, 4, 3.0)):
        seed = int(rng.integers(2**31))
        instance = benign(np.random.default_rng(seed), n=n, d=d, scale=scale)
        yield from_instance(instance, f"family benign, seed {seed}").but(**changes)


def _masked(rng: Generator) -> Iterator[Case]:
    for case in _some(rng):
        yield case.but(mask="causal", origin=case.origin + "; causal")
    for _ in range(2):
        seed = int(rng.integers(2**31))
        yield from_instance(block_mask(np.random.default_rng(seed)), f"family block_mask, seed {seed}")


def _causal(rng: Generator) -> Iterator[Case]:
    return (case.but(mask="causal", origin=case.origin + "; causal") for case in _some(rng))


def beta_positive(mask: str = "full") -> Hypothesis:
    """X X^T - beta I is positive semidefinite for some beta > 0."""
    return _on(conditions.beta_positive, "beta > 0", lambda q: (q.beta,), _generator(mask))


def delta_positive(mask: str = "full") -> Hypothesis:
    """min over all i, j of F(M)_ij is at least some delta > 0."""
    return _on(conditions.delta_positive, "delta > 0 over all positions", lambda q: (q.delta,), _generator(mask))


def delta_allowed_positive() -> Hypothesis:
    """min of F(M)_ij over allowed positions is at least some delta > 0."""
    name = "delta > 0 over allowed positions"
    return _on(conditions.delta_positive, name, lambda q: (q.delta_allowed,), _masked)


def weights_nonzero(mask: str = "full") -> Hypothesis:
    """min |W_ij| > 0, without which mu = 0 and xi divides by it."""
    return _on(conditions.weights_nonzero, "min |W| > 0", lambda q: (q.w_min,), _generator(mask))


def mask_in_box(mask: str = "full") -> Hypothesis:
    """M lies in [0, 1]^{d x d}."""
    return Hypothesis(
        "M in [0,1]^{dxd}",
        lambda q: all(q.of(conditions.in_box, entry) for entry in q.M.ravel()),
        _generator(mask),
        "conditions.in_box",
    )


def mask_norm() -> Hypothesis:
    """||M||_F <= d."""
    # room for the rounding of a norm that is exactly d, as at M = 1
    return _on(conditions.in_ball, "||M||_F <= d", lambda q: (q.norm(q.M) / q.number(1 + 1e-12), q.d), _masked)


def lam_in_unit_interval(mask: str = "full") -> Hypothesis:
    """lam lies in [0, 1]."""
    return _on(conditions.lam_in_unit_interval, "lam in [0,1]", lambda q: (q.lam,), _generator(mask))


def several_tokens(mask: str = "full") -> Hypothesis:
    """n >= 2: with one token F = 1 whatever M is."""
    return Hypothesis("n >= 2", lambda q: q.n >= 2, _generator(mask))


def some_choice(cases: Callable[[Generator], Iterable[Case]] = lambda rng: ()) -> Hypothesis:
    """Some row has two allowed positions."""
    return Hypothesis("n_e >= 1", lambda q: bool(q.n_e >= 1), cases)


def lam_positive(cases: Callable[[Generator], Iterable[Case]]) -> Hypothesis:
    """The loss is regularised."""
    return Hypothesis("lam > 0", lambda q: float(q.case.get("lam", 0.0)) > 0, cases)


def moving(name: str = "||grad L(M)|| > 0") -> Hypothesis:
    """The gradient is not 0, nor is what it does to L, so that there is a step."""

    def holds(q: Quantities) -> bool:
        size = q.square(q.gradient)
        return bool(size > 0 and q.lam * size + q.square(q.PiA @ q.gradient.ravel()) > 0)

    return Hypothesis(name, holds)


def few_entries(most: int) -> Hypothesis:
    """So few entries of M that all 0/1 masks, or Hessians, can be computed."""
    return Hypothesis(f"d^2 <= {most}", lambda q: q.d**2 <= most, limit=True)


def _on(condition: Callable[..., bool], name: str, values: Callable[[Quantities], Any], cases: Any) -> Hypothesis:
    """A hypothesis that is a condition of `theory` at these quantities."""
    path = f"conditions.{condition.__name__}"
    return Hypothesis(name, lambda q: q.of(FORMULAS[path].function, *values(q)), cases, path)


def _generator(mask: str) -> Any:
    return {"full": lambda rng: _some(rng, mask=None), "causal": _causal, "any": _masked}[mask]


def never() -> Hypothesis:
    """A condition that no case meets; for tests of the verdict `vacuous`."""
    return Hypothesis("never", lambda q: False, lambda rng: ())

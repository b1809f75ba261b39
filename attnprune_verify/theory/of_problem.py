"""The theory of a problem: assumptions, constants, bounds and theorem, of a fused weight or of a layer's heads."""

from collections.abc import Callable
from typing import NamedTuple

from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.theory.assumptions import Assumption, assumptions
from attnprune_verify.theory.bounds import Bound, evaluate_bounds
from attnprune_verify.theory.constants import Constants, constants
from attnprune_verify.theory.layer_verdicts import layer_bounds, layer_theorem
from attnprune_verify.theory.layers import LayerConstants, layer_assumptions, layer_constants
from attnprune_verify.theory.theorem import TheoremVerdict, theorem


class Theory(NamedTuple):
    """Functions of an instance; all but `bounds` take `beta` and `delta`, which default to the instance's own."""

    assumptions: Callable[..., tuple[Assumption, ...]]
    constants: Callable[..., Constants | LayerConstants]
    bounds: Callable[..., tuple[Bound, ...]]
    theorem: Callable[..., TheoremVerdict]


_FUSED = Theory(assumptions, constants, evaluate_bounds, theorem)
_LAYER = Theory(layer_assumptions, layer_constants, layer_bounds, layer_theorem)


def theory_of(problem: Instance | LayerInstance) -> Theory:
    """Return the theory of a fused weight, or of a layer, judged on its worst head.

    Examples
    --------
    >>> theory_of(Instance([[1.0]], [[1.0]])).theorem is theorem
    True
    """
    return _FUSED if isinstance(problem, Instance) else _LAYER

"""Every pruning method, once: its options, what it needs, and how it prunes an attention layer and one linear map."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from importlib import import_module
from typing import Any, TypeAlias

from attnprune_verify.algorithms.arrays import AnyArray
from attnprune_verify.algorithms.baselines.table import BASELINES
from attnprune_verify.algorithms.layer import baselines as of_layers
from attnprune_verify.algorithms.layer.calibration import Calibration, LayerOutcome
from attnprune_verify.algorithms.layer.output_obs import LayerOutputOBS, prune_layer_output_obs
from attnprune_verify.algorithms.matrix import baselines as of_matrices
from attnprune_verify.algorithms.matrix.budget import Budget
from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.algorithms.matrix.output_obs import OutputOBS, PrunedMatrix, prune_output_obs, prune_output_only
from attnprune_verify.algorithms.matrix.prior import ALPS, LADMM, Surgeon, prune_alps, prune_l_admm, prune_surgeon
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice, nearest

Options: TypeAlias = Any
"""An instance of the method's dataclass."""


@dataclass(frozen=True)
class NoOptions:
    """No options."""


@dataclass(frozen=True)
class Later:
    """A function or class, whose module is imported where it is first used: no map needs the methods of layers."""

    module: str
    name: str

    def found(self) -> Any:
        """Return the function or class."""
        return getattr(import_module(self.module), self.name)

    def __call__(self, *given: Any) -> Any:
        return self.found()(*given)


@dataclass(frozen=True)
class Method:
    """A pruning method; `layer` or `matrix` is None where it does not prune that kind of subject.

    Attributes
    ----------
    layer : callable or None
        ``(calibration, rho or pattern, options)`` to a `LayerOutcome`: W_Q and W_K of an attention layer.
    matrix : callable or None
        ``(weight, inputs, outputs, budget, options)`` to a `PrunedMatrix`: one linear map, N:M patterns included.
    options : type or Later
        A dataclass.
    layer_options : type or None
        The dataclass for layers; None where it is `options`.
    patterns : bool
        It prunes layers to N:M patterns, too.
    by_head : bool
        It prunes rho of each head's block; baselines in their authors' convention choose over a layer's whole matrix.
    attention, rest : str or None
        The output metric it needs at W_Q and W_K, and at the other maps: a name in `metrics.OUTPUT_METRICS`. None
        where the inputs' moments are enough.
    """

    layer: Callable[[Calibration, Any, Options], LayerOutcome] | None = None
    matrix: Callable[[AnyArray, Moments, Moments | None, Budget, Options], PrunedMatrix] | None = None
    options: type[Options] | Later = NoOptions
    layer_options: type[Options] | None = None
    patterns: bool = False
    by_head: bool = True
    attention: str | None = None
    rest: str | None = None

    def metric(self, role: str) -> str | None:
        """The output metric that the method uses for the map of that role."""
        return self.attention if role in ("Q", "K") else self.rest


_RIVALS: Mapping[str, Mapping[str, Any]] = {
    "sparsegpt": {"matrix": of_matrices.prune_sparsegpt, "options": of_matrices.SparseGPTOptions},
    "wanda": {"matrix": of_matrices.prune_wanda},
}
"""Functions of moments of the baselines; one without an entry prunes layers only, without options."""

METHODS: Mapping[str, Method] = {
    "random": Method(of_layers.prune_random, options=of_layers.Random),
    "magnitude": Method(of_layers.prune_heads_by_magnitude, of_matrices.prune_magnitude, patterns=True),
    **{
        name: Method(partial(of_layers.own_convention, name), patterns=True, by_head=False, **_RIVALS.get(name, {}))
        for name in BASELINES
        if name != "magnitude"
    },
    "paper-gd": Method(
        Later("attnprune_verify.algorithms.layer.paper_descent", "descend_on_masks"),
        options=Later("attnprune_verify.algorithms.layer.paper_descent", "PaperDescent"),
    ),
    "fisher-diagonal": Method(
        Later("attnprune_verify.algorithms.layer.fisher_diagonal", "prune_fisher_diagonal"),
        options=Later("attnprune_verify.algorithms.layer.fisher_diagonal", "FisherDiagonal"),
    ),
    "fisher-obs": Method(
        lambda *given: Later("attnprune_verify.algorithms.layer.fisher_obs", "prune_fisher_obs")(*given).outcome(),
        options=Later("attnprune_verify.algorithms.layer.fisher_obs", "FisherOBS"),
    ),
    "fisher-obs-kl": Method(
        Later("attnprune_verify.algorithms.layer.polish", "prune_fisher_obs_kl"),
        options=Later("attnprune_verify.algorithms.layer.polish", "FisherOBSKL"),
    ),
    "ste": Method(
        Later("attnprune_verify.algorithms.layer.ste", "learn_masks"),
        options=Later("attnprune_verify.algorithms.layer.ste", "STE"),
    ),
    "output-obs": Method(
        prune_layer_output_obs, prune_output_obs, OutputOBS, LayerOutputOBS, True, attention="attention", rest="loss"
    ),
    "block-obs": Method(None, prune_output_obs, OutputOBS, attention="attention", rest="attention"),
    "identity-obs": Method(None, prune_output_obs, OutputOBS),
    "boa-obs": Method(None, prune_output_obs, OutputOBS, attention="boa"),
    "output-only-obs": Method(None, prune_output_only, OutputOBS, attention="output-only"),
    "kfac-obs": Method(None, prune_surgeon, Surgeon, attention="kfac", rest="kfac"),
    "l-admm": Method(None, prune_l_admm, LADMM),
    "alps": Method(None, prune_alps, ALPS),
    "sparsegpt-damped": Method(None, of_matrices.prune_sparsegpt, of_matrices.SparseGPTDamped),
}
LAYER_METHODS = {name: one for name, one in METHODS.items() if one.layer}
MATRIX_METHODS = {name: one for name, one in METHODS.items() if one.matrix}
PATTERN_METHODS = tuple(name for name, one in METHODS.items() if one.patterns)


def layer_options(method: str, options: Mapping[str, Any]) -> Options:
    """Return the options with which the method prunes a layer, checked.

    Raises
    ------
    InvalidInstance
        If the method or an option is unknown, or an option is out of its range.
    """
    as_choice("method", method, LAYER_METHODS)
    return _checked(method, METHODS[method].layer_options or METHODS[method].options, options)


def matrix_options(method: str, options: Mapping[str, Any]) -> Options:
    """Return the options with which the method prunes one map, checked; raises as `layer_options` does."""
    return _checked(method, METHODS[as_choice("method", method, MATRIX_METHODS)].options, options)


def _checked(method: str, options_of: type[Options] | Later, options: Mapping[str, Any]) -> Options:
    kind = options_of.found() if isinstance(options_of, Later) else options_of
    known = [one.name for one in fields(kind)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        rule = f"options of method {method!r} are {', '.join(known)}" if known else f"method {method!r} has no options"
        raise InvalidInstance(f"{rule}; got {', '.join(map(repr, unknown))}{nearest(unknown[0], known)}")
    return kind(**options)

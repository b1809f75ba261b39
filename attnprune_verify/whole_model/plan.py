"""Plans of pruning: one for folders, for models in memory and for torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from attnprune_verify.algorithms.matrix.budget import as_pattern
from attnprune_verify.algorithms.matrix.output_obs import OutputOBS
from attnprune_verify.algorithms.methods import MATRIX_METHODS, METHODS, matrix_options
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained.block import Block
from attnprune_verify.values import as_choice, as_count, as_ratio

__all__ = ["ATTENTION_METHODS", "DENSE", "LOSS_WINDOWS", "REST_METHODS", "Budgeting", "Plan"]

DENSE, DEFAULT = "dense", "output-obs"
ATTENTION_METHODS = tuple(METHODS)
REST_METHODS = tuple(MATRIX_METHODS)
LOSS_WINDOWS = 16
"""Chosen: 128 would take 2.3 times the operations of a 1B model's solvers (`python benchmarks/costs.py`), and 32 in
place of 16 leave 0.99 of the KL on the model of the tests."""
Budgeting = Literal["auto", "matrix", "measured", "owl"]


@dataclass(frozen=True)
class Plan:
    """A method and a number of zeros for every linear map of a model.

    Attributes
    ----------
    attention : method for W_Q and W_K: one of `prune_layer`'s, "dense", or "auto" for the best one known
    rest : method for the other maps: "magnitude", "wanda", "sparsegpt", "output-obs", "dense" or "auto"
    rho : pruning ratio of every matrix; None with a pattern
    pattern : "N:M", N of every M consecutive inputs are kept; overrides budgets
    budget : "matrix" (every matrix by rho), "measured" (rho in all, shares by measured damage), "owl" (rho in all,
        less in blocks with more outliers) or "auto": measured at one ratio with SparseGPT, where both methods are of
        the output-obs kind; "matrix" for prior methods, which prune every matrix by rho
    dense_inputs : whether every block is calibrated on the dense blocks before it instead of the pruned ones
    only : the blocks to prune, empty for all; rho is then their share of zeros
    hold : blocks that are pruned by rho whatever the budgets of the others
    loss_windows : calibration windows that the metrics of the loss are taken from
    reconstruct : steps of every pruned block towards the dense one's output; None: `echoes.steps_of` (for encoders
        `reconstruct.steps_for`), where both methods are of the output-obs kind
    seed : of everything random
    keep_zeros : bool
        Whether weights that are 0 before stay 0, and count among those that are pruned.

    Raises
    ------
    InvalidInstance
        If a name is unknown, not exactly one of rho and pattern is given, rho is out of range, or a method knows no
        patterns.

    Examples
    --------
    >>> Plan(rho=0.5, rest="wanda").method_of(0, "V")
    'wanda'
    """

    attention: str = "auto"
    rest: str = "auto"
    rho: float | None = None
    pattern: str | None = None
    budget: Budgeting = "matrix"
    dense_inputs: bool = False
    only: tuple[int, ...] = ()
    hold: tuple[int, ...] = ()
    seed: int = 0
    reconstruct: int | None = 0
    loss_windows: int = LOSS_WINDOWS
    keep_zeros: bool = True

    def __post_init__(self) -> None:
        for part, known in (("attention", ATTENTION_METHODS), ("rest", REST_METHODS)):
            name = as_choice(part, getattr(self, part), ("auto", DENSE, *known))
            object.__setattr__(self, part, DEFAULT if name == "auto" else name)
        for name in ("dense_inputs", "keep_zeros"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        as_choice("budget", self.budget, get_args(Budgeting))
        as_count("seed", self.seed)
        if self.reconstruct is not None:
            as_count("reconstruct", self.reconstruct)
        as_count("loss_windows", self.loss_windows, least=1)
        for name in ("only", "hold"):
            object.__setattr__(self, name, tuple(as_count("a block", index) for index in getattr(self, name)))
        if (self.rho is None) == (self.pattern is None):
            raise InvalidInstance(
                f"exactly one of rho and pattern must be given; got {self.rho!r:.60} and {self.pattern!r:.60}"
            )
        if self.pattern is None:
            object.__setattr__(self, "rho", as_ratio(self.rho))
        if not self._chooses():
            object.__setattr__(self, "budget", "matrix" if self.budget == "auto" else self.budget)
            object.__setattr__(self, "reconstruct", self.reconstruct or 0)
        if self.pattern is None:
            if self.budget != "matrix":
                as_choice(f"attention with {self.budget} budgets", self.attention, (DENSE, *MATRIX_METHODS))
            return
        for name in {self.attention, self.rest} - {DENSE}:
            as_choice("a method with a pattern", name, MATRIX_METHODS)
        object.__setattr__(self, "budget", "matrix")

    def _chooses(self) -> bool:
        """Return True where some weights go and some stay, of maps that are all pruned by the output-obs kind."""
        methods = {self.attention, self.rest} - {DENSE}
        kinds = {MATRIX_METHODS[name].options if name in MATRIX_METHODS else None for name in methods}
        if self.pattern is None:
            return kinds == {OutputOBS} and 0 < (self.rho or 0) < 1
        pattern = as_pattern(self.pattern, 0)
        return kinds == {OutputOBS} and 0 < pattern.kept < pattern.group

    @classmethod
    def by_default(cls, **choices: Any) -> Plan:
        """The plan of `prune_model` and `prune_`: budgets are "auto" and steps are chosen, unless they are given."""
        return cls(**{"budget": "auto", "reconstruct": None, **choices})

    def refuse_blocks_beyond(self, depth: int) -> None:
        """Refuse to name a block that a model of `depth` blocks does not have, or to hold one where all are at rho.

        Raises
        ------
        InvalidInstance
        """
        if self.hold and self.budget == "matrix":
            raise InvalidInstance(
                "hold needs a budget that differs between matrices; 'matrix' holds all of them at rho"
            )
        for name in ("only", "hold"):
            for index in getattr(self, name):
                if index >= depth:
                    raise InvalidInstance(f"{name} must name blocks from 0 to {depth - 1}; got {index}")

    def method_of(self, index: int, role: str) -> str:
        """The method for the map of a role in block `index`."""
        if self.only and index not in self.only:
            return DENSE
        return self.attention if role in ("Q", "K") else self.rest

    def maps_of(self, index: int, block: Block) -> dict[str, str]:
        """The maps of block `index` that are pruned, and by which method."""
        methods = {role: self.method_of(index, role) for role in block.roles}
        return {role: name for role, name in methods.items() if name != DENSE}

    def settings(self) -> dict[str, Any]:
        """Plain, for reports, with the options of the methods (damping, block sizes) as they are used."""
        return {**{one.name: getattr(self, one.name) for one in fields(self)}, "options": self.options()}

    def options(self) -> dict[str, Any]:
        """The options of the methods for one matrix; None lets the calibration tokens decide."""
        names = [name for name in dict.fromkeys((self.attention, self.rest)) if name in MATRIX_METHODS]
        return {name: asdict(matrix_options(name, {})) for name in names}

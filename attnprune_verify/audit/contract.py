"""The functions that can be audited: their names, the order of their arguments, and what they return."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A parameter of a subject's function."""

    name: str
    kind: str  # of inspect.Parameter: POSITIONAL_ONLY, POSITIONAL_OR_KEYWORD, VAR_POSITIONAL, KEYWORD_ONLY, VAR_KEYWORD
    has_default: bool


@dataclass(frozen=True)
class Signature:
    """The arguments, results and claim of a function of the contract.

    Attributes
    ----------
    arguments : tuple[str, ...]
        In this order where they are passed by position.
    returns : str
        What comes out, in words.
    parts : int
        How many arrays or numbers it returns; 0: one, or a tuple of them.
    attributes : tuple[str, ...]
        The attributes read from the object it returns, when it returns one.
    defaults : int
        The last so many arguments may be left out.
    options : tuple[tuple[str, object], ...]
        What is passed by keyword only, with its default.
    claim : str or None
        The statement of the paper it implements, if it is one.
    says : str
        What it computes, in one line.
    """

    name: str
    arguments: tuple[str, ...]
    says: str
    returns: str
    claim: str | None = None
    parts: int = 1
    attributes: tuple[str, ...] = ()
    defaults: int = 0
    options: tuple[tuple[str, object], ...] = ()

    @property
    def part_names(self) -> tuple[str, ...]:
        """The names of the arrays it returns, where it is more than one; attributes with a dot in front."""
        if self.attributes:
            return tuple(f".{name}" for name in self.attributes)
        if self.name == "loss_and_gradient":
            return ("loss", "gradient")
        return ("G_Q", "G_K") if self.parts == 2 else ()

    def __str__(self) -> str:
        values = {"lam": 0.0, "mask": None}
        required = len(self.arguments) - self.defaults
        given = [*self.arguments[:required], *(f"{name}={values[name]}" for name in self.arguments[required:])]
        given += ["*"] * bool(self.options) + [f"{name}={value}" for name, value in self.options]
        return f"{self.name}({', '.join(given)})"


# What the arguments are; the same words for every function.
_ARGUMENTS: dict[str, str] = {
    "n": "the number of tokens",
    "X": "tokens (n, d), or a batch (k, n, d)",
    "W": "fused weight W_Q W_K^T (d, d)",
    "M": "pruning mask (d, d), real",
    "V": "direction (d, d)",
    "W_Q": "query weight (d, m)",
    "W_K": "key weight (d, m)",
    "M_Q": "pruning mask of W_Q (d, m)",
    "M_K": "pruning mask of W_K (d, m)",
    "lam": "factor of the regulariser, >= 0",
    "mask": "attention mask: None, or (n, n) of 0 and 1 or bool; 1 = the row may attend to the column; no row empty",
    "rho": "the ratio to prune, from 0 to 1",
    "weight": "of a linear layer, (out, in)",
    "eta": "the step; None: one with a guarantee",
    "steps": "how many",
    "momentum": "heavy ball, moving average or Nesterov",
    "prune_n": "of every prune_m inputs of an output, prune_n go; rho is then ignored",
    "prune_m": "0: by rho",
    "blocksize": "columns a block",
    "percdamp": "of the mean of diag(H), added to it",
    "layer": "AttentionLayer with W_Q (d, heads*m), W_K (d, kv_heads*m), b_Q, b_K, heads, kv_heads, scale, rope, mask, "
    "window, softcap, alibi",
    "dense": "AttentionLayer",
    "pruned": "AttentionLayer with as many heads",
}
_OF_LAYER = {
    "M_Q": "pruning mask of its W_Q (d, heads*m)",
    "M_K": "pruning mask of its W_K (d, kv_heads*m)",
}
_LAYER_X = "inputs (sequences, tokens, in), or (tokens, in) as one sequence"

RULES = (
    "Arguments go by keyword where the names are these, in whatever order; else by position in this order.",
    "NumPy arrays go in, fresh ones for every call; whatever numpy.asarray understands may come out, torch and jax "
    "tensors too.",
    "A parameter that is not there (mask, lam, a batch) is not asked for, and that is said.",
    "A function of one sample raises when it is given a batch: an answer of another shape is a wrong answer.",
    "Of a batch the attention term is the average over its k samples, not the sum; the regulariser counts once.",
    "Masks that prune: 0 = pruned, 1 = kept in binary_mask and prune_mask_gd; True = pruned in the baselines.",
    "Of s entries floor(rho s) go, of equal ones the lower flat index first: s of the matrix (binary_mask, "
    "magnitude_mask, pruner), of a row (wanda). sparsegpt: the authors' floor(rho s) + 1 of each block, 0 < rho < 1. "
    "CONVENTIONS = {'count': 'floor' | 'round' | 'ceil' | 'authors' | 'exact', 'threshold': 'matrix' | 'row' | "
    "'block', 'ties': 'pruned-first' | 'kept-first' | 'kept-all' | 'pruned-all'} of the target declares another rule.",
    "PATTERNS = ('2:4', ...) of the target lists the N:M patterns that it takes. What it refuses by raising is listed, "
    "and the rest is judged.",
    "rho = 0 and rho = 1: sparsegpt may do what the original program does (one entry a block; an IndexError).",
    "Inputs are not modified, and what was returned does not change later.",
    "float64 unless --dtype says otherwise; equal calls agree to rounding.",
    "A layer is an attnprune_verify.AttentionLayer. One head without extras is required; groups, biases, scale, rope, "
    "window, softcap, alibi and given masks may be refused with an exception, which is said once.",
)

_FUSED = ("M", "X", "W", "lam", "mask")
_PAIR = ("M_Q", "M_K", "X", "W_Q", "W_K", "lam", "mask")
_LAYER = ("weight", "X", "rho")
_DESCENT = (("mask", None), ("eta", None), ("steps", 100), ("momentum", 0.0))
_GROUPS = (("prune_n", 0), ("prune_m", 0))
_SWEEP = (*_GROUPS, ("blocksize", 128), ("percdamp", 0.01))
_NUMBER = "a number"
_MASKED = ("layer", "M_Q", "M_K", "X", "lam")

FUNCTIONS: dict[str, Signature] = {
    signature.name: signature
    for signature in (
        Signature("causal_mask", ("n",), "1 where i >= j", "(n, n) of 0 and 1", "def:mask"),
        Signature(
            "attention",
            ("X", "W", "mask"),
            "row-wise softmax of X W X^T over the allowed positions, 0 elsewhere",
            "(n, n), or (k, n, n)",
            "def:attn_matrix",
            defaults=1,
        ),
        Signature("loss", _FUSED, "1/2 ||F(M) - F(1)||^2 + lam/2 ||M||^2", _NUMBER, "def:loss_func", defaults=2),
        Signature("gradient", _FUSED, "W * (X^T p X) + lam M", "(d, d)", "thm:mat_view_l", defaults=2),
        Signature(
            "loss_and_gradient", _FUSED, "both at once", "(a number, (d, d))", "thm:mat_view_l", parts=2, defaults=2
        ),
        Signature(
            "hessian_vector_product",
            ("M", "V", "X", "W", "lam", "mask"),
            "W * (X^T dp X) + lam V",
            "(d, d)",
            "thm:mat_view_l",
            defaults=2,
        ),
        Signature(
            "relative_error",
            ("M", "X", "W", "mask"),
            "||F(M) - F(1)||^2 / ||F(1)||^2; of a batch the mean",
            _NUMBER,
            "def:rec_err",
            defaults=1,
        ),
        Signature(
            "factored_loss", _PAIR, "the loss with a mask for W_Q and one for W_K", _NUMBER, "eq:new_loss", defaults=2
        ),
        Signature("factored_gradient", _PAIR, "its gradients", "((d, m), (d, m))", "eq:new_loss", parts=2, defaults=2),
        Signature(
            "binary_mask",
            ("M", "rho"),
            "exactly floor(rho size) zeros, the smallest entries",
            "(d, d) of 0 and 1",
            "alg:mask_gd",
        ),
        Signature(
            "prune_mask_gd",
            ("X", "W", "rho", "lam"),
            "gradient descent on M from M = 1, then rounding",
            "an object or mapping with mask (d, d) of 0 and 1, and M (d, d) real",
            "alg:mask_gd",
            attributes=("mask", "M"),
            parts=2,
            options=_DESCENT,
        ),
        Signature(
            "magnitude_mask", ("weight", "rho"), "the smallest |weight| of the whole matrix", "(out, in), True = pruned"
        ),
        Signature(
            "wanda_mask", _LAYER, "per row the smallest |weight| ||X_j||", "(out, in), True = pruned", options=_GROUPS
        ),
        Signature(
            "wanda",
            _LAYER,
            "the weight with those entries 0",
            "the new weight, alone or with (out, in), True = pruned",
            parts=0,
            options=_GROUPS,
        ),
        Signature(
            "sparsegpt",
            _LAYER,
            "column by column, with second-order updates",
            "the new weight, alone or with (out, in), True = pruned",
            parts=0,
            options=_SWEEP,
        ),
        Signature(
            "sparsegpt_report",
            _LAYER,
            "the same, with error, damping and condition",
            "an object or mapping with weight, pruned, error, damping, condition, undecided",
            attributes=("weight", "pruned", "error", "damping", "condition", "undecided"),
            parts=6,
            options=_SWEEP,
        ),
        Signature(
            "pruner",
            _LAYER,
            "any other method: the declared count, dead inputs first, zeros kept, no worse than magnitude",
            "the new weight, alone or with (out, in), True = pruned",
            parts=0,
            options=_GROUPS,
        ),
        Signature(
            "layer_attention",
            ("layer", "X"),
            "softmax of scale (q_i R_i)(k_j R_j)^T, capped and lowered, over the allowed positions, head by head",
            "(heads, n, n), or (k, heads, n, n)",
            "def:attn_matrix",
        ),
        Signature(
            "layer_loss", _MASKED, "the loss with both masks, summed over heads", _NUMBER, "eq:new_loss", defaults=1
        ),
        Signature(
            "layer_gradient",
            _MASKED,
            "its gradients",
            "((d, heads*m), (d, kv_heads*m))",
            "eq:new_loss",
            parts=2,
            defaults=1,
        ),
        Signature(
            "layer_relative_error",
            ("dense", "pruned", "X"),
            "||F~ - F||^2 / ||F||^2 per head, each summed over the samples",
            "(heads,)",
            "def:rec_err",
        ),
    )
}


def argument_of(signature: Signature, name: str) -> str:
    """Return the meaning of an argument of a function."""
    if signature.arguments == _LAYER and name == "X":
        return _LAYER_X
    if signature.arguments == _MASKED and name in _OF_LAYER:
        return _OF_LAYER[name]
    return _ARGUMENTS[name]


class NotTaken(Exception):
    """The subject has no parameter for something that is not at its default."""


@dataclass(frozen=True)
class Binding:
    """The place of each argument of the contract in a subject's call.

    Attributes
    ----------
    order : tuple[str, ...]
        The arguments passed by position, in this order.
    named : tuple[str, ...]
        The arguments passed by keyword.
    refused : tuple[str, ...]
        The arguments there is no parameter for.
    others : tuple[str, ...] or None
        Whether keywords beyond these are taken: any (None), or only some.
    note : str
        What is unusual about it, in words.
    """

    order: tuple[str, ...]
    named: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    others: tuple[str, ...] | None = None
    note: str = ""

    def takes(self, name: str) -> bool:
        return name not in self.refused

    def reordered(self, order: tuple[str, ...]) -> Binding:
        """Return the binding with some of the positional arguments in another order."""
        return replace(self, order=(*order, *self.order[len(order) :]))

    def place(self, values: dict[str, Any], options: dict[str, Any]) -> tuple[list[Any], dict[str, Any], list[str]]:
        """Positional arguments, keyword arguments, and the names of all of them in this order.

        Raises
        ------
        NotTaken
            If there is no parameter for one of `values` or `options`.
        """
        unknown = [name for name in values if name in self.refused]
        unknown += [name for name in options if self.others is not None and name not in self.others]
        if unknown:
            raise NotTaken(f"has no parameter {', '.join(unknown)}")
        given = [name for name in self.order if name in values]
        if given != list(self.order[: len(given)]):  # one in the middle is left out: the rest goes by name
            given = given[: next(i for i, name in enumerate(self.order) if name not in values)]
        keywords = {**{name: value for name, value in values.items() if name not in given}, **options}
        return [values[name] for name in given], keywords, [*given, *keywords]


def bound(signature: Signature, parameters: tuple[Parameter, ...] | None) -> Binding:
    """The binding of a function with these parameters (None: unknown)."""
    arguments = signature.arguments
    if parameters is None:
        return Binding(arguments)
    names = tuple(one.name for one in parameters if one.kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"))
    slots = [one for one in parameters if one.kind in ("POSITIONAL_ONLY", "POSITIONAL_OR_KEYWORD")]
    anything = any(one.kind == "VAR_KEYWORD" for one in parameters)
    others = None if anything else names
    required = arguments[: len(arguments) - signature.defaults]
    optional = arguments[len(required) :]
    if all(name in names for name in required):
        taken = tuple(name for name in arguments if name in names or anything)
        theirs = tuple(one.name for one in parameters if one.name in taken)
        in_order = theirs == tuple(name for name in arguments if name in theirs)
        note = "" if in_order else f"called by keyword: its order is ({', '.join(theirs)})"
        return Binding((), taken, _missing(arguments, taken), others, note)
    room = len(arguments) if any(one.kind == "VAR_POSITIONAL" for one in parameters) else len(slots)
    order = [name for name in arguments if name in required or name not in names][:room]
    by_name = tuple(name for name in optional if name not in order and (name in names or anything))
    return Binding(tuple(order), by_name, _missing(arguments, (*order, *by_name)), others)


def is_kernel(parameters: tuple[Parameter, ...] | None) -> bool:
    """Report whether a function named attention takes queries, keys and values, as `audit-kernel` calls it."""
    first = tuple(one.name.lower() for one in parameters or ())[:3]
    return first in (("q", "k", "v"), ("query", "key", "value"))


def _missing(arguments: tuple[str, ...], taken: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in arguments if name not in taken)

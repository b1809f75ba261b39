"""All claims in the paper's order, with `uses` checked to exist and to be acyclic when the list is first built."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module

from attnprune_verify.claims.core import Claim
from attnprune_verify.errors import InvalidInstance

_MODULES = (
    "attention_matrix",
    "pruning_problem",
    "basic_facts",
    "gradient_entries",
    "gradient_matrix",
    "basic_bounds",
    "coarse_bounds",
    "labelled_equations",
    "lipschitz",
    "lipschitz_sharp",
    "smoothness",
    "softmax_rows",
    "curvature",
    "pl_ingredients",
    "pl_inequality",
    "pl_sharp",
    "descent",
    "long_steps",
    "main_theorem",
    "guarantees",
    "landscape",
    "near_dense",
    "rows_apart",
    "heavy_ball",
    "two_masks",
    "stationary_point",
    "best_mask",
    "mask_gap",
    "refit",
    "every_text",
    "library",
    "kernel_rounding",
    "promises",
    "prose_theory",
    "prose_experiments",
    "prose_models",
    "fused_mask",
    "measured",
)

PAPER_ORDER = tuple(
    """
    def:attn_matrix def:attn_prun thm:our_convergence:informal alg:mask_gd def:mask def:attn_prun_causal
    thm:our_convergence rem:practical def:PL thm:convergence thm:mat_view_l_informal thm:lip_grad_l_informal
    lem:PL_ineq_informal lem:lower_bound_XBX_informal lem:lower_bound_p_informal eq:new_loss fac:indexing
    fac:combine fac:calculus fac:algebra fac:norm_bound fac:F_norm_A_plus_B lem:mask_hadamard def:exp_func
    def:sum_func def:soft_prob_func def:one_unit_loss def:rec_err def:reg_term def:loss_func lem:grad_one_row_mat
    eq:mat_total eq:mat_mask lem:grad_exp_func lem:grad_sum lem:grad_soft_prob eq:grad_prob eq:grad_proB_1(M)
    eq:grad_proB_2(M) lem:grad_one_unit lem:grad_rec lem:grad_reg lem:grad_loss_func def:p lem:mat_view_b1
    eq:one_unit_c1 lem:mat_view_b2 eq:one_init_c2 lem:mat_view_b3 thm:mat_view_l asp:bound_parameters lem:M_bounds
    lem:bound_basic_func lem:bound_grad_f fac:mean_value eq:mean_thm fac:lip_product lem:lip_f lem:lip_c
    lem:lip_f_circ_c lem:lip_diag eq:lip_diag_1 eq:lip_diag_2 lem:lip_diag_f thm:lip_grad_l eq:lip_l_0 eq:lip_l_1
    eq:lip_l_2 fac:abs_inequality lem:lower_bound_B_plus_M eq:convergence:add_squre fac:trace_BAB
    lem:lower_bound_XBX lem:lower_bound_hadamard lem:lower_bound_p_row lem:lower_bound_p lem:bound_c
    lem:bound_diag_f lem:PL_ineq
    """.split()
)
"""The statement environments of the paper and its labelled equations, as they are printed; three have no label."""

LABELS = frozenset(PAPER_ORDER) - {"rem:practical", "def:PL", "lem:M_bounds"}


@cache
def claims() -> tuple[Claim, ...]:
    """Every claim: the paper's statements in order, then its prose, then repaired and new statements.

    Raises
    ------
    ValueError
        If two claims share (id, reading), a name in `uses`, `repairs` or `repaired_by` does not exist, the
        statements use each other in a circle, or a label of the paper is missing.
    """
    found: list[Claim] = []
    for module in _MODULES:
        found.extend(import_module(f"attnprune_verify.claims.statements.{module}").CLAIMS)
    check(found)
    missing = [label for label in PAPER_ORDER if label not in {claim.id for claim in found}]
    if missing:
        raise ValueError(f"every statement of the paper needs a claim; missing: {', '.join(missing)}")
    place = {label: index for index, label in enumerate(PAPER_ORDER)}
    groups = {"exp": 1, "fix": 2, "new": 3}
    return tuple(sorted(found, key=lambda c: (groups.get(c.id.split(":")[0], 0), place.get(c.id, 0))))


def check(found: Sequence[Claim]) -> None:
    """Check names, uniqueness and acyclicity of a list of claims."""
    keys = [claim.key for claim in found]
    doubled = sorted({key for key in keys if keys.count(key) > 1})
    if doubled:
        raise ValueError(f"(id, reading) must be unique; twice: {doubled}")
    ids = {claim.id for claim in found}
    for claim in found:
        named = (*claim.uses, *filter(None, (claim.repaired_by, claim.repairs)))
        unknown = [name for name in named if name not in ids]
        if unknown:
            raise ValueError(f"{claim.id} uses statements that do not exist: {', '.join(unknown)}")
    graph: dict[str, set[str]] = {}
    for claim in found:
        graph.setdefault(claim.id, set()).update(claim.uses)
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise ValueError(f"statements must not use each other in a circle; got {' -> '.join(error.args[1])}") from error


def named(ids: Iterable[str]) -> set[str]:
    """`ids`, if each names a statement.

    Raises
    ------
    InvalidInstance
        If one does not; the message names those that come nearest.
    """
    wanted, known = set(ids), dict.fromkeys(claim.id for claim in claims())
    for unknown in sorted(wanted - set(known)):
        near = get_close_matches(unknown, known, 3, 0.5) or [one for one in known if unknown.split(":")[-1] in one][:3]
        hint = f"; did you mean {' or '.join(near)}?" if near else "; `attnprune-verify show` lists all"
        raise InvalidInstance(f"an id must be a label of the paper, exp:, fix: or new: one; got {unknown!r:.60}{hint}")
    return wanted


def with_ancestors(ids: Iterable[str]) -> set[str]:
    """`ids` and every statement they rest on, or are repaired by, directly or not."""
    needs: dict[str, set[str]] = {}
    for claim in claims():
        needs.setdefault(claim.id, set()).update(claim.uses, filter(None, (claim.repaired_by,)))
    waiting, seen = list(ids), set()
    while waiting:
        one = waiting.pop()
        if one not in seen:
            seen.add(one)
            waiting.extend(needs.get(one, ()))
    return seen


def find(id_: str, reading: str) -> Claim:
    """The claim with that id and reading; KeyError if there is none."""
    for claim in claims():
        if claim.key == (id_, reading):
            return claim
    raise KeyError(f"no claim {id_!r} with reading {reading!r}")

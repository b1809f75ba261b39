"""All proofs, in the order of the paper, and the verdict each list of steps gives."""

from importlib import import_module

from proofs_check.steps.record import FAILS, NOT_CHECKED, Step

PROOFS = (
    "thm_our_convergence",
    "fac_f_norm_a_plus_b",
    "lem_mask_hadamard",
    "lem_grad_one_row_mat",
    "lem_grad_exp_func",
    "lem_grad_sum",
    "lem_grad_soft_prob",
    "lem_grad_one_unit",
    "lem_grad_rec",
    "lem_grad_reg",
    "lem_grad_loss_func",
    "lem_mat_view_b1",
    "lem_mat_view_b2",
    "lem_mat_view_b3",
    "thm_mat_view_l",
    "lem_m_bounds",
    "lem_bound_basic_func",
    "lem_bound_grad_f",
    "fac_mean_value",
    "lem_lip_f",
    "lem_lip_c",
    "lem_lip_f_circ_c",
    "lem_lip_diag",
    "lem_lip_diag_f",
    "thm_lip_grad_l",
    "fac_abs_inequality",
    "lem_lower_bound_b_plus_m",
    "fac_trace_bab",
    "lem_lower_bound_xbx",
    "lem_lower_bound_hadamard",
    "lem_lower_bound_p_row",
    "lem_lower_bound_p",
    "lem_bound_c",
    "lem_bound_diag_f",
    "lem_pl_ineq",
)


def replay(slug: str) -> tuple[str, list[Step], bool]:
    """Label, steps, and whether exactly the recorded steps failed."""
    module = import_module(f"proofs_check.steps.{slug}")
    steps = module.steps()
    failing = tuple(step.label for step in steps if step.status == FAILS)
    unchecked = any(step.status == NOT_CHECKED for step in steps)
    return module.LABEL, steps, failing == module.FAILING and not unchecked

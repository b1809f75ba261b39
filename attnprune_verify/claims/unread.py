"""Claims whose formula is shown as text alone, because it is not read back; the list may only shrink.

Their sentences are pinned by the ledger of the tests, like all others.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["REASONS", "UNREAD"]

REASONS: Mapping[str, tuple[str, ...]] = {
    "about every iterate of a descent, which the check walks; a letter would be the check's own walk": (
        "exp:mask_stays_in_box-full",
        "exp:momentum-full",
        "new:descent_leaves_box-full",
        "new:guarantees-any",
        "new:heavy_ball-any",
        "new:heavy_ball_diverges-any",
        "new:linear_convergence-any",
        "new:our_convergence_from_ones-full",
        "new:our_convergence_paper_mu_allowed-causal",
        "new:path_floor-any",
        "new:stationarity-any",
        "new:strongly_convex_descent-any",
        "thm:convergence-literal",
        "thm:our_convergence-causal",
        "thm:our_convergence-full",
    ),
    "a derivative in one entry through inner terms that no letter stands for": (
        "eq:grad_proB_1(M)-any",
        "eq:grad_proB_2(M)-any",
        "eq:grad_prob-any",
        "eq:mat_mask-full",
        "eq:mat_total-full",
        "eq:one_init_c2-any",
        "eq:one_unit_c1-any",
        "lem:grad_loss_func-any",
        "lem:grad_rec-any",
        "lem:mask_hadamard-literal",
        "lem:mat_view_b1-any",
        "lem:mat_view_b2-any",
        "lem:mat_view_b3-literal",
    ),
    "about functions and curves of any kind, of which the check takes quadratic or cubic ones": (
        "def:PL-literal",
        "eq:mean_thm-literal",
        "fac:calculus-literal",
        "fac:lip_product-literal",
        "fac:mean_value-literal",
        "fix:calculus-literal",
        "fix:lip_product-literal",
    ),
    "of a mask for each of two factors: the letters are those of one mask": (
        "eq:new_loss-literal",
        "fix:new_loss-any",
        "new:pair_PL-heads",
        "new:pair_descent-heads",
        "new:pair_lipschitz-heads",
        "new:pair_no_PL-heads",
    ),
    "a procedure, a set or a choice, and no relation": (
        "alg:mask_gd-literal",
        "def:attn_matrix-full",
        "def:attn_prun-full",
        "def:attn_prun_causal-causal",
        "def:mask-literal",
        "exp:exact_proportion-literal",
        "fix:attn_prun-literal",
        "fix:mask_gd-any",
        "new:best_mask-any",
        "new:kappa_vanishes-any",
    ),
    "what a program certifies in balls": (
        "new:certified_constants-any",
        "new:certified_mask_gap-any",
        "new:certified_refit-any",
        "new:certified_stationary_point-any",
        "new:descent_mask_far_from_best-causal",
        "new:kl_for_every_text-any",
        "new:spurious_minima-n>d",
    ),
    "of the model of rounding, whose terms are the check's own": (
        "new:online_softmax-standard model",
        "new:rounding_gradient-standard model",
        "new:rounding_output-standard model",
        "new:rounding_sum-standard model",
    ),
    "about one experiment or one model, with its numbers": (
        "exp:baselines_reference-literal",
        "exp:batch_regulariser-literal",
        "exp:divergent_step-algorithm",
        "exp:exp_is_computable-causal",
        "exp:near_optimal_mask-full",
        "exp:smaller_lam_takes_longer-literal",
        "exp:square_weights-Llama-3.2-1B",
        "exp:step_size-causal",
        "exp:supports_theory-causal",
        "exp:vacuous_guarantee-literal",
        "exp:whole_model_ratio-Llama-3.2-1B",
        "exp:xi_vanishes-literal",
        "new:fused_mask_rank-no rotary positions",
        "new:fused_mask_rank-rotary positions",
        "new:query_key_share-Llama",
        "new:repeated_key_heads-grouped heads",
        "thm:our_convergence:informal-literal",
    ),
    "an order of quadratic forms, row by row": (
        "new:local_curvature-any",
        "new:segment_step-any",
        "new:softmax_move-any",
        "new:weighted_curvature-any",
    ),
    "one formula of several that are checked": (
        "asp:bound_parameters-literal",
        "def:exp_func-literal",
        "def:soft_prob_func-any",
        "eq:convergence:add_squre-literal",
        "eq:lip_l_0-any",
        "fac:abs_inequality-literal",
        "fac:algebra-literal",
        "fac:combine-literal",
        "new:K_rank_one-any",
        "new:batch-any",
        "new:ones_witness_sharp-any",
    ),
    "true in exact arithmetic alone: 0 for a determinant, or less than the least float": (
        "new:beta_needs_n_le_d-any",
        "new:no_common_floor-full",
    ),
}
"""By the reason why they are not: claims by id and reading."""

UNREAD: frozenset[str] = frozenset(name for names in REASONS.values() for name in names)

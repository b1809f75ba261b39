"""Names of what a claim's margin notes beside the relation that it computes from it (`Quantities.note`).

Only those that are no single word: the reader of formulas is given them.
"""

from collections.abc import Mapping

NOTED: Mapping[str, tuple[str, ...]] = {
    "eq:mean_thm": ("min_t <grad f(x + t (y - x)), y - x>", "max_t <grad f(x + t (y - x)), y - x>"),
    "exp:mask_stays_in_box": ("min_{t<141} min_ij (M_t)_ij",),
    "exp:momentum": ("max_{t<60} L(M_{t+1})/L(M_t)",),
    "exp:smaller_lam_takes_longer": ("T(lam)", "T(lam/2)"),
    "exp:xi_vanishes": ("xi(lam)", "xi(lam/2)", "||X||_F"),
    "exp:near_optimal_mask": ("min_M L_attn(M)",),
    "exp:exact_proportion": ("#zeros",),
    "exp:exp_is_computable": ("max_ij (X W X^T)_ij",),
    "exp:step_size": ("||d f_i(1 + t V)||",),
    "new:descent_leaves_box": ("min_{t<51} min_ij (M_t)_ij", "||M_t||_F^2"),
    "thm:convergence": ("min_{t<T} g(w_t)", "f(w_0)"),
    "thm:our_convergence": ("min_{t<T} [L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2)]", "L(M_0)", "||X||_F"),
    "exp:vacuous_guarantee": ("||X||_F",),
    "thm:our_convergence:informal": ("T(d)", "T(2d)"),
    "new:stationarity": (
        "||grad L(M_t)||_F",
        "kappa_T l ||c(M_t)||_F",
        "||grad L(M_0)||_F",
    ),
    "new:our_convergence_from_ones": (
        "min_{t<T} [L_attn(M_t)/n^2 + lam^2 ||M_t||^2/(mu n^2)]",
        "L(M_0)",
    ),
    "new:heavy_ball": (
        "E_{t+1}",
        "E_t",
        "||M_{t+1} - M_t||_F^2",
        "min_{t<T} ||grad L(M_t)||_F^2",
        "L(M_t)",
    ),
    "new:heavy_ball_diverges": (
        "|P M_t|",
        "|P M_0|",
    ),
    "new:linear_convergence": (
        "L(M_t) - min L",
        "L(M) - min L",
        "L(M - eta g) - min L",
        "<grad L_attn(M) - grad L_attn(M'), M - M'>",
    ),
    "new:strongly_convex_descent": (
        "L(M_t) - min L",
        "L(M_0) - min L",
    ),
    "new:batch": (
        "L'(M)",
        "grad L'(M)",
        "M_2",
        "M'_2",
        "sum_s L_attn,s(M)",
        "L'_attn(M)",
    ),
    "new:path_floor": (
        "min_t min F(M_t)_ij",
        "min F(M)_ij",
        "L(M)",
    ),
    "new:pair_lipschitz": (
        "||grad L(M) - grad L(M')||",
        "||M - M'||",
        "max_c ||X diag(W_Q e_c)||",
        "max_c ||X_0 diag(W_K e_c)||",
    ),
    "new:pair_descent": (
        "L(M)",
        "L(M_t)",
        "L(M - eta g)",
        "min_{t<T} ||grad L(M_t)||^2",
        "max_c ||X diag(W_Q e_c)||",
        "max_c ||X_0 diag(W_K e_c)||",
    ),
    "new:pair_no_PL": (
        "grad_Q L(0)",
        "grad_K L(0)",
        "||c(0)||",
        "sum_{h,i} ||1/m_i - f_i^h||^2",
    ),
    "new:pair_PL": (
        "||grad_Q L_attn||",
        "||c||",
        "min|W_Q|",
        "min_{h,v} ||v X (M_K o W_K^h)||",
    ),
    "fix:new_loss": (
        "L(M_Q, M_K)",
        "F(M_Q, M_K)",
        "F(1, 1)",
    ),
    "new:stopping_rule": (
        "min_{t<T} ||grad L(M_t)||^2",
        "sum_{t<T} eta_t",
        "L(M_{t+1})",
        "L(M_t)",
        "||grad L(M_t)||",
        "eta_t",
    ),
    "new:rounding_sum": ("|y - sum_j x_j z_j|",),
    "new:online_softmax": ("softmax(s)",),
    "new:rounding_output": ("|y - o|",),
    "new:certified_constants": (
        "||Pi A||",
        "K_lower",
        "L_sharp",
    ),
    "new:weighted_curvature": (
        "||sum_i C_i^+ (Pi A)_i^T (Pi A)_i||",
        "||sum_i C_i^- (Pi A)_i^T (Pi A)_i||",
        "C+",
        "C-",
    ),
    "new:segment_step": (
        "<g, Hess L(M - t g) g>",
        "L(M - eta g)",
        "L_seg",
    ),
    "new:certified_mask_gap": (
        "KL(B)",
        "KL(M')",
        "KL(best)",
    ),
    "new:certified_refit": (
        "||g||",
        "KL(Y)",
        "KL(V)",
        "KL(V')",
        "KL(near)",
        "KL(best)",
    ),
    "new:kl_for_every_text": (
        "max_j |z_ij(M) - z_ij(1)|",
        "KL(f_i || F_i(M))",
    ),
    "new:descent_mask_far_from_best": (
        "#zeros(M)",
        "#zeros(M')",
    ),
    "new:repeated_key_heads": (
        "X W_Q (repeated W_K)^T X^T",
        "sum_h X W_Q^h (W_K^{g(h)})^T X^T",
    ),
    "new:beta_needs_n_le_d": ("det(X X^T)",),
    "new:softmax_move": (
        "Var_s(v)",
        "Var_s'(v)",
        "r_v",
        "lambda_min(J(s) - e^{-r} J(s'))",
        "lambda_min(J(s') - e^{-r} J(s))",
    ),
    "new:guarantees": (
        "L(M_t)",
        "L_attn(M_t)",
        "min_{s<t} ||grad L(M_s)||^2",
        "delta(M_t)",
        "min_{s<t} [L_attn(M_s)/n^2 + lam^2 ||M_s||^2/(mu n^2)]",
        "||1||^2",
        "at_ones",
        "eps_s",
        "L(M_t) - min L",
        "L(M_t) - min' L",
        "<grad L(M) - grad L(1), M - 1>",
        "||M - 1||^2",
    ),
    "new:our_convergence_paper_mu_allowed": ("min_M [L_attn(M)/n^2 + lam^2 ||M||^2/(mu n^2)]", "||X||_F"),
}
"""By claim."""

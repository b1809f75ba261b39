"""Meanings of the letters that a statement uses, in words, so that a sentence can be read alone."""

import re

from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.formulas.scope import hypotheses

SYMBOLS: dict[str, str] = {
    "L_attn": "the attention error, half the sum of the squared entries of c (of several samples the mean)",
    "f(M)": "the attention matrix at M: the softmax of the rows of X (M o W) X^T over the allowed positions",
    "F": "the attention matrix at M: the softmax of the rows of X (M o W) X^T over the allowed positions",
    "f": "the attention matrix at M = 1, or a row of it",
    "c": "the residual, the attention matrix at M less that at M = 1; or a row of it",
    "p": "the softmax Jacobian at M applied to c, row by row",
    "G": "the gradient of L_attn",
    "J": "diag(s) - s s^T of a softmax row s",
    "J_i": "diag(s) - s s^T of row i of the attention matrix at M",
    "lambda_2": "of J_i: its least eigenvalue on the vectors with sum 0",
    "Pi A": "the map from M to the logits X (M o W) X^T, each row centred over its allowed positions",
    "K": "the norm of the map from M to the logits X (M o W) X^T, each row centred over its allowed positions",
    "R": "any bound above 1 of ||X||_F and ||W||_F",
    "C_+": "(39 + 55 sqrt(33))/1152, the largest curvature of a row's loss in its logits",
    "C_-": "(55 sqrt(33) - 39)/1152, minus the least curvature of a row's loss in its logits",
    "L_sharp": "lam + C_+ K^2",
    "m_i": "the number of allowed positions of row i",
    "n_e": "the number of rows with at least two allowed positions",
    "f_min": "the least allowed entry of f in the rows with at least two of them",
    "X_c": "the tokens less the mean of all",
    "X_0": "the tokens less the mean of all",
    "beta": "a number with X X^T - beta I positive semidefinite",
    "delta": "a lower bound of the attention entries",
    "delta_T": "the least lower bound of the attention entries at M_0, ..., M_{T-1}",
    "kappa_T": "the least ||W o (X^T V X)|| of V with norm 1 and zero row sums that is 0 where the mask forbids",
    "kappa_+": "the smallest nonzero singular value of the map from M to the centred logits",
    "beta_c": "the least ||X_c^T v||^2 of the unit vectors v with sum 0",
    "beta_i": "the least eigenvalue of X X^T on the vectors with sum 0 that row i may hold",
    "X_L": "the tokens of the rows that have a choice",
    "s1": "the largest weight of the row s",
    "s2": "the second largest weight of the row s",
    "E_s": "the mean under the weights s",
    "Var_s": "the variance under the weights s",
    "L_paper": "the paper's constant, lam + 30 d n^{7/2} R^6",
    "M_c": "the attention mask, 1 where a position is allowed",
    "W0": "the principal branch of Lambert's W function",
    "o": "the product entry by entry",
    "M'": "another pruning mask of the same shape",
    "M_t": "the mask after t steps M_{t+1} = M_t - eta grad L(M_t)",
    "c_t": "the residual at M_t",
    "eta": "the step of gradient descent",
    "T": "a number of steps",
    "g": "the gradient of L at M",
    "grad": "the gradient in M",
    "Hess": "the second derivative in M, a d^2 x d^2 matrix",
    "max|W|": "the largest absolute value of an entry of W",
    "min|W|": "the least absolute value of an entry of W",
    "min L": "the least value of L over all M",
    "I": "the identity matrix",
    "e": "the base of the natural logarithm",
}
"""By symbol, where a claim gives it no other meaning; NOTATION.md has the problem's (n, d, X, W, M, lam, L)."""

_LOGITS = "a row of logits"
_DIRECTION = "a direction of logits"
_ROW = {"s": "any softmax row", "f": "another softmax row", "v": _DIRECTION}
_ROUNDS = {"u": "the largest relative error of an operation", "w": "that of a 16-bit storing"}
_WIDTHS = {
    "scale": "the factor of the logits",
    "rows": "the number of rows with a choice, over all heads",
    "e_c": "the unit vector of column c",
    "W_Q": "the query weights",
    "W_K": "the key weights",
    "M": "the pair of masks M_Q, M_K, taken as one vector",
    "M'": "another pair of masks",
    "N": "the number of entries of both masks",
}
_EPS = "the accuracy that T steps reach"
_LEAST_GAP = "the least lambda_2(J_i) of the rows at M_0, ..., M_{T-1}"
_KL = {
    "KL(": "the divergence of the dense rows from those of other weights or masks, summed over rows",
    "best": "what the program returns as the divergence of what it found; inside KL, what it found",
    "bound": "what the program returns as lower bound",
}
_STOCHASTIC = {
    "B": "any matrix with row sums 0",
    "f": "any matrix",
    "min_allowed f": "the least entry of f where M_c is 1",
}
_GAPS = {
    "rate": "the part of the gap to min L that a step closes",
    "start": "the gap to min L, or a bound of it, at M_0",
}

OWN: dict[str, dict[str, str]] = {
    "fix:lower_bound_B_plus_M": {"B": "any d x d matrix"},
    "fix:new_loss": {"M_Q": "the mask of W_Q", "M_K": "the mask of W_K"},
    "fix:lip_product": {
        "f": "n matrices that depend on x",
        "x": "a vector",
        "y": "another vector",
        "L_i": "how far the i-th matrix moves, over ||x - y||",
    },
    "fix:lower_bound_p_row": _STOCHASTIC,
    "fix:lower_bound_p": _STOCHASTIC,
    "fix:practical": {"x": "row i of X, a token, as a column"},
    "fix:our_convergence": {"eps": _EPS, "delta": "the least allowed entry of F(M_t) for t < T"},
    "new:softmax_jacobian": _ROW,
    "new:softmax_lipschitz": {"s": _LOGITS, "v": _DIRECTION},
    "new:row_hessian_five_quarters": {
        "p_i": "the softmax Jacobian at logits s applied to softmax(s) less a fixed softmax row",
        "s": _LOGITS,
        "v": _DIRECTION,
    },
    "new:lip_diag_f": {"p2": "diag((f(M) o c(M)) 1) f(M)"},
    "new:jacobian_two_largest": _ROW,
    "new:softmax_move": {
        "s": "an allowed row of f(M)",
        "s'": "the same row of f(M')",
        "r": "the range by which the logits of that row move",
        "v": "any vector, or the move of the logits",
        "r_v": "r of the row that Var belongs to",
    },
    "new:row_third_bound": {
        "softmax": "a softmax row along a line of its logits",
        "v": "the norm of the direction",
        "s": "the norm of softmax - f",
        "f": "another softmax row",
    },
    "new:softmax_second_derivative": _ROW,
    "new:softmax_third_derivative": _ROW,
    "new:row_third_derivative": {**_ROW, "s": _LOGITS, "t": "a number, the derivative is taken at 0"},
    "new:row_hessian": _ROW,
    "new:row_hessian_lower": _ROW,
    "new:curvature_domination": {
        **_ROW,
        "H": "J^2 + diag(J c) - s (J c)^T - (J c) s^T",
        "lambda_2": "of J: its least eigenvalue on the vectors with sum 0",
    },
    "new:PL_ineq_paper_mu_allowed": {"delta_allowed": "the least allowed entry of F(M)"},
    "fix:bound_grad_f": {"dF": "the derivative of F in every entry of M"},
    "new:our_convergence_paper_mu_allowed": {
        "delta_allowed": "the least allowed entry of F(M) over ||M|| <= d",
        "eps": "a number so small that xi decides",
    },
    "new:segment_step": {
        "eta": "any step",
        "t": "a part of the step",
        "D_i": "the squared norm of row i of X (g o W) X^T, centred over its allowed positions",
        "r_i": "eta times the range of that row over its allowed positions",
        "V_i": "the variance of that row under row i of F",
        "s_i": "the largest entry of row i of F",
        "u_i": "the largest c_ij - <c_i, F_i> of row i, at least 0",
        "i": "a row with at least two allowed positions",
    },
    "new:armijo_step": {
        "eta": "the first of eta_0, beta eta_0, beta^2 eta_0, ... with L(M - eta g) <= L(M) - alpha eta ||g||^2",
        "eta_0": "the first step that is tried",
        "alpha": "the part of the slope that is asked for",
        "beta": "the factor between two trials",
    },
    "new:stopping_rule": {
        "M_t": "the mask after t steps M_{t+1} = M_t - eta_t grad L(M_t)",
        "eta_t": "the step at M_t, as long as it likes if it pays",
        "T": "any number of steps that all pay",
    },
    "new:our_convergence_sharp": {"eps": _EPS, "l": _LEAST_GAP},
    "new:our_convergence_from_ones": {"delta": "the least entry of F(M)"},
    "new:ones_witness": {"mu": "any number"},
    "new:ones_witness_sharp": {"mu": "any number", "s": "any number above 0"},
    "new:stationarity": {"l": _LEAST_GAP, "r": "the accuracy that is asked for"},
    "new:ray_monotone": {"tau": "any real number, the entries of the mask"},
    "new:strong_convexity": {"N": "another pruning mask"},
    "new:linear_convergence": {
        "s": "the step times L",
        "k": "the number of samples",
        "t": "any number of steps",
        "M'": "another mask, both where L is at most lam d^2/2, as is M",
    },
    "new:weighted_curvature": {
        "t_i": "the largest entry of row i of F",
        "t'_i": "its second largest entry",
        "s_i": "its least allowed entry",
        "u_i": "the largest c_ij - <c_i, F_i>",
        "v_i": "the largest <c_i, F_i> - c_ij",
    },
    "new:heavy_ball": {
        "M_t": "the mask after t steps M_{t+1} = M_t - eta grad L(M_t) + theta (M_t - M_{t-1}), M_{-1} = M_0",
        "M'": "the mask before M",
        "theta": "the momentum",
        "E_t": "the energy at M = M_t and M' = M_{t-1}, which may be any two masks",
    },
    "new:heavy_ball_diverges": {
        "M_t": "the mask after t steps M_{t+1} = M_t - eta grad L(M_t) + theta (M_t - M_{t-1}), M_{-1} = M_0",
        "P": "the inner product with any matrix that moves no logit",
        "theta": "the momentum",
        "t": "any number of steps",
        "x": "how far the step is beyond the longest stable one, times lam",
    },
    "new:pair_lipschitz": {**_WIDTHS, "R": "any bound of the norms of M and M'"},
    "new:pair_descent": _WIDTHS,
    "new:residual_inner_product": {"c_i": "row i of the residual c(M)", "f(M)_i": "row i of f(M)"},
    "new:pair_no_PL": {
        "f_i^h": "row i of head h at masks of ones",
        "grad_Q": "the gradient in M_Q",
        "grad_K": "in M_K",
    },
    "new:pair_PL": {
        **_WIDTHS,
        "grad_Q": "the gradient in M_Q",
        "t": "how long the keys are apart, at least",
        "h": "a head",
        "v": "a unit vector with sum 0",
        "delta": "the least allowed entry of the attention matrices",
        "min|W_Q|": "the least absolute value of an entry of W_Q",
        "M_K": "the mask of W_K",
    },
    "new:descent_mask_far_from_best": {"M": "what alg:mask_gd returns", "M'": "the best mask with as many zeros"},
    "new:certified_mask_gap": {
        **_KL,
        "M'": "any real matrix, at which the tangent is taken",
        "B": "any matrix with entries in [0, 1] that add up to k; of `bound`, any 0/1 mask with k ones",
        "k": "the number of ones",
        "tau": "any number; the k-th smallest entry of G gives most",
    },
    "new:certified_refit": {
        **_KL,
        "Y": "any weights on the support",
        "V": "the best weights on the support",
        "V'": "any others on it",
        "near": "weights on the support within the radius that the program returns",
        "g": "the gradient of KL at Y, on the support",
        "sigma": "the least eigenvalue of the Hessian of KL at Y, on the support",
        "kappa": "the largest ||x_i|| ||x_j - x_k|| of a row i and two of its allowed positions",
    },
    "new:kl_for_every_text": {
        "f_i": "row i of f",
        "F_i": "row i of F",
        "z_ij": "the logits of tokens diag(gamma) y with ||y|| <= sqrt d, as a normalisation gives them",
        "gamma": "the weights of that normalisation",
        "KL(": "the divergence of a dense row from the row at M",
        "w": "the width of what the logits may move by",
    },
    "new:certified_constants": {
        "K_lower": "what the program returns as lower bound of ||Pi A||",
        "l": "what the program returns as lower bound of lambda_2",
        "k": "what the program returns as lower bound of kappa_T",
        "lambda_2": "the least lambda_2(J_i) of the rows",
    },
    "new:rounding_sum": {
        **_ROUNDS,
        "y": "the computed sum, in any order",
        "x_j": "the exact factors, of which the computed ones are within eps",
        "z_j": "the other factors",
        "eps": "how far a computed factor is off, at most",
    },
    "new:online_softmax": {
        "out": "the running sum of weights times values, rescaled at every shift, in any order of the blocks",
        "total": "the running sum of weights, rescaled likewise",
        "s": _LOGITS,
        "v": "the values, one number for each key",
    },
    "new:rounding_output": {
        **_ROUNDS,
        "y": "the computed output of a row, whatever way its keys are cut into blocks and these are joined",
        "o": "the exact output, sum_j p_j v_j",
        "p": "the exact weights, a softmax row",
        "v": "the values, one number for each key",
        "e_j": "how far the computed exp of key j may be off from exp(s_j - shift), relatively",
        "n": "the number of keys, at least one",
    },
    "new:rounding_gradient": {
        **_ROUNDS,
        "ds_j": "the computed gradient in the logit of key j",
        "p": "the exact weight of key j",
        "dp_j": "its exact gradient",
        "D_j": "the exact sum of p dp over the row",
        "rho": "how far the computed weight is off, relatively",
        "eps": "how far the computed dp is off",
        "eta": "how far the computed D is off",
    },
    "new:batch": {
        "k": "the number of samples",
        "L": "the mean over the samples, with lam",
        "L'": "the loss of all tokens as one sample with a block-diagonal attention mask, with k lam",
        "M_2": "the second iterate of descent on L by eta",
        "M'_2": "that on L' by eta/k",
    },
    "new:path_floor": {
        "k": "the number of samples",
        "m": "the largest number of allowed positions of a row",
        "v": "the largest ||W o x y^T|| of two tokens x, y",
        "least": "the floor",
    },
    "new:guarantees": {
        **_GAPS,
        "k": "the number of samples",
        "loss": "the number of that name that `check` prints",
        "attention": "that of the attention error",
        "gradient": "that of the gradient after T steps",
        "delta(M_t)": "the least allowed entry of F(M_t)",
        "delta": "the floor that `check` prints",
        "xi": "that of the repaired theorem",
        "mu": "that of the repaired theorem",
        "eps_s": "what s steps reach of its eps",
        "at_ones": "what M = 1 gives",
        "s": "a number of steps",
        "t": "a number of steps",
        "t'": "a number of steps",
        "rate'": "that for large lam",
        "start'": "the gap at M_0, for large lam",
        "min'": "the least value, for large lam",
        "threshold": "the lam up to which the linear rate is promised",
        "convexity": "the lam above which L is strongly convex",
        "modulus": "by how much",
    },
    "new:gradient_norm": {"r": "the accuracy that is asked for"},
    "new:strongly_convex_descent": {**_GAPS, "t": "any number of steps"},
    "new:query_key_share": {
        "maps": "all maps of a block",
        "h": "the number of heads",
        "g": "the number of key heads",
        "m": "the size of a head",
        "f": "the width of the feed-forward map",
        "W_Q": "the query weights",
        "W_K": "the key weights",
    },
    "new:fused_mask_rank": {
        "m": "the size of a head",
        "C_a": "the part of the logits of rotary frequency a",
        "M": "a 0/1 mask",
        "W_Q": "the query weights",
        "W_K": "the key weights",
    },
    "new:repeated_key_heads": {
        "W_Q": "the query weights",
        "W_K": "the key weights",
        "h": "a head",
        "g(h)": "the key head that head h reads",
        "spread": "how far the repeated parts of a fused gradient are apart, relatively",
    },
}
"""By claim: letters that stand for something of its own."""

_WORD = r"(?<![A-Za-z0-9_{*])"


def _pattern(name: str) -> re.Pattern[str]:
    """Find a symbol where it stands alone: f(M) is not f, and R^{dxd} is not R."""
    if name == "o":
        return re.compile(r"(?<= )o(?= [A-Za-z(])")
    if name == "T":
        return re.compile(r"(?<![A-Za-z0-9_{*^])T(?![A-Za-z0-9_'(])")
    last = r"(?![A-Za-z0-9_('])" if name == "f" else r"(?![A-Za-z0-9_'])(?!\^\{d)"
    return re.compile(_WORD + re.escape(name) + (last if name[-1].isalnum() else ""))


_PATTERNS = {name: _pattern(name) for name in SYMBOLS}


def symbols_of(claim: Claim) -> dict[str, str]:
    """The symbols in a statement of ours with their meanings, except those that its text defines.

    The claim's own letters first; what they mean elsewhere is not said.

    Examples
    --------
    >>> from attnprune_verify.claims.registry import find
    >>> list(symbols_of(find("new:PL_sharp", "any")))
    ['c', 'p', 'J_i', 'lambda_2', 'kappa_T', 'o']
    >>> symbols_of(find("new:rounding_output", "standard model"))["o"]
    'the exact output, sum_j p_j v_j'
    """
    if not claim.own:
        return {}
    text = " ".join((claim.says, claim.formula, *hypotheses(claim)))
    own = OWN.get(claim.id, {})
    shared = {
        name: words
        for name, words in SYMBOLS.items()
        if _PATTERNS[name].search(text) and not said(name, text) and name not in own
    }
    return own | {name: words for name, words in shared.items() if not (name + "_i" in own or name + "_j" in own)}


def said(name: str, text: str) -> bool:
    """Return True where a text defines a symbol: ``K = ...``, ``P is a bound``, ``m the number``."""
    after = r",? (?:=(?! [01]\b) |being |is the |is a |is that |the (?:number|largest|least|smallest|mean|rows))"
    return bool(re.search(_WORD + re.escape(name) + after, text))

"""Every constant of the theory on one instance: the paper's, the repaired and the sharp ones, with logarithms."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

from flint import arb

from attnprune_verify.instance.problem import Instance
from attnprune_verify.theory.formulas import paper, rates, sharp
from attnprune_verify.theory.numbers.arithmetic import BALL
from attnprune_verify.theory.numbers.balls import log10, lower, nearest, precise, upper
from attnprune_verify.theory.quantities.attention_floor import AttentionFloor
from attnprune_verify.theory.quantities.kappa import kappa_zero_sum, row_eigenvalue_at
from attnprune_verify.theory.quantities.measure import logit_norm, measure, start_loss
from attnprune_verify.values import as_number, as_positive

_ROUNDED_UP = (
    "K",
    "L_paper",
    "L_sharp",
    "lipschitz_F",
    "lipschitz_F_paper",
)  # upper bounds stay upper bounds as floats
_ROUNDED_DOWN = ("K_lower", "curvature_lower", "kappa_T", "row_eigenvalue", "mu_operator")


@dataclass(frozen=True)
class Constants:
    """The constants of an instance; attributes and items are floats, which may over- or underflow.

    `log10` maps the name of every positive constant to its decimal logarithm, finite even then. A division by mu = 0
    gives inf, 0 / 0 gives nan. beta, delta and mu are those of the worst sample of a batch, K that of the averaged
    operator.

    Attributes
    ----------
    L_paper : float
        lam + 30 d n^{7/2} R^6 (thm:lip_grad_l).
    L_sharp : float
        lam + C_+ K^2, an upper bound of every curvature of L.
    K, K_lower : float
        Certified upper and lower bound of ||Pi A||; L_sharp uses the upper one.
    mu_paper, mu_corrected : float
        2 min|W| beta delta as printed, and 2 (min|W| beta delta_allowed)^2.
    mu_operator, kappa_T, row_eigenvalue : float
        2 (kappa_T min_i lambda_2(J_i))^2 and its factors, certified from below; never worse than mu_corrected of the
        instance's own beta and delta. 0 for a batch, whose samples' gradients can cancel.
    xi_paper, xi_corrected : float
        Both in the theorem's n^{-3/2} scale: 12 n^{-3/2} max|W| ||X||_F^2 lam d / mu_paper as printed, and
        K lam^{3/2} d^2 / (n^2 mu_corrected), which holds along gradient descent from M = 1.
    xi_paper_lemma : float
        xi as lem:PL_ineq prints it: n^2 xi_paper.
    xi_global : float
        4 lam sum_i W0((m_i - 1)/e) / mu_corrected: the repaired lemma's scale, valid for every M.
    T_paper, T_corrected : float
        4 L(M^(0)) / (eta mu eps n^2) with the paper's mu and eta_paper, and the corrected mu and eta_corrected.
        M^(0) is the instance's M, or 1 when it has none; T_corrected is proved for M^(0) = 1.
    eps, eta_paper, eta_corrected : float
        0.02 / n, 1 / L_paper and 1 / L_sharp unless given. A given eta serves both.
    start_loss : float
        L(M^(0)).
    beta, delta, delta_allowed : float
        lambda_min(X X^T); the smallest entry of F(M) over all positions and over the allowed ones.
    dense_floor : float
        f_min, the smallest allowed entry of F(1) in rows with at least two allowed positions (1 if there are none).
    min_abs_W, max_abs_W, norm_X, norm_W, norm_M, R, lam : float
        Frobenius norms; R = max(1, ||X||_F, ||W||_F).
    lipschitz_F, lipschitz_F_paper : float
        K/2 and the paper's 2 d n R^3 (lem:lip_f).
    curvature_lower : float
        lam - C_- K^2 <= every curvature of L; negative unless L is strongly convex.
    convexity_threshold, linear_rate_threshold, vacuity_threshold : float
        lam above the first makes L strongly convex; lam below the second (and positive) gives linear convergence from
        M = 1; for lam up to the third, M = 1 itself satisfies thm:our_convergence.
    inner_product_floor : float
        -sum_i W0((m_i - 1)/e) <= <grad L_attn(M), M> for every M.
    C_plus, C_minus, P_star : float
        The numbers of `theory.formulas.sharp`.
    log10 : Mapping
        Decimal logarithms of the positive constants above.
    """

    L_paper: float
    L_sharp: float
    K: float
    K_lower: float
    mu_paper: float
    mu_corrected: float
    mu_operator: float
    kappa_T: float
    row_eigenvalue: float
    xi_paper: float
    xi_corrected: float
    xi_paper_lemma: float
    xi_global: float
    T_paper: float
    T_corrected: float
    eps: float
    eta_paper: float
    eta_corrected: float
    start_loss: float
    beta: float
    delta: float
    delta_allowed: float
    dense_floor: float
    min_abs_W: float
    max_abs_W: float
    norm_X: float
    norm_W: float
    norm_M: float
    R: float
    lam: float
    lipschitz_F: float
    lipschitz_F_paper: float
    curvature_lower: float
    convexity_threshold: float
    linear_rate_threshold: float
    vacuity_threshold: float
    inner_product_floor: float
    C_plus: float
    C_minus: float
    P_star: float
    log10: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        if name not in NAMES:
            raise KeyError(name)
        return float(getattr(self, name))

    def as_dict(self) -> dict[str, float]:
        """Return all constants by name, without the logarithms."""
        return {name: self[name] for name in NAMES}

    def document(self) -> dict[str, object]:
        """Return values and logarithms as plain data."""
        return {**self.as_dict(), "log10": dict(self.log10)}


NAMES = tuple(field.name for field in fields(Constants) if field.name != "log10")
"""Names of all constants, in the order they are printed."""


def constants(
    instance: Instance,
    eps: float | None = None,
    eta: float | None = None,
    *,
    beta: float | None = None,
    delta: float | None = None,
) -> Constants:
    """Evaluate all constants of the theory on `instance`; see `Constants`.

    Parameters
    ----------
    instance : Instance
    eps : float, optional
        Accuracy in T, > 0; 0.02 / n by default.
    eta : float, optional
        Step size in T, > 0; 1 / L_paper and 1 / L_sharp by default.
    beta, delta : float, optional
        Used instead of the instance's own (`assumptions` judges them); delta is then used for both deltas.

    Returns
    -------
    Constants

    Raises
    ------
    InvalidInstance
        If a parameter is not finite, or eps or eta is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> found = constants(Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), M=np.zeros((2, 2))))
    >>> found.mu_paper, found["mu_corrected"], round(found.K, 9)
    (1.0, 0.5, 1.0)
    """
    balls = constant_balls(instance, eps, eta, beta=beta, delta=delta)
    return Constants(**{name: leave(name, ball) for name, ball in balls.items()}, log10=logarithms(balls))


def logarithms(balls: Mapping[str, arb]) -> dict[str, float]:
    """log10 of every positive one."""
    return {name: log10(ball) for name, ball in balls.items() if ball > 0 and ball.is_finite()}


def leave(name: str, ball: arb) -> float:
    """The float that is printed: bounds stay bounds."""
    if name in _ROUNDED_UP:
        return upper(ball)
    return lower(ball) if name in _ROUNDED_DOWN else nearest(ball)


@precise
def constant_balls(
    instance: Instance,
    eps: float | None = None,
    eta: float | None = None,
    *,
    beta: float | None = None,
    delta: float | None = None,
    floor: AttentionFloor | None = None,
) -> dict[str, arb]:
    """Return the constants as balls, whose exponents are unlimited; `floor` replaces that of F(M)."""
    n, d, lam = instance.n, instance.d, instance.lam
    found, norm = measure(instance), logit_norm(instance)
    K = arb(norm.upper.upper())
    start = start_loss(instance)
    beta_ball = found.beta.value if beta is None else arb(as_number("beta", beta))
    floor = floor or found.floor
    everywhere, allowed = floor.everywhere, floor.allowed
    if delta is not None:
        everywhere = allowed = arb(as_number("delta", delta))
    L_paper, L_sharp = paper.lipschitz(n, d, found.radius, lam), sharp.lipschitz(K, lam)
    mu_paper = paper.mu(found.min_W, beta_ball, everywhere)
    mu_corrected = sharp.mu(found.min_W, beta_ball, allowed)
    kappa = kappa_zero_sum(instance)
    eigenvalue = row_eigenvalue_at(instance) if floor is found.floor else floor.certified
    eps_ball = arb(2) / (100 * n) if eps is None else arb(as_positive("eps", eps))
    eta_paper = 1 / L_paper if eta is None else arb(as_positive("eta", eta))
    eta_corrected = BALL.over(arb(1), L_sharp) if eta is None else eta_paper
    product_floor = sharp.inner_product_floor(instance.allowed.sum(axis=1).tolist())
    return {
        "L_paper": L_paper,
        "L_sharp": L_sharp,
        "K": K,
        "K_lower": arb(norm.lower.lower()),
        "mu_paper": mu_paper,
        "mu_corrected": mu_corrected,
        "mu_operator": sharp.mu_by_operator(kappa, eigenvalue),
        "kappa_T": kappa,
        "row_eigenvalue": eigenvalue,
        "xi_paper": paper.xi_theorem(n, d, found.max_W, found.norm_X, lam, mu_paper),
        "xi_corrected": sharp.xi_confined(n, d, K, lam, mu_corrected),
        "xi_paper_lemma": paper.xi_lemma(n, d, found.max_W, found.norm_X, lam, mu_paper),
        "xi_global": sharp.xi_global(lam, -product_floor, mu_corrected),
        "T_paper": paper.iterations(start, eta_paper, mu_paper, eps_ball, n),
        "T_corrected": paper.iterations(start, eta_corrected, mu_corrected, eps_ball, n),
        "eps": eps_ball,
        "eta_paper": eta_paper,
        "eta_corrected": eta_corrected,
        "start_loss": start,
        "beta": beta_ball,
        "delta": everywhere,
        "delta_allowed": allowed,
        "dense_floor": found.dense_floor.allowed,
        "min_abs_W": found.min_W,
        "max_abs_W": found.max_W,
        "norm_X": found.norm_X,
        "norm_W": found.norm_W,
        "norm_M": found.norm_M,
        "R": found.radius,
        "lam": arb(lam),
        "lipschitz_F": sharp.lipschitz_attention(K),
        "lipschitz_F_paper": paper.lipschitz_attention(n, d, found.radius),
        "curvature_lower": sharp.lower_curvature(K, lam),
        "convexity_threshold": sharp.convexity_threshold(K),
        "linear_rate_threshold": rates.linear_rate_threshold(d, found.dense_floor.certified, len(instance.samples)),
        "vacuity_threshold": paper.vacuity_threshold(n, d, found.max_W, found.norm_X),
        "inner_product_floor": product_floor,
        "C_plus": sharp.C_plus(),
        "C_minus": sharp.C_minus(),
        "P_star": sharp.P_star(),
    }

"""Rates of gradient descent from M_0 = 1: the numbers in the guarantees that replace the theorem.

Every formula takes the arithmetic as an argument; in balls by default. L is any Lipschitz constant of grad L, as
`sharp.lipschitz`.
"""

from attnprune_verify.theory.formulas import sharp
from attnprune_verify.theory.formulas.formula import formula
from attnprune_verify.theory.numbers.arithmetic import BALL, Arithmetic, Number


@formula("lam d^2/2", "new:confinement_sharp", "new:confinement")
def start_loss(d: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """L(1), and so a bound of L_attn(M_t) + (lam/2) ||M_t||_F^2 for every iterate: for eta < 2/L the loss never rises.

    Examples
    --------
    >>> float(start_loss(4, 0.5))
    4.0
    """
    return lam * d * d / 2


@formula("lam d^2/(eta (2 - eta L) T)", "new:confinement_sharp")
def smallest_gradient(
    d: Number, lam: Number, eta: Number, L: Number, T: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """A bound of min_{t<T} ||grad L(M_t)||_F^2: each step lowers L by eta (1 - eta L/2) ||grad||^2, from lam d^2 / 2.

    Examples
    --------
    >>> float(smallest_gradient(2, 1.0, 0.5, 2.0, 4))
    2.0
    """
    return lam * d * d / (eta * (2 - eta * L) * T)


@formula("L/(lam r^2)", "new:gradient_norm", fraction="r")
def steps_to_gradient(L: Number, lam: Number, fraction: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Steps of size 1/L after which some ||grad L(M_t)||_F is at most `fraction` of lam d, its value at M = 1.

    `smallest_gradient` at eta = 1/L is (fraction lam d)^2 there.

    Examples
    --------
    >>> float(steps_to_gradient(2.0, 0.5, 0.5))
    16.0
    """
    return L / (lam * fraction * fraction)


@formula("f_min^2/(5 k d^2)", "new:linear_convergence", dense_floor="f_min")
def linear_rate_threshold(d: Number, dense_floor: Number, k: Number = 1, *, arithmetic: Arithmetic = BALL) -> Number:
    """lam up to which gradient descent from M = 1 converges linearly to the minimiser.

    For 0 < sqrt(lam) d <= f_min / sqrt(5), f_min the smallest allowed entry of F(1) in rows with two or more, the set
    ||c||_F <= f_min / sqrt(5) is convex, contains the sublevel set of M = 1, and L_attn is convex on it. No assumption
    on rank, beta or W. Over a batch of k the mean of ||c||^2 is at most lam d^2, so one sample's at most k times that.

    Examples
    --------
    >>> round(float(linear_rate_threshold(1, 0.5, 1)), 9)
    0.05
    """
    return dense_floor * dense_floor / (5 * k * d * d)


@formula("0 < lam <= threshold", "new:linear_convergence")
def converges_linearly(lam: Number, threshold: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """The hypothesis of new:linear_convergence, with `linear_rate_threshold`.

    Examples
    --------
    >>> converges_linearly(0.0, 0.1), converges_linearly(0.1, 0.1)
    (False, True)
    """
    return bool(lam > 0 and lam <= threshold)


@formula("lam/L", "new:linear_convergence")
def linear_rate(lam: Number, L: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """rate in L(M_t) - L* <= (1 - rate)^t lam d^2 / 2, for eta = 1/L.

    Examples
    --------
    >>> float(linear_rate(0.5, 2.0))
    0.25
    """
    return lam / L


@formula("lam > C_- K^2", "new:strongly_convex_descent")
def strongly_convex(K: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """Return True where L is certainly strongly convex on all of R^{d x d}.

    Examples
    --------
    >>> strongly_convex(1.0, 0.25), strongly_convex(1.0, 0.24)
    (True, False)
    """
    return bool(lam > sharp.convexity_threshold(K, arithmetic=arithmetic))


@formula("(lam - C_- K^2)/L", "new:strongly_convex_descent")
def strongly_convex_rate(K: Number, lam: Number, L: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """rate in L(M_t) - L* <= (1 - rate)^t (L(M_0) - L*) from any M_0, for eta = 1/L.

    Examples
    --------
    >>> float(strongly_convex_rate(0.0, 0.5, 2.0))
    0.25
    """
    return sharp.lower_curvature(K, lam, arithmetic=arithmetic) / L


@formula("(1 - rate)^t start", "new:linear_convergence", "new:strongly_convex_descent")
def gap(rate: Number, start: Number, t: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Bound of the gap after t steps at that rate from a gap `start`.

    Examples
    --------
    >>> float(gap(0.5, 4.0, 2))
    1.0
    """
    return arithmetic.power(1 - rate, t) * start


@formula("2 s < f_min", "new:PL_near_dense", largest_c="s", dense_floor="f_min")
def near_dense(dense_floor: Number, largest_c: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """The hypothesis of new:PL_near_dense, s = max|c_ij|.

    Examples
    --------
    >>> near_dense(0.5, 0.125), near_dense(0.5, 0.25)
    (True, False)
    """
    return bool(2 * largest_c < dense_floor)


@formula(
    "(1 - 2 s/f_min) kappa_+ (f_min - s)", "new:PL_near_dense", largest_c="s", dense_floor="f_min", kappa="kappa_+"
)
def pl_near_dense(kappa: Number, dense_floor: Number, largest_c: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """||G||_F over ||c||_F from below while s = max|c_ij| < f_min / 2 (`near_dense`).

    Survives n > d, where no global PL constant can exist. Proof, u = log(sigma/f), row by row: sum sigma_j c_j u_j >=
    ||c||^2 (1 - s/f_min) (logarithmic mean <= maximum) and KL(sigma, f) <sigma, c> <= ||c||^2 s/f_min (KL <= chi^2), so
    <J c, Pi A (M - 1)> >= (1 - 2 s/f_min) ||c||^2; and ||Pi A (M - 1)|| <= ||u|| <= ||c|| / (f_min - s).

    Examples
    --------
    >>> float(pl_near_dense(1.0, 0.5, 0.125))
    0.1875
    """
    return (1 - 2 * largest_c / dense_floor) * kappa * (dense_floor - largest_c)


@formula("f_min - sqrt(k lam) d", "new:path_floor", dense_floor="f_min")
def near_floor(d: Number, dense_floor: Number, lam: Number, k: Number = 1, *, arithmetic: Arithmetic = BALL) -> Number:
    """A floor of F over {L <= L(1)}, where every sample has ||c||_F <= sqrt(k lam) d; of use while it is positive.

    Examples
    --------
    >>> float(near_floor(2, 0.5, 0.01, 1))
    0.3
    """
    return dense_floor - arithmetic.sqrt(k * lam) * d


@formula("-2 d v - log(m)", "new:path_floor")
def far_floor_log(d: Number, m: Number, v: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Logarithm of a floor of F_ij over ||M||_F <= d: m allowed positions, v = max_j ||W * x_i x_j^T||_F.

    A difference of two logits of row i is at most ||M||_F ||W * x_i (x_k - x_j)^T||_F <= 2 d v (see fix:practical).

    Examples
    --------
    >>> round(float(far_floor_log(1, 1, 0.5)), 9)
    -1.0
    """
    return -2 * d * v - arithmetic.log(m)

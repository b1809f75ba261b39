"""Heavy ball, M_{t+1} = M_t - eta grad L(M_t) + theta (M_t - M_{t-1}): the steps for which it is proved, and where not.

L is any Lipschitz constant of grad L, theta the momentum (0.9 in the paper's experiments); it starts at rest,
M_{-1} = M_0. Every formula takes the arithmetic as an argument; in balls by default.
"""

from attnprune_verify.theory.formulas.formula import formula
from attnprune_verify.theory.numbers.arithmetic import BALL, Arithmetic, Number


@formula("2 (1 - theta)/L", "new:heavy_ball")
def longest_step(theta: Number, L: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Steps below it never raise L(M_t) + (theta/(2 eta)) ||M_t - M_{t-1}||^2; without momentum, 2/L.

    Examples
    --------
    >>> round(float(longest_step(0.9, 2.0)), 9)
    0.1
    """
    return 2 * (1 - theta) / L


@formula("theta/(2 eta)", "new:heavy_ball")
def energy_weight(theta: Number, eta: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Weight of ||M_t - M_{t-1}||^2 in the energy.

    Examples
    --------
    >>> float(energy_weight(0.5, 0.25))
    1.0
    """
    return theta / (2 * eta)


@formula("(1 - theta)/eta - L/2", "new:heavy_ball")
def energy_loss(theta: Number, eta: Number, L: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Factor of ||M_{t+1} - M_t||^2 in the energy's decrease in a step; a quadratic with curvature L attains it.

    Examples
    --------
    >>> float(energy_loss(0.5, 0.25, 2.0))
    1.0
    """
    return (1 - theta) / eta - L / 2


@formula("(1 + theta)^2 lam d^2/(eta (2 (1 - theta) - eta L) T)", "new:heavy_ball")
def smallest_gradient(
    d: Number, lam: Number, theta: Number, eta: Number, L: Number, T: Number, *, arithmetic: Arithmetic = BALL
) -> Number:
    """A bound of min_{t<T} ||grad L(M_t)||_F^2 from M_0 = 1; theta = 0 is `rates.smallest_gradient`.

    Examples
    --------
    >>> float(smallest_gradient(2, 1.0, 0.5, 0.25, 2.0, 9))
    8.0
    """
    return (1 + theta) ** 2 * lam * d**2 / (eta * (2 * (1 - theta) - eta * L) * T)


@formula("eta lam > 2 (1 + theta)", "new:heavy_ball_diverges")
def diverges(theta: Number, eta: Number, lam: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """Return True where the part of M that does not enter the attention certainly grows without bound.

    Examples
    --------
    >>> diverges(0.5, 0.5, 6.0), diverges(0.9, 0.1, 39.0)
    (False, True)
    """
    return bool(eta * lam > 2 * (1 + theta))


@formula("(x + 1 + theta + sqrt(x^2 + 2 x (1 + theta) + (1 - theta)^2))/2", "new:heavy_ball_diverges", excess="x")
def growth(excess: Number, theta: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """r: after t steps the part off the range of Pi A is at least r^t times as large, x = eta lam - 2 (1 + theta) > 0.

    The larger root of r^2 - (x + 1 + theta) r + theta; above 1 for x > 0.

    Examples
    --------
    >>> float(growth(0.0, 0.5)), float(growth(1.0, 0.0))
    (1.0, 2.0)
    """
    root = arithmetic.sqrt(excess**2 + 2 * excess * (1 + theta) + (1 - theta) ** 2)
    return (excess + 1 + theta + root) / 2

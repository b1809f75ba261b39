"""Reach of a Hessian: the numbers by which one evaluation at one M proves a stationary point nearby.

k is the largest norm of one row of Pi A, K = ||Pi A||, s the largest ||c_i|| of a row at the centre, g the gradient and
H the Hessian there, m its least eigenvalue on the range of Pi A. Every formula takes the arithmetic as an argument.
"""

from attnprune_verify.theory.formulas.formula import formula
from attnprune_verify.theory.numbers.arithmetic import BALL, Arithmetic, Number


@formula("(2/5) v^2", "new:row_third_bound")
def second_derivative(v: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """||d^2 softmax|| along a direction of norm v; its supremum is (sqrt 6/9) v^2 = 0.273 v^2.

    Examples
    --------
    >>> float(second_derivative(0.5))
    0.1
    """
    return 2 * v**2 / 5


@formula("(51/100) v^3", "new:row_third_bound")
def third_derivative(v: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """||d^3 softmax|| along a direction of norm v; two equal tokens have 1/2 v^3.

    Examples
    --------
    >>> float(third_derivative(1.0))
    0.51
    """
    return 51 * v**3 / 100


@formula("(3/5 + (51/100) s) v^3", "new:row_third_bound")
def third_derivative_row(s: Number, v: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """|phi'''| along a direction of norm v, phi = 1/2 ||softmax - f||^2 of one row with ||softmax - f|| = s.

    Examples
    --------
    >>> float(third_derivative_row(0.0, 1.0))
    0.6
    """
    return (arithmetic.lift(3) / 5 + 51 * s / 100) * v**3


@formula("(3/5 + (51/100) s) k K^2", "new:certified_stationary_point")
def hessian_slope(s: Number, k: Number, K: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """b: how fast Hess L moves at the centre, ||D^3 L|| <= max_i third_derivative_row ||(Pi A)_i|| ||Pi A||^2.

    Examples
    --------
    >>> float(hessian_slope(0.0, 1.0, 2.0))
    2.4
    """
    return (arithmetic.lift(3) / 5 + 51 * s / 100) * k * K**2


@formula("(51/200) k^2 K^2", "new:certified_stationary_point")
def hessian_bend(k: Number, K: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """a: ||c_i|| grows by at most k r/2 over a distance r, and so `hessian_slope` by at most a r.

    Examples
    --------
    >>> float(hessian_bend(1.0, 2.0))
    1.02
    """
    return 51 * k**2 * K**2 / 200


@formula("m/(b + sqrt(b^2 + 2 a m))", "new:certified_stationary_point")
def trusted_radius(m: Number, a: Number, b: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """R: over that distance the Hessian moves by at most (b + a R) R = m/2.

    Examples
    --------
    >>> float(trusted_radius(1.0, 4.0, 1.0))
    0.25
    """
    return m / (b + arithmetic.sqrt(b**2 + 2 * a * m))


@formula("4 N < m R^2", "new:certified_stationary_point")
def finds(N: Number, m: Number, R: Number, *, arithmetic: Arithmetic = BALL) -> bool:
    """Return True where N = <g, H^{-1} g> is certainly so small that a stationary point lies within R.

    Examples
    --------
    >>> finds(0.01, 1.0, 0.5), finds(0.0625, 1.0, 0.5)
    (True, False)
    """
    return bool(4 * N < m * R**2)


@formula("2 sqrt(N/m)", "new:certified_stationary_point")
def distance(N: Number, m: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Bound of the distance from the centre to the stationary point that `finds` proves.

    Examples
    --------
    >>> float(distance(0.01, 4.0))
    0.1
    """
    return 2 * arithmetic.sqrt(N / m)


@formula("2/(m/2 + L)", "new:certified_stationary_point")
def contracting_step(m: Number, L: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """eta of gradient descent on the ball, where m/2 I <= Hess <= L I.

    Examples
    --------
    >>> float(contracting_step(1.0, 1.5))
    1.0
    """
    return 2 / (m / 2 + L)


@formula("(L - m/2)/(L + m/2)", "new:certified_stationary_point")
def contraction(m: Number, L: Number, *, arithmetic: Arithmetic = BALL) -> Number:
    """Factor by which a step of `contracting_step` shrinks the distance on the range.

    Examples
    --------
    >>> float(contraction(1.0, 1.5))
    0.5
    """
    return (L - m / 2) / (L + m / 2)

"""Can both sides of the PL inequality be equal as formulas?

When every row of F(M) is uniform on its allowed positions, F(M) is rational and p = J c is linear in c. With lambda
= 0 both ||grad L||^2 and (mu/2) ||c||^2 are then quadratic forms in c with rational coefficients. Entries c_ij over
one row sum to 0, so a row is written in its first allowed entries, the last being minus their sum. If the
difference of the two forms is the zero form, both sides are equal whatever the (irrational) values of f are: the
corrected mu is attained, as for X = I, |W| = 1 and M = 0.
"""

from fractions import Fraction
from typing import Any

_LARGEST = 8  # chosen: at most (8 * 7)^2 pairs of free entries, each a product of 64 rationals


def difference_vanishes(instance: Any, z: Any, half_mu: Fraction) -> bool:
    """Report whether ||grad L||^2 - half_mu ||c||^2 is the zero form in the free entries of c."""
    n, d, X, W, mask = instance.n, instance.d, instance.X, instance.W, instance.mask
    if instance.lam != 0 or n > _LARGEST or d > _LARGEST or not _uniform(z):
        return False
    free = [(i, j) for i in range(n) for j in _columns(mask[i])[:-1]]
    residuals, gradients = [], []
    for i, j in free:
        row = [Fraction(0)] * n
        last = _columns(mask[i])[-1]
        row[j], row[last] = Fraction(1), Fraction(-1)
        residuals.append((i, row))
        gradients.append(_gradient_of_residual(i, row, X, W, mask))
    for s, (i, row) in enumerate(residuals):
        for t, (k, other) in enumerate(residuals):
            left = sum(gradients[s][a][b] * gradients[t][a][b] for a in range(d) for b in range(d))
            right = half_mu * sum(p * q for p, q in zip(row, other, strict=True)) if i == k else Fraction(0)
            if left != right:
                return False
    return True


def _gradient_of_residual(i: int, c: list[Fraction], X: Any, W: Any, mask: Any) -> list[list[Fraction]]:
    """dL/dM when only row i has the residual c: sum_j c_j dF_ij/dM_ab, with F_i uniform, by the quotient rule.

    F_ij = u_j / s with u_j = 1 and s = m, so along a direction with logit slopes k_j: dF_ij = (k_j m - sum_l k_l) /
    m^2.
    """
    d, columns = len(W), _columns(mask[i])
    m = len(columns)
    result = [[Fraction(0)] * d for _ in range(d)]
    for b in range(d):
        mass = sum(X[k][b] for k in columns)
        along = sum(c[j] * (X[j][b] * m - mass) for j in columns) / Fraction(m * m)
        for a in range(d):
            result[a][b] = W[a][b] * X[i][a] * along
    return result


def _uniform(z: Any) -> bool:
    """All allowed logits of every row are equal: relative to their maximum they are 0."""
    return all(value is None or value == 0 for row in z for value in row)


def _columns(allowed: list[bool]) -> list[int]:
    return [j for j, keep in enumerate(allowed) if keep]

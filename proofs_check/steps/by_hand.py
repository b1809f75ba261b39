"""Gaps of printed proofs that no rational instance shows, read by hand: a missing case, a wrong citation."""

BY_HAND: dict[str, tuple[tuple[str, str], ...]] = {
    "fac:mean_value": (
        (
            "last display",
            "the factor ||h(y) - h(x)||_2 is divided out, which g(Y) = g(X) forbids; that case is missing, and trivial",
        ),
    ),
    "lem:bound_basic_func": (
        (
            "part 9",
            "Parts 4 to 7 bound the entries of X only, and ||F_i||_2 <= 1 then gives sqrt(n) R^3; that F_i sums to 1,"
            " or ||X_{*,j1}||_2 <= R, is needed as well",
        ),
    ),
    "lem:lip_diag_f": (
        (
            "1st display, 1",
            "for the Lipschitz constant of f(M) lem:lip_f is cited, which has 2 d n R^3; the maximum lists 6 d n^{3/2}"
            " R^3, the constant of f o c; the maximum itself is the same",
        ),
    ),
}
"""By statement: the place in its proof, and what is missing or wrong there."""

"""Claims whose formula is shown as text alone, because it is not read back; the list may only shrink.

Their sentences have digests in the tests, like all others.
"""

from collections.abc import Mapping

REASONS: Mapping[str, tuple[str, ...]] = {
    "the printed text is the mistake: what is computed is how it differs from what is meant": (
        "alg:mask_gd-literal",
        "def:attn_prun-full",
        "eq:new_loss-literal",
        "exp:square_weights-Llama-3.2-1B",
    ),
    "a rule for whole matrices (entries set to 0 or 1, or a set of masks), compared place by place": (
        "def:mask-literal",
        "fix:attn_prun-literal",
        "fix:mask_gd-any",
    ),
    "derivatives of curves of any kind, of which the check takes polynomials; and the printed shapes": (
        "fac:calculus-literal",
        "fix:calculus-literal",
    ),
    "four bounds by one formula, for four choices of its a and b": ("new:K_rank_one-any",),
    "numbers of a program, each the best of several bounds; the theory's formulas of them are read with the theory": (
        "new:best_mask-any",
        "new:certified_stationary_point-any",
        "new:local_curvature-any",
    ),
    "certain in balls alone: a whole ball of masks, or a number that is 0 but for its rounding": (
        "new:kappa_vanishes-any",
        "new:spurious_minima-n>d",
    ),
    "about the place of a reference in the paper, not a quantity": ("exp:baselines_reference-literal",),
}
"""By the reason why they are not: claims by id and reading."""

UNREAD: frozenset[str] = frozenset(name for names in REASONS.values() for name in names)

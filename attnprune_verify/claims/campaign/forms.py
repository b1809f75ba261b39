"""Batched forms of statements whose own margin calls other code, or costs too much on many instances.

Each is as strong as the margin it stands for, up to what its docstring says, and a test compares the two on the same
instances. Every other statement is judged in lanes by its own margin, unchanged.
"""

from collections.abc import Mapping
from types import MappingProxyType

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, equal
from attnprune_verify.claims.core import Claim, Margin


def _gradient(q: Quantities) -> Relation:
    """<W o (X^T p X) + lam M, V> against the derivative of the literal loss along V, the instance's own direction.

    One dual number runs through the definition of the loss; nothing of the closed form is used there. A wrong closed
    form agrees only where its error is orthogonal to V, which no direction drawn from a density is.
    """
    closed = q.W * (q.X.T @ q.p @ q.X) + q.M * q.lam
    return equal(q.directional(q.V, lambda m: m.L_attn + q.lam * (m.M * m.M).sum() / 2), (closed * q.V).sum())


FORMS: Mapping[str, Margin] = MappingProxyType({"thm:mat_view_l": _gradient, "thm:mat_view_l_informal": _gradient})


def margin_of(claim: Claim) -> Margin:
    """Return the margin by which a campaign judges the claim: its batched form if there is one, else its own."""
    return FORMS.get(claim.id, claim.margin)

"""Template of a claim: copy this file, or an entry of one beside it, and name a new file in ``registry._MODULES``.

A statement of the paper carries its `\\label`; ours are `fix:` (beside what they repair) or `new:`. Evidence is found
by that id: a theorem listed in ``proofs_check/coq/theorems.json``, a certificate, or a proof under the heading of that
id in ``proofs_check/PROOFS.md``; ``python -m proofs_check.evidence`` renews the index. The judge must refute every
entry of `wrong`.
"""

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, at_most
from attnprune_verify.claims.cases.supply import Instances
from attnprune_verify.claims.core import Claim, Kind, Strength, Wrong
from attnprune_verify.claims.hypotheses import ANY_MASK


def _rows_are_short(q: Quantities, factor: float = 1.0) -> Relation:
    """The asserted relation, in any arithmetic: only + - * / @ and what `q` offers (q.sqrt, q.norm, q.largest)."""
    return at_most(q.norm(q.F), q.sqrt(q.number(float(q.n))) * q.number(factor))


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="new:template",
        kind=Kind.LEMMA,
        title="Short title",  # names it; no number, quantifier or condition, which are rendered
        section="E Bounds for Basic Functions",
        reading=ANY_MASK,  # which attention mask, which formula
        formula="||f(M)||_F <= sqrt(n)",  # read back on cases: other letters go into claims/formulas/letters.py
        strength=Strength.UPPER,  # TIGHT demands cases that attain it: attains=...
        margin=_rows_are_short,
        supply=Instances("any"),  # families, limits, a Hypothesis strategy; Arrays(...) or Fixed(...) where no instance
        hypotheses=(),  # predicate and generator in one; nothing meets them -> `vacuous`
        uses=("def:soft_prob_func",),  # ids; checked to exist and to be acyclic
        wrong=(Wrong("half of the bound", lambda q: _rows_are_short(q, 0.5)),),
        source="new",
    ),
)

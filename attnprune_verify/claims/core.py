"""A claim: a statement as data, with the hypotheses that it needs and the relation that it asserts.

A claim never says whether it is true. `judge` runs its margin on many cases and computes the verdict.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from numpy.random import Generator

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation, kind_of, scaled
from attnprune_verify.claims.cases.supply import Supply
from attnprune_verify.claims.excerpts import quotation


class Kind(Enum):
    """The environment a statement stands in."""

    DEFINITION = "definition"
    FACT = "fact"
    LEMMA = "lemma"
    THEOREM = "theorem"
    REMARK = "remark"
    ALGORITHM = "algorithm"
    EQUATION = "equation"
    EXPERIMENT = "experiment"


class Strength(Enum):
    """Strength of a statement. TIGHT: a bound that some instance or limit attains, which the judge then demands."""

    IDENTITY = "identity"
    UPPER = "upper"
    LOWER = "lower"
    TIGHT = "tight"


class Verdict(Enum):
    """Verdict on a statement, always computed from the checks that ran."""

    HOLDS = "holds"
    REFUTED = "refuted"
    MISSTATED = "misstated"
    """It has a meaning, which cannot be what is meant."""
    ILL_POSED = "ill-posed"
    """It has none."""
    NOT_REPRODUCED = "not-reproduced"
    """A sentence about an experiment, measured on other models, texts or draws and found otherwise."""
    VACUOUS = "vacuous"
    OPEN = "open"


class Proof(Enum):
    """Verdict on the printed proof, read from the evidence index."""

    SOUND = "sound"
    GAP = "gap"
    WRONG = "wrong"
    NONE = "none"


@dataclass(frozen=True)
class Reading:
    """One way to read a statement that leaves something open.

    `mask` restricts the attention mask of instances: "full", "causal", "any"; None where no instance is involved.
    """

    name: str
    says: str
    mask: str | None = None


@dataclass(frozen=True)
class Hypothesis:
    """A condition, as a predicate and as a generator of cases that satisfy it.

    `holds` gets the case's quantities in any arithmetic and answers True only when the condition certainly holds.
    """

    name: str
    holds: Callable[[Quantities], bool] = field(default=lambda q: True)
    """By default the margin decides it on the way, and raises `Unmet` with its name."""
    cases: Callable[[Generator], Iterable[Case]] = field(default=lambda rng: ())
    condition: str = ""
    """The path of the condition of `theory` it rests on, e.g. "conditions.in_box"."""
    limit: bool = False
    """Whether it limits what is checked, and not the statement: "d <= 3", where all masks can be compared."""


class Unmet(Exception):
    """Raised by a margin where a hypothesis of its claim does not hold; the message is its name.

    A case that is skipped in any other way is undecided, and a claim with such a case does not hold.
    """


Margin = Callable[[Quantities], Relation | Sequence[Relation]]
"""The asserted relation(s), evaluated on the quantities of one case."""


@dataclass(frozen=True)
class Wrong:
    """A neighbour of the statement that is false; the judge must refute it, or it could refute nothing."""

    says: str
    margin: Margin
    hypotheses: tuple[Hypothesis, ...] | None = None
    """Replaces the claim's hypotheses, where nothing meets them."""


@dataclass(frozen=True)
class Claim:
    """One statement under one reading.

    Attributes
    ----------
    id, kind, title, section, reading
        The paper's label (or `rem:`, `exp:`, `fix:`, `new:`), and where it stands.
    formula : str
        What is asserted, in the notation that `readback` reads.
    finding : str
        What was found beside the verdict, where the statement judged is not ours: shown after it.
    strength : Strength
    margin : callable
        ``quantities -> relation(s)``; runs unchanged in floats, exact fractions and balls.
    supply : Supply
        Where cases come from: named families, limits, random drafts.
    hypotheses : tuple of Hypothesis
    uses : tuple of str
        Ids this statement rests on; checked to exist and to be acyclic.
    defect : callable, optional
        Relations that, when all hold on every case, show that what is printed cannot be meant: it has no definite
        meaning, or (`has_meaning`) another one.
    attains : callable, optional
        For TIGHT: cases on which both sides agree, or nearly.
    conjecture : bool
        Nobody has a proof: a survived search leaves it `open`.
    """

    id: str
    kind: Kind
    title: str
    section: str
    reading: Reading
    formula: str
    strength: Strength
    margin: Margin
    supply: Supply
    says: str = ""
    """Words of a measured statement; `scope.sentence` renders the others."""
    hypotheses: tuple[Hypothesis, ...] = ()
    uses: tuple[str, ...] = ()
    wrong: tuple[Wrong, ...] = ()
    defect: Margin | None = None
    has_meaning: bool = False
    """Of a statement with a defect: whether it says something definite all the same."""
    attains: Callable[[], Iterable[Case]] | None = None
    free: tuple[str, ...] | None = None
    """Names of the arrays that local optimisation may move; None: those the supply names."""
    arithmetic: str = "float"
    """Where cases are first judged: "float" (balls confirm), "ball" or "exact"."""
    repaired_by: str | None = None
    repairs: str | None = None
    loose: frozenset[str] = frozenset()
    """Parts of a TIGHT statement that are bounds but not the best ones."""
    conjecture: bool = False
    beyond: Mapping[str, str] = field(default_factory=dict)
    """By part of the sentence that a formal proof of the rest does not cover: its grade, "by hand" or "measured"."""
    printed: bool = True
    """Whether the margin is what is printed; not so for a wrong neighbour."""
    finding: str = ""
    measured_on: str = ""
    """The end of `says` of a measured statement, which others share: what it was measured on."""
    source: str = "the paper"
    note: str = ""
    tags: frozenset[str] = field(default_factory=frozenset)
    """"existential": one certified instance proves it; "measured": cases come from experiments; "tautology": it
    restates a definition, and nothing could refute it; "every step": it is about every iterate of a descent, the start
    among them, and not about one that descent reaches."""

    @property
    def key(self) -> tuple[str, str]:
        """(id, reading), which is unique."""
        return self.id, self.reading.name

    @property
    def test_id(self) -> str:
        """``lem:PL_ineq-full``: how tests and stored attacks name the claim."""
        return f"{self.id}-{self.reading.name}"

    @property
    def own(self) -> bool:
        """True if the statement is ours (a repair or new), so that its failure is our failure."""
        return self.id.startswith(("fix:", "new:"))

    @property
    def group(self) -> str:
        """Whose it is: a statement of the "paper", a sentence of its "text", a "consequence" of it, or our "own"."""
        if self.own:
            return "own"
        if not self.id.startswith("exp:"):
            return "paper"
        return "text" if quotation(self.id) else "consequence"


def neighbour(claim: Claim, part: str, factor: float) -> Claim:
    """The claim with the bounding side of one part times `factor`: stronger below 1, weaker above."""

    def margin(q: Quantities) -> list[Relation]:
        return [scaled(one, factor) if kind_of(one.part) == part else one for one in relations(claim.margin, q)]

    return mutant(claim, Wrong(f"{part or 'the bound'} times {factor:g}", margin))


def mutant(claim: Claim, wrong: Wrong) -> Claim:
    """The claim with a wrong formula in place of its own."""
    kept = claim.hypotheses if wrong.hypotheses is None else wrong.hypotheses
    return replace(claim, margin=wrong.margin, hypotheses=kept, defect=None, conjecture=False, printed=False)


def relations(margin: Margin, quantities: Any) -> tuple[Relation, ...]:
    """The relations of a margin, always as a tuple."""
    found = margin(quantities)
    return (found,) if isinstance(found, Relation) else tuple(found)

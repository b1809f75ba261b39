"""Claims of a user's own file, judged like ours: formula read back, `uses` known, every wrong neighbour refuted."""

import importlib.util
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np

from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import Relation
from attnprune_verify.claims.core import Claim, Unmet, Verdict, mutant, relations
from attnprune_verify.claims.formulas.letters import COMMON, letters_of, names_of
from attnprune_verify.claims.formulas.notation import Unreadable
from attnprune_verify.claims.formulas.read_back import Printed, Scope
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import Judgement, judge_safely
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.theory.numbers.arithmetic import FLOAT, working_precision

_CASES = 16  # chosen: as many as the formulas of the paper's statements are read back on
_CLOSE = 1e-7  # chosen: the sides are computed in float64 along two ways
Pair = tuple[float, float]


def claims_of(path: str | Path) -> tuple[Claim, ...]:
    """The module-level CLAIMS of a Python file, which is run.

    Raises
    ------
    InvalidInstance
        If there is no such file, it raises, or CLAIMS is no sequence of claims with different ids and readings.
    """
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise InvalidInstance(f"FILE must be a Python file; got {str(path)!r}")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # of the user's code
        raise InvalidInstance(f"FILE must run; {path} raises {type(error).__name__}: {error}") from error
    given = getattr(module, "CLAIMS", ())
    found = tuple(given) if isinstance(given, Iterable) else ()
    if not found or not all(isinstance(claim, Claim) for claim in found):
        raise InvalidInstance(f"FILE must have CLAIMS, a sequence of Claim; got {given!r:.80}")
    if len({claim.test_id for claim in found}) < len(found):
        raise InvalidInstance("every claim of CLAIMS must have another id or reading")
    return found


def judge_own(claim: Claim, known: frozenset[str], effort: Effort) -> Judgement:
    """Judge a claim, which is `open` where its formula, its `uses` or its wrong neighbours are not in order."""
    found = judge_safely(claim, effort)
    if found.statement is Verdict.HOLDS and (reason := _unsupported(claim, known, effort)):
        found.statement, found.certified, found.reason = Verdict.OPEN, False, reason
    return found


def _unsupported(claim: Claim, known: frozenset[str], effort: Effort) -> str:
    """The first reason for which the verdict is not about the words; empty if there is none."""
    if unknown := sorted(set(claim.uses) - known):
        return f"uses must name known statements; {', '.join(unknown)} is none"
    if unlike := unlike_formula(claim):
        return f"what is printed is not what is computed: {unlike}"
    if not claim.wrong:
        return "wrong must have a false neighbour of the statement, or nothing shows that the judge can refute it"
    verdicts = {wrong.says: judge_safely(mutant(claim, wrong), effort).statement for wrong in claim.wrong}
    held = [says for says, verdict in verdicts.items() if verdict is not Verdict.REFUTED]
    return f"every wrong neighbour must be refuted; not refuted: {'; '.join(held)}" if held else ""


def unlike_formula(claim: Claim) -> str:
    """The first relation that is printed and not computed, or computed and not printed; empty if there is none."""
    try:
        return next(_unlike(claim), "")
    except (Unreadable, LookupError, ArithmeticError, ValueError, TypeError) as error:
        return f"the formula cannot be read back: {error}"


def _unlike(claim: Claim) -> Iterator[str]:
    rng = np.random.default_rng(0)
    drawn = chain(islice(claim.supply.families(rng), _CASES), claim.attains() if claim.attains else ())
    met = list(_met(claim, [Quantities(claim.supply.complete(case, rng), FLOAT) for case in drawn]))
    if not met:
        raise Unreadable("no case meets the hypotheses")
    letters = letters_of(claim.id)
    names = {*COMMON, *letters, *chain.from_iterable((*q.noted, *q.case.values) for q, _ in met)}
    text = Printed.of(claim.formula, names, names_of(claim.id))
    scopes = [Scope(q, letters, text.definitions) for q, _ in met]
    for link in text.conditions:
        if not all(a <= b * (1 + _CLOSE) + 1e-12 for scope in scopes for a, b in link.values(scope)):
            yield "a printed condition fails where the hypotheses hold"
    printed = [(link.relation, [link.values(scope) for scope in scopes]) for link in text.links]
    parts = {(part.kind.replace(">", "<").replace("==", "="), part.part) for _, found in met for part in found}
    computed = [
        (kind, [[both for relation in found if relation.part == part for both in _pairs(relation)] for _, found in met])
        for kind, part in sorted(parts)
    ]
    for name, here, there in (("printed", printed, computed), ("computed", computed, printed)):
        for kind, values in here:
            if not any(kind == theirs and _alike(values, sides) for theirs, sides in there):
                pair, missing = next((both for each in values for both in each), None), {"printed", "computed"} - {name}
                yield f"{kind} is {name}, with sides such as {pair}, and not {missing.pop()}"


def _met(claim: Claim, every: list[Quantities]) -> Iterator[tuple[Quantities, tuple[Relation, ...]]]:
    for q in every:
        with np.errstate(all="ignore"), working_precision():
            try:
                if all(hypothesis.holds(q) for hypothesis in claim.hypotheses):
                    yield q, relations(claim.margin, q)
            except Unmet:
                continue


def _pairs(relation: Relation) -> list[Pair]:
    small, large = (relation.rhs, relation.lhs) if relation.kind == ">=" else (relation.lhs, relation.rhs)
    both = np.broadcast_arrays(np.asarray(small, dtype=float), np.asarray(large, dtype=float))
    return list(zip(*(side.ravel().tolist() for side in both), strict=True))


def _alike(printed: list[list[Pair]], computed: list[list[Pair]]) -> bool:
    """Return True where all sides agree, up to a positive factor in common, or squared on both sides."""
    pairs = [(a, b) for here, there in zip(printed, computed, strict=True) for a, b in zip(here, there, strict=False)]
    if not pairs or any(len(here) != len(there) for here, there in zip(printed, computed, strict=True)):
        return False
    return any(
        all(_proportional(_squared(a, p), _squared(b, q)) for a, b in pairs)
        for p, q in ((False, False), (True, False), (False, True))
    )


def _squared(pair: Pair, square: bool) -> Pair:
    return (pair[0] * abs(pair[0]), pair[1] * abs(pair[1])) if square else pair


def _proportional(a: Pair, b: Pair) -> bool:
    if not any(a) or not any(b):
        return not any(a) and not any(b)
    left, right = a[0] * b[1], a[1] * b[0]
    return abs(left - right) <= _CLOSE * max(abs(left), abs(right)) and (a[1] or a[0]) * (b[1] or b[0]) > 0

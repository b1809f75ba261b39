"""The verdict of each statement, judged on first use, and whether everything that it rests on holds."""

from collections import deque
from collections.abc import Callable

from attnprune_verify.claims import registry
from attnprune_verify.claims.core import Claim, Verdict
from attnprune_verify.claims.judging.judge import Judgement


class Standing:
    """Judgements by claim, each made once; once one statement fails, those joined with it are not judged."""

    def __init__(self, judged: Callable[[Claim], Judgement]) -> None:
        self._judged = judged
        self._claims: dict[str, list[Claim]] = {}
        for claim in registry.claims():
            self._claims.setdefault(claim.id, []).append(claim)
        self._made: dict[str, Judgement] = {}

    def of(self, claim: Claim) -> Judgement:
        """The judgement of a claim."""
        if claim.test_id not in self._made:
            self._made[claim.test_id] = self._judged(claim)
        return self._made[claim.test_id]

    def ancestors_hold(self, claim: Claim) -> bool:
        """Return True where every statement that the claim rests on holds; those that it names itself are judged first.

        An ancestor counts under the same reading where it has it, else under all of its readings. A misstated or
        ill-posed one counts through its repair: it was printed wrongly, and the repair is what was used.
        """
        waiting, seen = deque(claim.uses), set[str]()
        while waiting:
            name = waiting.popleft()
            if name in seen:
                continue
            seen.add(name)
            every = self._claims.get(name, [])
            same = [one for one in every if one.reading.name == claim.reading.name] or every
            if not same or not all(self._stands(one) for one in same):
                return False
            waiting.extend(use for one in same for use in one.uses)
        return True

    def _stands(self, claim: Claim) -> bool:
        verdict = self.of(claim).statement
        if verdict in (Verdict.MISSTATED, Verdict.ILL_POSED) and claim.repaired_by is not None:
            repairs = self._claims.get(claim.repaired_by, [])
            return bool(repairs) and all(self.of(repair).statement is Verdict.HOLDS for repair in repairs)
        return verdict is Verdict.HOLDS

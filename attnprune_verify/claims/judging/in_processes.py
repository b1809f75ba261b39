"""Judging several statements at once, in processes: verdict, cases and numbers are those that one process computes."""

from collections.abc import Iterator, Sequence
from functools import partial

from attnprune_verify.claims import registry
from attnprune_verify.claims.core import Claim
from attnprune_verify.claims.judging.falsifier import QUICK, Effort
from attnprune_verify.claims.judging.judge import Judgement, judge_safely
from attnprune_verify.claims.judging.verdict_cache import in_words_of_json, judgement_in
from attnprune_verify.state.processes import unordered

_SHARE = 60
"""Statements with quick effort that are worth a process: it starts in as many processor seconds as 20 of them take.

1.0 s (imports and `registry.claims()`) against 47 ms (12.9 s for 273 statements), by `time.process_time`, one core.
"""


def worthwhile(count: int, effort: Effort, processes: int) -> int:
    """Return the number of processes worth starting for this number of statements; 1 means none beside this one.

    Examples
    --------
    >>> worthwhile(273, QUICK, 2), worthwhile(273, QUICK, 64), worthwhile(30, QUICK, 64)
    (2, 4, 1)
    """
    return max(1, min(processes, count, count * effort.examples // (_SHARE * QUICK.examples)))


def judgements(claims: Sequence[Claim], effort: Effort, processes: int) -> Iterator[Judgement]:
    """Judge the claims in processes, and yield each judgement as soon as it is made.

    The last ones, ours, take longest and start first, so that none of them is alone at the end. Relations come as the
    two numbers that are printed, like those of a verdict that was kept.
    """
    judged, last_first = partial(_judged, effort), claims[::-1]
    names = [claim.test_id for claim in last_first]
    for place, document in unordered(judged, names, worthwhile(len(names), effort, processes), importable=True):
        claim = last_first[place]
        yield judge_safely(claim, effort) if document is None else judgement_in(claim, document)


def _judged(effort: Effort, test_id: str) -> dict[str, object] | None:
    """Judge in a process; None where the judgement cannot leave it."""
    claim = next(claim for claim in registry.claims() if claim.test_id == test_id)
    try:
        return in_words_of_json(judge_safely(claim, effort))
    except TypeError:
        return None

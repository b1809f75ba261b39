"""Each question of the first checker is needed: switched off, some trap of the corpus notices.

``python -m tests.proofs_check.questions`` tries every trap and keeps those that notice. Here each question has one, or
stands in `ELSEWHERE` with its reason; a sample, drawn by the commit in CI, is switched off again.
"""

import hashlib
import json
import os

import pytest

from proofs_check.checker import judge_bytes
from proofs_check.corpus.parts import invalid
from tests.proofs_check.questions import TRAPS, Site, noticing, reason, sites

KEPT: dict[str, list[str]] = json.loads(TRAPS.read_text("utf-8"))
SITES = [*sites()]
_SAMPLE = 8  # chosen: so many questions take about a second

ELSEWHERE = {
    "document: raise GaveUp('not a regular file')": "test_hostile_files.py, a pipe",
    "document: raise GaveUp(f'cannot be read: {error.strerror}') from None": "test_hostile_files.py, no such file",
    "document: raise Reject(f'a certificate is at most {MAX_BYTES} bytes')": "test_hostile_files.py, too long",
    "pivots: raise GaveUp('the entries of X are too long for an exact LDL^T of this size')": "test_hostile_files.py",
    "statements.pl_inequality: raise GaveUp('the entries of X, W and M are too long for exact logits of this size')":
        "test_hostile_files.py",
    "pivots: gram_pivots _require_affordable(n, max(2 * longest + n.bit_length(), shifted))": "test_hostile_files.py",
    "pivots: ldl_pivots _require_affordable(n, max((entry.bit_length() for row in a for entry in row)))":
        "test_hostile_files.py",
    "statements.convergence: check_repaired b.require_affordable(last, data.n, len(data.sizes))":
        "five tokens of five classes would be needed; two other statements call it, and each has a trap",
    "interval: raise Reject('square root of a negative number')": "roots of sums of squares alone are taken",
    "logarithm: raise Reject('the logarithm of a number that is not positive is needed')": "of positive inputs alone",
    "statements.box_exit: ('||M_s||_F <= d for every s <= t', at_least(exact(d * d), bounds(data.norm_sq(M))))":
        "true of every descent with eta below 1/K (new:confinement)",
    "statements.convergence: (\"the proven Lipschitz constant is below the paper's\", at_least(bounds("
    "setting.paper_lipschitz(bits)), exact(setting.proven_lipschitz())))": "true of every R above both norms",
    "statements.misprints: raise Reject('L_attn(1) is not exactly 0')": "true of every instance",
    "statements.practical: ('lhs>rhs', less(exact(0), quartic))": "true of positive inputs",
    "statements.repaired: ('the floor is positive', less(exact(0), lowest))": "true of every finite instance",
    "statements.theory_prose: raise Reject('lambda_small must be below lambda_large, at most 1')":
        "both are the paper's numbers, which is asked before",
    "statements.thresholding: raise Reject(f'not true at rho = {rho}')": "true of every stable order",
}  # fmt: skip
"""Questions that no trap needs, each with the test that asks it or the reason that nothing can."""


def test_every_question_has_a_trap_or_a_reason() -> None:
    assert {site.name for site in SITES} == KEPT.keys(), "run python -m tests.proofs_check.questions"
    assert {name for name, traps in KEPT.items() if not traps} == ELSEWHERE.keys()


def test_every_trap_is_in_the_corpus() -> None:
    assert {f"{trap}.json" for traps in KEPT.values() for trap in traps} <= invalid().keys()


def unneeded(site: Site) -> list[str]:
    """Return the traps of a question that do not notice that it is switched off."""
    before = {trap: reason(judge_bytes, trap) for trap in KEPT[site.name]}
    return [trap for trap in before if trap not in noticing(site, before, len(before))]


def drawn(site: Site) -> str:
    """Return the place of a question in an order that ATTNPRUNE_DRAW draws, the commit in CI."""
    return hashlib.sha256(f"{os.environ.get('ATTNPRUNE_DRAW', '')} {site.name}".encode()).hexdigest()


ASKED = [site for site in SITES if KEPT.get(site.name)]
ALONE = [site for site in ASKED if [one.name for one in SITES].count(site.name) == 1]


def bounded(site: Site) -> bool:
    """Return True where a trap ends without the question: a limit of work that is gone would be waited for."""
    return "GaveUp" not in site.text and "affordable" not in site.text and not site.module.startswith("document")


@pytest.mark.parametrize("site", sorted(filter(bounded, ALONE), key=drawn)[:_SAMPLE], ids=lambda site: site.name[:80])
def test_a_question_of_the_sample_is_needed(site: Site) -> None:
    assert unneeded(site) == []


@pytest.mark.thorough
@pytest.mark.parametrize("site", [site for site in ALONE if bounded(site)], ids=lambda site: site.name[:80])
def test_every_question_is_needed(site: Site) -> None:
    assert unneeded(site) == []

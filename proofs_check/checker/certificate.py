"""The common part of every certificate: schema, hash of the paper, kind, producer; then the statement's own module."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proofs_check.checker import fields
from proofs_check.checker.document import parse_document, read_document
from proofs_check.checker.fields import Document
from proofs_check.checker.reject import GaveUp, Reject
from proofs_check.checker.statements import (
    best_mask,
    box_exit,
    convergence,
    experiment_prose,
    mask_gap,
    misprints,
    pl_inequality,
    practical,
    repaired,
    returned_mask,
    sharp_bounds,
    spurious_minimum,
    stationary_point,
    theory_prose,
    thresholding,
)
from proofs_check.checker.statements.comparison import check_among

SCHEMA = "attnprune-cert/1"
PAPER_SHA256 = "21d7f352cf0adbb5d7ec519f6cb72429e634623521a1d29561a73dc05ad80973"
KEYS = (
    "schema", "statement", "reading", "kind", "paper_sha256", "inputs", "hypotheses", "quantities", "claim", "producer",
)  # fmt: skip

CHECKS: dict[str, Callable[[Document], str]] = {
    "lem:PL_ineq": pl_inequality.check,
    "thm:our_convergence": convergence.check_refutation,
    "fix:our_convergence": convergence.check_repaired,
    "new:spurious_minima": spurious_minimum.check,
    "new:best_mask": best_mask.check,
    "new:certified_mask_gap": mask_gap.check,
    "new:descent_mask_far_from_best": returned_mask.check,
    "new:certified_stationary_point": stationary_point.check,
    "exp:mask_stays_in_box": box_exit.check,
    "thm:our_convergence:informal": practical.check_informal,
    "rem:practical": practical.check_remark,
    "fix:practical": repaired.check_floor,
    "fix:attn_prun": repaired.check_best_mask,
    "fix:new_loss": misprints.check_regulariser,
    **sharp_bounds.CHECKS,
    "alg:mask_gd": thresholding.check_printed,
    "fix:mask_gd": thresholding.check_repaired,
    **{
        statement: check_among(comparisons)
        for part in (theory_prose, experiment_prose, misprints)
        for statement, comparisons in part.COMPARISONS.items()
    },
}


@dataclass(frozen=True)
class CertificateVerdict:
    """ACCEPT, REJECT, or UNDECIDED where a limit of precision or work or a fault of the checker prevented one."""

    accepted: bool
    reason: str
    undecided: bool = False

    @property
    def word(self) -> str:
        return "ACCEPT" if self.accepted else "UNDECIDED" if self.undecided else "REJECT"


def judge_file(path: Path) -> CertificateVerdict:
    return _judge(lambda: check(read_document(path)))


def judge_bytes(content: bytes) -> CertificateVerdict:
    return _judge(lambda: check(parse_document(content)))


def _judge(verify: Callable[[], str]) -> CertificateVerdict:
    try:
        return CertificateVerdict(True, verify())
    except Reject as rejection:
        return CertificateVerdict(False, str(rejection), undecided=isinstance(rejection, GaveUp))
    except Exception as error:  # a fault of the checker must never pass as an acceptance
        return CertificateVerdict(False, f"the check broke down ({type(error).__name__})", undecided=True)


def check(document: Any) -> str:
    certificate = fields.closed(document, KEYS, "the certificate")
    if certificate["schema"] != SCHEMA:
        raise Reject(f"schema must be {SCHEMA!r}")
    statement = fields.choice(certificate["statement"], tuple(CHECKS), "statement")
    fields.choice(certificate["kind"], ("refutation", "confirmation"), "kind")
    if certificate["paper_sha256"] != PAPER_SHA256:
        raise Reject("paper_sha256 is not the hash of the paper these statements are taken from")
    producer = fields.closed(certificate["producer"], ("tool", "prec_bits"), "producer")
    fields.text(producer["tool"], "producer.tool")
    fields.integer(producer["prec_bits"], "producer.prec_bits", 0, 10**9)
    return f"{statement}: {CHECKS[statement](certificate)}"

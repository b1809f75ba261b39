"""The pages that commands write with ``--format html``, one of each kind, for `check_pages.mjs` to look at.

    python docs/_site/reports.py FOLDER

The graph of statements is judged with the least effort, and the audits are those of small subjects with mistakes and
without: what is looked at is the page, not the verdicts.
"""

import sys
from pathlib import Path

import numpy as np

import attnprune_verify as apv
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.report.audit_html import audit_html
from attnprune_verify.report.claims_html import render_page

__all__ = ["pages"]

KERNEL = """import numpy as np

def attention(q, k, v, *, causal=False, scale=None, mask=None):
    scores = np.einsum("bhnm,bhlm->bhnl", q, k)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhnl,bhlm->bhnm", weights / weights.sum(-1, keepdims=True), v)
"""


def pages(folder: Path) -> None:
    """Write them."""

    def upside_down(M, rho):  # type: ignore[no-untyped-def]  # a subject has no types
        return 1.0 - apv.binary_mask(M, rho)

    def raises(weight, rho):  # type: ignore[no-untyped-def]
        raise ValueError("a long explanation of what cannot be done here, " * 8)

    def transposed(M, X, W, lam=0.0, mask=None):  # type: ignore[no-untyped-def]
        return np.transpose(apv.gradient(M, X, W, lam, mask))

    folder.mkdir(parents=True, exist_ok=True)
    kernel = folder / "kernel.py"
    kernel.write_text(KERNEL, encoding="utf-8")
    wrong = {"gradient": transposed, "binary_mask": upside_down, "magnitude_mask": raises}
    written = {
        "claims": render_page(apv.run_claims(Effort(0, 0, 0, 0))),
        "audit-failed": audit_html(apv.run_audit(wrong)),
        "audit-passed": audit_html(apv.run_audit({"causal_mask": apv.causal_mask, "loss": apv.loss})),
        "audit-kernel": audit_html(run_kernel_audit(str(kernel))),
    }
    for name, page in written.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    pages(Path(sys.argv[1]))

"""`python -m proofs_check.evidence [--check]`: the index of all evidence, `evidence.json`.

Per statement: the accepted certificates with their hashes, what the replay of the printed proof found, the formal
theorems that `coq/theorems.json` lists, and whether `PROOFS.md` has a proof by hand. Everything is computed: a
certificate that the checker rejects, or a step that comes out otherwise than recorded, stops the command. The claims
read their proof verdict and their evidence here.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from proofs_check.checker import PAPER_SHA256, judge_file
from proofs_check.steps.record import FAILS
from proofs_check.steps.table import PROOFS, replay

HERE = Path(__file__).resolve().parent
INDEX = HERE / "evidence.json"

INFORMAL = {
    "lem:PL_ineq_informal": "lem:PL_ineq",
    "lem:lower_bound_XBX_informal": "lem:lower_bound_XBX",
    "lem:lower_bound_p_informal": "lem:lower_bound_p",
    "thm:mat_view_l_informal": "thm:mat_view_l",
    "thm:lip_grad_l_informal": "thm:lip_grad_l",
}
"""Restatements in the main text, whose proof is that of the formal version and whose hypotheses are no stronger."""

ALSO = {
    "practical-refutation-beta": {"exp:full_rank_tokens": "refutation", "exp:supports_theory": "refutation"},
    "practical-refutation-causal": {"exp:any_attention_mask": "refutation", "exp:supports_theory": "refutation"},
    "mask_gd-refutation-ascending-0": {"exp:exact_proportion": "refutation"},
    "mask_gd-refutation-constant": {"exp:exact_proportion": "refutation"},
    "our_convergence-refutation-from-ones": {"exp:near_optimal_mask": "refutation"},
    "our_convergence-refutation-from-zeros-causal": {"new:our_convergence_paper_mu_allowed": "confirmation"},
    "our_convergence-refutation-from-ones-causal": {"new:our_convergence_paper_mu_allowed": "confirmation"},
    "PL_ineq-refutation-causal": {"new:PL_ineq_paper_mu_allowed": "confirmation"},
    "PL_ineq-refutation-block-mask": {"new:PL_ineq_paper_mu_allowed": "confirmation"},
    "mask_stays_in_box-refutation": {"new:descent_leaves_box": "confirmation"},
    "lam_in_unit_interval-refutation-divergent-step": {"exp:divergent_step": "refutation"},
    **{f"supports_theory-refutation-n-{n}": {"exp:vacuous_guarantee": "refutation"} for n in (128, 256, 400, 512)},
}
"""Other statements that a certificate decides as well, and how: no M at all meets the guarantee, so no rounded M does,
and what refutes a statement of the paper confirms the one that says it fails.
"""

CORRECTED_MU = "2*(wmin*beta*delta)^2"


def certificates() -> dict[str, list[dict[str, Any]]]:
    """Accepted certificates by statement. Those with the corrected mu speak for fix:PL_ineq."""
    unknown = set(ALSO) - {path.stem for path in (HERE / "certificates").glob("*.json")}
    if unknown:
        raise SystemExit(f"no such certificate: {', '.join(sorted(unknown))}")
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((HERE / "certificates").glob("*.json")):
        verdict = judge_file(path)
        if not verdict.accepted:
            raise SystemExit(f"{path.name} is rejected: {verdict.reason}")
        content = path.read_bytes()
        document = json.loads(content)
        reading = document["reading"]
        statement = document["statement"]
        if statement == "lem:PL_ineq" and reading["mu"] == CORRECTED_MU:
            statement = "fix:PL_ineq"
        row = {
            "file": f"proofs_check/certificates/{path.name}",
            "sha256": hashlib.sha256(content).hexdigest(),
            "kind": document["kind"],
            "concerns": "proof" if reading.get("of") == "a line of the proof" else "statement",
            "reading": reading,
            "says": verdict.reason.removeprefix(f"{document['statement']}: "),
        }
        found.setdefault(statement, []).append(row)
        for decided, kind in ALSO.get(path.stem, {}).items():
            found.setdefault(decided, []).append(row | {"kind": kind})
    return found


def formal_theorems() -> dict[str, list[dict[str, Any]]]:
    """The Coq theorems by statement, as their index lists them; empty where there is no index."""
    index = HERE / "coq" / "theorems.json"
    found: dict[str, list[dict[str, Any]]] = {}
    for theorem in json.loads(index.read_text(encoding="utf-8")) if index.exists() else []:
        row = {
            "theorem": theorem["theorem"],
            "file": f"proofs_check/coq/{theorem['file']}",
            "reading": theorem["reading"],
            "supports": theorem["supports"],
            "axioms": theorem["axioms"],
        }
        for statement in theorem["statement_ids"]:
            found.setdefault(statement, []).append(row)
    return found


def written_proofs() -> set[str]:
    """The statements that the headings of PROOFS.md name."""
    text = (HERE / "PROOFS.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("### ")]
    return {name for line in headings for name in re.findall(r"(?:fix|new):\w+", line)}


def proofs(refuted: set[str]) -> dict[str, dict[str, Any]]:
    """The printed proofs.

    sound: every displayed step holds. gap: a displayed step fails, the statement stands. wrong: a step fails and
    the statement is refuted.
    """
    found = {}
    for slug in PROOFS:
        label, steps, as_recorded = replay(slug)
        if not as_recorded:
            raise SystemExit(f"{label}: the failing steps are not the recorded ones")
        failing = [step for step in steps if step.status == FAILS]
        verdict = "sound" if not failing else "wrong" if label in refuted else "gap"
        found[label] = {
            "proof": verdict,
            "file": f"proofs_check/steps/{slug}.py",
            "steps": len(steps),
            "failing": [{"step": step.label, "says": step.says, "witness": step.witness} for step in failing],
        }
    return found


def index() -> dict[str, Any]:
    """Everything, by statement."""
    certified, formal = certificates(), formal_theorems()
    refuted = {
        statement
        for statement, rows in certified.items()
        if any(row["kind"] == "refutation" and row["concerns"] == "statement" for row in rows)
    }
    replayed, by_hand = proofs(refuted), written_proofs()
    statements = {}
    for statement in sorted({*certified, *formal, *replayed, *INFORMAL, *by_hand}):
        source = INFORMAL.get(statement, statement)
        steps = replayed.get(source)
        statements[statement] = {
            "proof": steps["proof"] if steps else "none",
            "steps": {key: value for key, value in steps.items() if key != "proof"} if steps else None,
            "certificates": certified.get(source, []),
            "formal": formal.get(statement, []),
            "written": "proofs_check/PROOFS.md" if statement in by_hand else None,
        }
        if source != statement:
            statements[statement]["same_as"] = source
    return {"schema": "attnprune-evidence/1", "paper_sha256": PAPER_SHA256, "statements": statements}


def written() -> bytes:
    return (json.dumps(index(), indent=1, ensure_ascii=True) + "\n").encode()


def main(arguments: list[str]) -> int:
    content = written()
    if "--check" in arguments:
        same = INDEX.exists() and INDEX.read_bytes() == content
        print("evidence.json is up to date" if same else "evidence.json is stale: run python -m proofs_check.evidence")
        return 0 if same else 1
    temporary = INDEX.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(INDEX)
    print(f"{INDEX.name}: {len(json.loads(content)['statements'])} statements")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

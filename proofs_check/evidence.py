"""`python -m proofs_check.evidence [--check]`: the index of all evidence, which ships with the package.

For each statement it lists the accepted certificates with their hashes, the result of the printed proof's replay, the
formal theorems of `coq/theorems.json`, and whether `PROOFS.md` has a proof by hand. Everything is computed: a
certificate that the checker rejects, or a step that differs from the record, stops the command. The claims read their
proof verdict and their evidence from this index.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from proofs_check.checker import PAPER_SHA256, judge_file
from proofs_check.coq.pinned import formal_types
from proofs_check.steps.by_hand import BY_HAND
from proofs_check.steps.record import FAILS
from proofs_check.steps.table import PROOFS, replay

HERE = Path(__file__).resolve().parent
INDEX = HERE.parent / "attnprune_verify" / "claims" / "evidence_index.json"

INFORMAL = {
    "lem:PL_ineq_informal": "lem:PL_ineq",
    "lem:lower_bound_XBX_informal": "lem:lower_bound_XBX",
    "lem:lower_bound_p_informal": "lem:lower_bound_p",
    "thm:mat_view_l_informal": "thm:mat_view_l",
    "thm:lip_grad_l_informal": "thm:lip_grad_l",
}
"""Restatements in the main text, whose proof is that of the formal version and whose hypotheses are no stronger."""

ALSO = {
    "4cd4559f70653c19": {
        "exp:full_rank_tokens": "refutation",
        "exp:supports_theory": "refutation",
    },  # practical-refutation-beta
    "2bc728898e43cc4e": {
        "exp:any_attention_mask": "refutation",
        "exp:supports_theory": "refutation",
    },  # practical-refutation-causal
    "95bc3aa3b0c18078": {"exp:exact_proportion": "refutation"},  # mask_gd-refutation-constant-1
    "5b86c72706eb086f": {"exp:exact_proportion": "refutation"},  # mask_gd-refutation-constant
    "d73d5b3c70186957": {"exp:near_optimal_mask": "refutation"},  # our_convergence-refutation-from-ones
    "2ab8754329c47da4": {
        "new:our_convergence_paper_mu_allowed": "confirmation"
    },  # our_convergence-refutation-from-zeros-causal
    "a7cd64cb36dfc2d3": {
        "new:our_convergence_paper_mu_allowed": "confirmation"
    },  # our_convergence-refutation-from-ones-causal
    "8cc38b4945069608": {"new:PL_ineq_paper_mu_allowed": "confirmation"},  # PL_ineq-refutation-causal
    "73d683e601e48639": {"new:PL_ineq_paper_mu_allowed": "confirmation"},  # PL_ineq-refutation-block-mask
    "3e96582cdef502ec": {"new:descent_leaves_box": "confirmation"},  # mask_stays_in_box-refutation
    "109fc9901f7c4e6d": {"exp:divergent_step": "refutation"},  # lam_in_unit_interval-refutation-divergent-step
}
"""Other statements that a certificate decides as well, and how, by the first digits of the hash of its content: no M at
all meets the guarantee, so no rounded M does, and what refutes a statement of the paper confirms the one that says it
fails. A certificate that takes another's name takes nothing else over.
"""

SPEAKS_FOR = {"exp:supports_theory": "exp:vacuous_guarantee"}
"""A statement's certificates that another claim takes over: what they say of the size of the bound is that one's."""

LESS = {
    "exp:divergent_step": "says it of descent without momentum, the sentence of momentum 0.9",
    "exp:exp_is_computable": "has two tokens, the sentence data drawn by the recipe",
    "exp:full_rank_tokens": "has n = 3 and d = 2, the sentence n = 128 and d = 64",
    "exp:step_size": "compares 1/L with 1/lambda, the sentence eta with 2/L on drawn data",
    "exp:supports_theory": "has two or three tokens, the sentence n = 128",
    "exp:whole_model_ratio": "counts one way, the sentence four",
}
"""Statements whose certificates say less than the sentence does now, and how: they are evidence, and raise no grade."""

CORRECTED_MU = "2*(wmin*beta*delta)^2"


def certificates() -> dict[str, list[dict[str, Any]]]:
    """Accepted certificates by statement. Those with the corrected mu speak for fix:PL_ineq."""
    found: dict[str, list[dict[str, Any]]] = {}
    waiting = dict(ALSO)
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
            "part": "sharp" if _attains(document) else "whole",
            "concerns": "proof" if reading.get("of") == "a line of the proof" else "statement",
            "reading": reading,
            "says": verdict.reason.removeprefix(f"{document['statement']}: "),
        }
        stands_under = {SPEAKS_FOR.get(statement, statement): document["kind"]}
        for decided, kind in (stands_under | waiting.pop(row["sha256"][:16], {})).items():
            part = "less" if decided in LESS else row["part"]
            found.setdefault(decided, []).append(row | {"kind": kind, "part": part})
    if waiting:
        raise SystemExit(f"no certificate has the content {', '.join(sorted(waiting))} that decides other statements")
    return found


def _attains(document: dict[str, Any]) -> bool:
    """Return True where the instance attains a bound: the least loss equals the bound of a search that ended."""
    return bool(document["statement"] == "new:best_mask" and document["inputs"]["share"] == "1/1")


def formal_theorems() -> dict[str, list[dict[str, Any]]]:
    """The Coq theorems by statement: which part of it each proves, the proposition, and the hash of its type."""
    theorems = json.loads((HERE / "coq" / "theorems.json").read_text(encoding="utf-8"))
    types = formal_types(HERE / "coq", [(theorem["file"], theorem["theorem"]) for theorem in theorems])
    found: dict[str, list[dict[str, Any]]] = {}
    for theorem in theorems:
        row = {
            "theorem": theorem["theorem"],
            "file": f"proofs_check/coq/{theorem['file']}",
            "reading": theorem["reading"],
            "supports": theorem["supports"],
            "axioms": theorem["axioms"],
            **types[theorem["file"], theorem["theorem"]],
        }
        for statement, part in theorem["proves"].items():
            found.setdefault(statement, []).append(row | {"part": part})
    return found


def written_proofs() -> set[str]:
    """The statements that the headings of PROOFS.md name."""
    text = (HERE / "PROOFS.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("### ")]
    return {name for line in headings for name in re.findall(r"(?:fix|new):\w+", line)}


def proofs(refuted: set[str]) -> dict[str, dict[str, Any]]:
    """The printed proofs.

    sound: every displayed step holds. gap: a displayed step fails, or a reader found a case or a citation missing
    (`BY_HAND`), and the statement stands. wrong: a step fails and the statement is refuted.
    """
    found = {}
    for slug in PROOFS:
        label, steps, as_recorded = replay(slug)
        if not as_recorded:
            raise SystemExit(f"{label}: the failing steps are not the recorded ones")
        failing = [step for step in steps if step.status == FAILS]
        read = [
            {"step": place, "says": f"{says} (read by hand)", "witness": ""} for place, says in BY_HAND.get(label, ())
        ]
        verdict = "wrong" if failing and label in refuted else "gap" if failing or read else "sound"
        found[label] = {
            "proof": verdict,
            "file": f"proofs_check/steps/{slug}.py",
            "steps": len(steps),
            "failing": [{"step": step.label, "says": step.says, "witness": step.witness} for step in failing] + read,
        }
    return found


def index() -> dict[str, Any]:
    """Return the whole index, by statement."""
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
    """The index as JSON, one statement a line."""
    head = index()
    statements = [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in head.pop("statements").items()]
    rest = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    body = ",\n".join([*rest, ' "statements": {\n' + ",\n".join(statements) + "\n }"])
    return f"{{\n{body}\n}}\n".encode()


def main(arguments: list[str]) -> int:
    content = written()
    if "--check" in arguments:
        same = INDEX.exists() and INDEX.read_bytes() == content
        print(f"{INDEX.name} is " + ("up to date" if same else "stale: run python -m proofs_check.evidence"))
        return 0 if same else 1
    temporary = INDEX.with_suffix(".tmp")
    temporary.write_bytes(content)
    temporary.replace(INDEX)
    print(f"{INDEX.name}: {len(json.loads(content)['statements'])} statements")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""``python -m attnprune_verify.report.measurements``: what the experiments found, as the data the claims carry.

Claims and experiments stand on the same floor and do not see each other; this writes ``claims/measurements.json``
from the stored runs of the synthetic experiment and of the experiment on a real encoder, and a test compares the two.
"""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path
from typing import Any

from attnprune_verify import claims
from attnprune_verify.experiments.journal import write_whole
from attnprune_verify.experiments.stored import stored_results
from attnprune_verify.experiments.synthetic_statements import figure2_statements

__all__ = ["main", "measurements"]


def measurements() -> dict[str, Any]:
    """Per sentence: what it says, the criterion, the command that measures it, and one record per measured reading."""
    return _figure_two() | _real_layers()


def _figure_two() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for verdict in figure2_statements(stored_results()):
        entry = found.setdefault(
            verdict["id"],
            {
                "says": verdict["says"],
                "criterion": verdict["criterion"],
                "command": "attnprune-verify experiment synthetic",
                "data": "seeded synthetic data, not the authors' own",
                "records": [],
            },
        )
        entry["records"].append(
            {"verdict": verdict["verdict"], "reading": _reading(verdict), "numbers": verdict["numbers"]}
        )
    return found


def _real_layers() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in sorted((resources.files("attnprune_verify.experiments") / "evidence").iterdir(), key=lambda f: f.name):
        if not file.name.endswith(".json"):
            continue
        stored = json.loads(file.read_text(encoding="utf-8"))
        for statement in stored["statements"]:
            entry = found.setdefault(
                statement["id"],
                {
                    "says": statement["says"],
                    "criterion": statement["criterion"],
                    "command": stored["command"],
                    "data": "a pretrained sentence encoder and two disjoint sets of texts",
                    "records": [],
                },
            )
            entry["records"].append(
                {
                    "verdict": "agrees" if statement["holds"] else "disagrees",
                    "reading": statement["reading"],
                    "numbers": f"{statement['criterion']}: {statement['lhs']:.4g} <= {statement['rhs']:.4g}",
                }
            )
    return found


def _reading(verdict: dict[str, Any]) -> str:
    parts = [f"{verdict['weights']} weights", f"k = {verdict['k']}", verdict["reading"]]
    parts += [f"lam = {verdict['lam']:g}"] if verdict["lam"] is not None else []
    return ", ".join(part for part in (*parts, verdict["measure"], f"{verdict['seeds']} seeds") if part)


def main() -> int:
    """Write the data file of the claims."""
    target = Path(claims.__file__).with_name("measurements.json")
    content = json.dumps(measurements(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_whole(target, content.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())

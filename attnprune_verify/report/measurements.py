"""``python -m attnprune_verify.report.measurements``: what the experiments found, as the data the claims carry.

Claims and experiments stand on the same floor and do not see each other; this writes ``claims/measurements.json``
from the stored run of the synthetic experiment, and a test compares the two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from attnprune_verify import claims
from attnprune_verify.experiments.journal import write_whole
from attnprune_verify.experiments.stored import stored_results
from attnprune_verify.experiments.synthetic_statements import figure2_statements

__all__ = ["main", "measurements"]


def measurements() -> dict[str, Any]:
    """Per sentence about Figure 2: the sentence, the criterion, and one record per measured reading."""
    found: dict[str, Any] = {}
    for verdict in figure2_statements(stored_results()):
        entry = found.setdefault(
            verdict["id"], {"says": verdict["says"], "criterion": verdict["criterion"], "records": []}
        )
        entry["records"].append(
            {"verdict": verdict["verdict"], "reading": _reading(verdict), "numbers": verdict["numbers"]}
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

"""A certificate as a JSON document, written the same way every time."""

import json
from pathlib import Path
from typing import Any

PAPER = "21d7f352cf0adbb5d7ec519f6cb72429e634623521a1d29561a73dc05ad80973"
TOOL = "python-flint (Arb)"


def certificate(
    statement: str,
    kind: str,
    reading: dict[str, Any],
    inputs: dict[str, Any],
    hypotheses: dict[str, Any],
    quantities: dict[str, Any],
    relation: str,
    bits: int = 0,
) -> dict[str, Any]:
    """bits: Arb's precision; 0 when everything is exact rational arithmetic."""
    return {
        "schema": "attnprune-cert/1",
        "statement": statement,
        "reading": reading,
        "kind": kind,
        "paper_sha256": PAPER,
        "inputs": inputs,
        "hypotheses": hypotheses,
        "quantities": quantities,
        "claim": {"relation": relation},
        "producer": {"tool": TOOL if bits else "Python fractions", "prec_bits": bits},
    }


def written(document: dict[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=True) + "\n").encode()


def write(document: dict[str, Any], path: Path) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(written(document))
    temporary.replace(path)

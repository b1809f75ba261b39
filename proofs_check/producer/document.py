"""A certificate as a JSON document, written the same way every time."""

import json
from pathlib import Path
from typing import Any

PAPER = "21d7f352cf0adbb5d7ec519f6cb72429e634623521a1d29561a73dc05ad80973"
TOOL = "python-flint (Arb)"
Document = dict[str, Any]
"""A certificate as JSON has it."""


def certificate(
    statement: str,
    kind: str,
    reading: Document,
    inputs: Document,
    hypotheses: Document,
    quantities: Document,
    relation: str,
    bits: int = 0,
) -> Document:
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


def written(document: Document) -> bytes:
    """Return the file: a row of a matrix, an enclosure and a short object each stand on one line."""
    return (_laid_out(document, "\n") + "\n").encode()


def _laid_out(value: object, line: str) -> str:
    """Return JSON that breaks only containers of containers; `line` is the line break with the indent so far."""
    parts = value.values() if isinstance(value, dict) else value
    if not isinstance(value, dict | list) or not any(isinstance(part, dict | list) for part in parts):
        return json.dumps(value)
    deeper = line + " "
    if isinstance(value, list):
        return f"[{deeper}" + f",{deeper}".join(_laid_out(part, deeper) for part in value) + f"{line}]"
    pairs = (f"{json.dumps(key)}: {_laid_out(part, deeper)}" for key, part in value.items())
    return f"{{{deeper}" + f",{deeper}".join(pairs) + f"{line}}}"


def write(document: Document, path: Path) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(written(document))
    temporary.replace(path)

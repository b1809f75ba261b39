"""One trap: a file that must not be accepted, and how the others are made from valid certificates."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from proofs_check.__main__ import CERTIFICATES
from proofs_check.mutations import INPUTS_TOO, far, is_enclosure, open_enclosures

Document = dict[str, Any]
OPEN = ["-1" + "0" * 40, "1" + "0" * 40]
"""Holds every number."""
_EXACT = (  # where a quantity has to be one number
    "rem:practical", "fix:new_loss", "thm:our_convergence:informal", "new:spurious_minima", "exp:mask_stays_in_box",
)  # fmt: skip


@dataclass(frozen=True)
class Trap:
    name: str
    says: str
    """What is wrong with it."""
    content: bytes


def valid(name: str) -> Document:
    document: Document = json.loads((CERTIFICATES / f"{name}.json").read_text())
    return document


def written(document: Any) -> bytes:
    return (json.dumps(document, separators=(",", ":")) + "\n").encode()


def text(name: str) -> str:
    """A valid certificate as compact text, for traps in the text itself."""
    return written(valid(name)).decode()


def spoiled(name: str, says: str, base: str, change: Callable[[Document], Any]) -> Trap:
    """One change of a valid certificate, everything else left as it was."""
    document = valid(base)
    change(document)
    return Trap(name, says, written(document))


def opened(name: str, says: str, base: str, **inputs: Any) -> Trap:
    """Other inputs, with the true pivots and with enclosures that hold everything: only the trap is wrong.

    A name that ends in `_` stands for the input of that name (`lambda_`).
    """
    document = valid(base)
    document["inputs"] |= {key.rstrip("_"): value for key, value in inputs.items()}
    kept = {name: ends for name, ends in document["quantities"].items() if name in ("curvature", *INPUTS_TOO)}
    open_enclosures(document)
    document["quantities"] |= kept
    if document["statement"] not in _EXACT:
        for quantity, ends in document["quantities"].items():
            if is_enclosure(ends) and quantity not in INPUTS_TOO:
                document["quantities"][quantity] = [f"-{far(document)}", far(document)]
    return Trap(name, says, written(document))


def put(*path: Any, value: Any) -> Callable[[Document], None]:
    """A change: this value at this place."""

    def change(document: Document) -> None:
        target: Any = document
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = value

    return change

"""All mutants: the survivors of the first release (survivors.toml), our own (own.toml), later ones (planted.toml)."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.mutants.patching import Mutant

_FORMULA = "tests/claims/test_formulas.py::test_a_formula_is_what_its_claims_print[{}]"


def _read(tables: dict[str, Any]) -> Iterator[Mutant]:
    """A table is called ``file: id``; a formula has an operator, or a text and its substitute."""
    for path, change in tables.pop("formulas", {}).items():
        module, _, function = path.rpartition(".")
        how = {"place": f"{function} {change}"} if isinstance(change, str) else {"old": change[0], "new": change[1]}
        yield Mutant(f"formula:{path}", f"theory/formulas/{module}.py", _FORMULA.format(path), **how)
    for title, entry in tables.items():
        file, _, name = title.partition(": ")
        yield Mutant(name, file, **entry)


MUTANTS = [
    mutant
    for name in ("survivors", "own", "planted")
    for mutant in _read(tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8")))
]

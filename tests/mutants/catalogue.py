"""All mutants: the survivors of the first release (survivors.toml) and our own (own.toml)."""

import tomllib
from pathlib import Path

from tests.mutants.patching import Mutant

MUTANTS = [
    Mutant(**entry)
    for name in ("survivors", "own")
    for entry in tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))["mutant"]
]

"""All mutants: the survivors of the first release (survivors.toml), our own (own.toml), later ones (planted.toml)."""

import tomllib
from pathlib import Path

from tests.mutants.patching import Mutant

MUTANTS = [
    Mutant(**entry)
    for name in ("survivors", "own", "planted")
    for entry in tomllib.loads((Path(__file__).parent / f"{name}.toml").read_text("utf-8"))["mutant"]
]

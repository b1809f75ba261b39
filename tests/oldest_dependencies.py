"""Print pyproject.toml's lower bounds as exact versions, to be given to pip as constraints (see CONTRIBUTING.md)."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
exact = {re.sub(r"\[.*?\]", "", line).replace(">=", "==") for line in wanted}  # a constraint may not name extras
print("\n".join(sorted(exact)))

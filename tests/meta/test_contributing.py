"""The table of the house names the floors that the import contract enforces."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_house_has_the_floors_of_the_contract():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    floors = [set(layer.split(" | ")) for layer in contracts[0]["layers"]]
    table = (ROOT / "CONTRIBUTING.md").read_text().split("| floor |")[1].split("\n\n")[0]
    written = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in table.splitlines()[2:]]
    assert written == floors, "the table of CONTRIBUTING.md and the layers in pyproject.toml must name the same floors"

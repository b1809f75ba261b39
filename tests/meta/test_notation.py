"""NOTATION.md is a dictionary: every row leads to a name in a file and to a label of the paper."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LABELS = set((Path(__file__).parent / "paper_labels.txt").read_text(encoding="utf-8").split())


def rows():
    for line in (ROOT / "NOTATION.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if line.startswith("| ") and not cells[0].startswith("symbol"):
            yield pytest.param(cells, id=cells[1])


@pytest.mark.parametrize("cells", list(rows()))
def test_row_resolves(cells):
    ours = len(cells) == 4
    names, file = re.findall(r"`([^`]+)`", cells[1]), cells[3].strip("`")
    source = (ROOT / file).read_text(encoding="utf-8")
    assert names
    for name in names:
        assert re.search(rf"\b{re.escape(name)}\b", source), f"{name} is not in {file}"
    assert ours or cells[4] in LABELS, f"{cells[-1]} is no label of the paper"


def test_there_are_rows():
    assert len(list(rows())) > 25

"""Layout of the dependency graph: one band per section, each repair to the right of the statement it repairs."""

from collections.abc import Sequence
from dataclasses import dataclass

from attnprune_verify.claims.run import ClaimRecord

__all__ = ["Band", "COLUMNS", "GAP_X", "GAP_Y", "HEIGHT", "GraphLayout", "MARGIN", "GraphNode", "WIDTH", "arrange"]

WIDTH, HEIGHT = 236, 32  # pixels, chosen by looking at the page
COLUMNS, GAP_X, GAP_Y, MARGIN = 3, 30, 12, 34
"""Three columns fit a window of 1280 pixels beside the details; left and right of each is a gutter for lines."""
_TITLE, _BETWEEN = 38, 16  # pixels, chosen by looking at the page


@dataclass(frozen=True)
class GraphNode:
    """One statement with all its readings."""

    id: str
    records: tuple[ClaimRecord, ...]
    column: int
    y: int

    @property
    def x(self) -> int:
        """The left edge."""
        return MARGIN + self.column * (WIDTH + GAP_X)


@dataclass(frozen=True)
class Band:
    """One section of the paper."""

    title: str
    y: int
    height: int


@dataclass(frozen=True)
class GraphLayout:
    """Placed nodes and bands, and the size of the drawing."""

    nodes: tuple[GraphNode, ...]
    bands: tuple[Band, ...]
    width: int
    height: int


def arrange(records: Sequence[ClaimRecord]) -> GraphLayout:
    """Place every statement: sections from top to bottom, in a section the paper's order from left to right."""
    grouped: dict[str, list[ClaimRecord]] = {}
    for record in records:
        grouped.setdefault(record.claim.id, []).append(record)
    sections: dict[str, list[str]] = {}
    for record in sorted(records, key=lambda one: _section_rank(one.claim.section)):
        ids = sections.setdefault(_band_of(record), [])
        if record.claim.id not in ids:
            ids.append(record.claim.id)
    nodes: list[GraphNode] = []
    bands: list[Band] = []
    y = _BETWEEN
    for title, ids in sections.items():
        rows = _rows(ids, grouped)
        for row, names in enumerate(rows):
            top = y + _TITLE + row * (HEIGHT + GAP_Y)
            for column, name in enumerate(names):
                if name:
                    nodes.append(GraphNode(name, tuple(grouped[name]), column, top))
        height = _TITLE + len(rows) * (HEIGHT + GAP_Y)
        bands.append(Band(title, y, height))
        y += height + _BETWEEN
    return GraphLayout(tuple(nodes), tuple(bands), 2 * MARGIN + COLUMNS * (WIDTH + GAP_X) - GAP_X, y)


def _rows(ids: list[str], grouped: dict[str, list[ClaimRecord]]) -> list[list[str]]:
    """Rows of at most three; a statement and its repairs are never separated by a line break."""
    repairs: dict[str, list[str]] = {}
    for name in ids:
        target = grouped[name][0].claim.repairs
        if target in ids:
            repairs.setdefault(str(target), []).append(name)
    moved = {name for names in repairs.values() for name in names}
    rows: list[list[str]] = [[]]
    for name in ids:
        if name in moved:
            continue
        group = [name, *repairs.get(name, [])]
        if len(rows[-1]) + len(group) > COLUMNS and rows[-1]:
            rows.append([])
        for one in group:
            if len(rows[-1]) == COLUMNS:
                rows.append([])
            rows[-1].append(one)
    return rows


def _band_of(record: ClaimRecord) -> str:
    return "In the text (prose claims)" if record.claim.id.startswith("exp:") else record.claim.section


def _section_rank(section: str) -> tuple[int, str]:
    """Main text before the appendix, whose sections have letters."""
    return (0 if section[0].isdigit() else 1, section)

"""The lines of the dependency graph: they run in the gutters between columns and rows, so none crosses a label."""

import zlib

from attnprune_verify.report.claims_layout import GAP_X, GAP_Y, HEIGHT, MARGIN, WIDTH, GraphNode

_LANES = 7  # chosen: lines of one gap lie beside each other


def route(user: GraphNode, used: GraphNode) -> str:
    """The path of an SVG line from a statement to one it uses, along gutters only.

    Lines to the same statement share a lane.
    """
    lane = zlib.crc32(used.id.encode()) % _LANES - _LANES // 2
    start, end = user.y + HEIGHT // 2 + 2 * lane, used.y + HEIGHT // 2 + 2 * lane
    shared = sorted({user.column, user.column + 1} & {used.column, used.column + 1})
    if shared:
        gutter = shared[lane % len(shared)]
        return f"M{_side(user, gutter)} {start}H{_gutter(gutter) + 3 * lane}V{end}H{_side(used, gutter)}"
    right = used.column > user.column
    first, last = (user.column + 1, used.column) if right else (user.column, used.column + 1)
    gap = used.y - GAP_Y // 2 + lane
    return (
        f"M{_side(user, first)} {start}H{_gutter(first) + 3 * lane}V{gap}H{_gutter(last) + 3 * lane}"
        f"V{end}H{_side(used, last)}"
    )


def repair_route(broken: GraphNode, repair: GraphNode) -> str:
    """Route from a statement to its repair: straight to a neighbour in the row, else like any other line."""
    if broken.y == repair.y and repair.column == broken.column + 1:
        return f"M{broken.x + WIDTH} {broken.y + HEIGHT // 2}H{repair.x}"
    return route(broken, repair)


def _gutter(number: int) -> int:
    """The middle of the gutter left of column `number`."""
    return MARGIN + number * (WIDTH + GAP_X) - GAP_X // 2


def _side(node: GraphNode, gutter: int) -> int:
    """The edge of a node at a gutter beside it."""
    return node.x if gutter == node.column else node.x + WIDTH

"""The verdicts as one self-contained page: the dependency graph, drawn as SVG, and every statement behind its node.

No library, no font and no picture is loaded; the graph is there without JavaScript, which only shows the details.
"""

from __future__ import annotations

import json
from html import escape
from importlib import resources

from attnprune_verify.claims.run import ClaimsResult
from attnprune_verify.files import plain
from attnprune_verify.report.claims_layout import HEIGHT, WIDTH, Layout, Node, arrange
from attnprune_verify.report.claims_text import closing_sentence

__all__ = ["render_page"]

_ORDER = ("holds", "refuted", "ill-posed", "vacuous", "open")
_LETTERS = 27
"""Characters of an id that fit into a node."""


def render_page(result: ClaimsResult) -> str:
    """The page as text."""
    template = (resources.files("attnprune_verify.report") / "templates" / "claims.html").read_text(encoding="utf-8")
    parts = {
        "SUMMARY": escape(closing_sentence(result)),
        "LEGEND": _legend(result),
        "GRAPH": _graph(arrange(result.records)),
        "DATA": _embedded(result),
    }
    for name, content in parts.items():
        template = template.replace(f"@@{name}@@", content)
    return template


def _embedded(result: ClaimsResult) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(plain(result.as_dict()["claims"]), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c")


def _legend(result: ClaimsResult) -> str:
    counts = result.counts
    buttons = (
        f'<button type="button" data-verdict="{verdict}" aria-pressed="false"><i class="{verdict}"></i>'
        f"{verdict} {counts[verdict]}</button>"
        for verdict in _ORDER
        if counts[verdict]
    )
    return "\n".join(buttons)


def _graph(layout: Layout) -> str:
    place = {node.id: node for node in layout.nodes}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{layout.width}" height="{layout.height}" '
        f'viewBox="0 0 {layout.width} {layout.height}" role="group" aria-label="dependency graph of the statements">'
    ]
    for band in layout.bands:
        lines.append(
            f'<rect class="band" x="4" y="{band.y}" width="{layout.width - 8}" height="{band.height}" rx="8"/>'
            f'<text class="heading" x="16" y="{band.y + 22}">{escape(band.title)}</text>'
        )
    for node in layout.nodes:
        claim = node.records[0].claim
        used = dict.fromkeys(use for record in node.records for use in record.claim.uses)
        lines += [_edge(node, place[use]) for use in used if use in place]
        if claim.repairs in place:
            lines.append(_repair(place[str(claim.repairs)], node))
    lines += [_node(node) for node in layout.nodes]
    return "\n".join([*lines, "</svg>"])


def _edge(user: Node, used: Node) -> str:
    """A curve from the bottom or top of the user to the statement it uses."""
    down = used.y > user.y
    x1, y1 = user.x + WIDTH // 2, user.y + (HEIGHT if down else 0)
    x2, y2 = used.x + WIDTH // 2, used.y + (0 if down else HEIGHT)
    bend = max(18, abs(y2 - y1) // 3) * (1 if down else -1)
    if used.y == user.y:  # neighbours in a row: arch over the row
        y2, bend = used.y, -16
    path = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - (bend if used.y != user.y else -bend)} {x2} {y2}"
    return f'<path class="edge" data-from="{escape(user.id)}" data-to="{escape(used.id)}" d="{path}"/>'


def _repair(broken: Node, repair: Node) -> str:
    y1, y2 = broken.y + HEIGHT // 2, repair.y + HEIGHT // 2
    if y1 == y2:
        return f'<path class="repair" d="M{broken.x + WIDTH} {y1}H{repair.x}"/>'
    x1, x2 = broken.x + WIDTH // 2, repair.x + WIDTH // 2
    return f'<path class="repair" d="M{x1} {broken.y + HEIGHT}C{x1} {y2} {x2} {y1} {x2} {repair.y}"/>'


def _node(node: Node) -> str:
    """A box with one coloured part per reading; the check mark says that everything it rests on holds."""
    share = WIDTH / len(node.records)
    parts = [
        f'<rect class="{record.statement.value}" x="{node.x + index * share:.1f}" y="{node.y}" width="{share:.1f}" '
        f'height="{HEIGHT}"/>'
        for index, record in enumerate(node.records)
    ]
    label = node.id if len(node.id) <= _LETTERS else node.id[: _LETTERS - 1] + "…"
    if all(record.ancestors_hold for record in node.records):
        label = "✓ " + label
    verdicts = "; ".join(f"{record.claim.reading.name}: {record.statement.value}" for record in node.records)
    name = escape(f"{node.id}, {node.records[0].claim.title}. {verdicts}")
    clip = f"clip-{escape(node.id).replace(':', '-')}"
    return (
        f'<g class="node" data-id="{escape(node.id)}" tabindex="0" role="button" aria-label="{name}">'
        f"<title>{name}</title>"
        f'<clipPath id="{clip}"><rect x="{node.x}" y="{node.y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/></clipPath>'
        f'<g clip-path="url(#{clip})">{"".join(parts)}</g>'
        f'<rect class="frame" x="{node.x}" y="{node.y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f'<text x="{node.x + 8}" y="{node.y + 18}">{escape(label)}</text></g>'
    )

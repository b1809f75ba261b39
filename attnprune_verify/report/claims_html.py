"""The verdicts as one self-contained page: the dependency graph, drawn as SVG, and every statement behind its node.

No library, no font and no picture is loaded; the graph is there without JavaScript, which only shows the details.
"""

import json
import re
from html import escape
from importlib import resources

from attnprune_verify.claims.run import ClaimsResult
from attnprune_verify.files import plain
from attnprune_verify.report.claims_layout import HEIGHT, MARGIN, WIDTH, GraphLayout, GraphNode, arrange
from attnprune_verify.report.claims_routes import repair_route, route
from attnprune_verify.report.claims_text import closing_sentence

_ORDER = ("holds", "refuted", "misstated", "ill-posed", "not-reproduced", "vacuous", "open")
_LETTERS, _TITLE_LETTERS = 27, 29
"""Characters of an id, and of a section's title, that fit into the width of a node."""


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
    """Return JSON that cannot end the script element that contains it."""
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


def _graph(layout: GraphLayout) -> str:
    place = {node.id: node for node in layout.nodes}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'viewBox="0 0 {layout.width} {layout.height}" role="group" aria-label="dependency graph of the statements">'
    ]
    for band in layout.bands:
        lines.append(
            f'<rect class="band" x="4" y="{band.y}" width="{layout.width - 8}" height="{band.height}" rx="8"/>'
            f'<text class="heading" x="{MARGIN}" y="{band.y + 23}"{_squeezed(band.title)}>{escape(band.title)}</text>'
        )
    for node in layout.nodes:
        claim = node.records[0].claim
        used = dict.fromkeys(use for record in node.records for use in record.claim.uses)
        lines += [_edge(node, place[use]) for use in used if use in place]
        if claim.repairs in place:
            lines.append(f'<path class="repair" d="{repair_route(place[str(claim.repairs)], node)}"/>')
    lines += [_node(node) for node in layout.nodes]
    return "\n".join([*lines, "</svg>"])


def _edge(user: GraphNode, used: GraphNode) -> str:
    """A line from a statement to one it uses."""
    return f'<path class="edge" data-from="{escape(user.id)}" data-to="{escape(used.id)}" d="{route(user, used)}"/>'


def _node(node: GraphNode) -> str:
    """A box with one coloured part per reading; a check mark if everything it rests on holds."""
    share = WIDTH / len(node.records)
    parts = [
        f'<rect class="{record.statement.value}" x="{node.x + index * share:.1f}" y="{node.y}" width="{share:.1f}" '
        f'height="{HEIGHT}"/>'
        for index, record in enumerate(node.records)
    ]
    mark = ""
    if all(record.ancestors_hold for record in node.records):
        mark = f'<text class="mark" x="{node.x + 7}" y="{node.y + 20}" aria-hidden="true">✓</text>'
    verdicts = "; ".join(f"{record.claim.reading.name}: {record.statement.value}" for record in node.records)
    name = escape(f"{node.id}, {node.records[0].claim.title}. {verdicts}")
    clip = f"clip-{escape(node.id).replace(':', '-')}"
    return (
        f'<g class="node" data-id="{escape(node.id)}" tabindex="-1" role="button" aria-label="{name}">'
        f"<title>{name}</title>"
        f'<clipPath id="{clip}"><rect x="{node.x}" y="{node.y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/></clipPath>'
        f'<g clip-path="url(#{clip})">{"".join(parts)}</g>'
        f'<rect class="frame" x="{node.x}" y="{node.y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
        f"{mark}{_label(node)}</g>"
    )


def _label(node: GraphNode) -> str:
    """The id; a long one in two lines, broken at one of its joints. Nothing is cut."""
    x = node.x + 22
    if len(node.id) <= _LETTERS:
        return f'<text x="{x}" y="{node.y + 20}">{escape(node.id)}</text>'
    half = len(node.id) // 2
    joints = [found.end() for found in re.finditer(r"[-_:]", node.id)] or [half]
    at = min(joints, key=lambda joint: abs(joint - half))
    return (
        f'<text class="small"><tspan x="{x}" y="{node.y + 14}">{escape(node.id[:at])}</tspan>'
        f'<tspan x="{x}" y="{node.y + 26}">{escape(node.id[at:])}</tspan></text>'
    )


def _squeezed(title: str) -> str:
    """Titles stay above the first column: lines run right of it."""
    return f' textLength="{WIDTH - 4}" lengthAdjust="spacingAndGlyphs"' if len(title) > _TITLE_LETTERS else ""

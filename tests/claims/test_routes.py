"""No line of the graph of statements crosses a label: its geometry, without a browser."""

import re
from functools import cache

from attnprune_verify.claims import registry
from attnprune_verify.claims.evidence import weigh
from attnprune_verify.claims.judging.judge import Judgement
from attnprune_verify.claims.run import ClaimRecord, ClaimsResult
from attnprune_verify.report.claims_html import render_page
from attnprune_verify.report.claims_layout import HEIGHT, WIDTH, arrange
from attnprune_verify.report.claims_routes import repair_route, route


def segments(path):
    """Straight pieces (x1, y1, x2, y2) of a path of M, H and V."""
    x, y, found = 0, 0, []
    for letter, numbers in re.findall(r"([MHV])([-\d. ]+)", path):
        values = [float(number) for number in numbers.split()]
        nx, ny = (values[0], values[1]) if letter == "M" else (values[0], y) if letter == "H" else (x, values[0])
        if letter != "M":
            found.append((min(x, nx), min(y, ny), max(x, nx), max(y, ny)))
        x, y = nx, ny
    return found


def crosses(piece, box):
    """Return True where a piece runs through the inside of a box (x, y, width, height)."""
    x1, y1, x2, y2 = piece
    x, y, width, height = box
    return x1 < x + width and x2 > x and y1 < y + height and y2 > y


@cache
def every_statement():
    """All of them, not judged: where they stand does not depend on verdicts."""
    judgements = [Judgement(claim) for claim in registry.claims()]
    return ClaimsResult(tuple(ClaimRecord(one, weigh(one), True) for one in judgements))


def every_layout():
    return arrange(every_statement().records)


def test_no_line_crosses_a_label_or_a_title():
    layout = every_layout()
    place = {node.id: node for node in layout.nodes}
    boxes = [(node.x, node.y, WIDTH, HEIGHT) for node in layout.nodes]
    titles = [
        (place_x, band.y + 10, WIDTH, 16) for band in layout.bands for place_x in {min(n.x for n in layout.nodes)}
    ]
    lines = 0
    for node in layout.nodes:
        claim = node.records[0].claim
        paths = [route(node, place[use]) for use in claim.uses if use in place]
        paths += [repair_route(place[claim.repairs], node)] if claim.repairs in place else []
        for path in paths:
            for piece in segments(path):
                lines += 1
                assert not any(crosses(piece, box) for box in [*boxes, *titles]), (node.id, path)
    assert lines > 500


def test_a_straight_line_would_be_seen():
    layout = every_layout()
    first, last = layout.nodes[0], layout.nodes[-1]
    piece = (first.x + 5, first.y, first.x + 5, last.y)
    assert any(crosses(piece, (node.x, node.y, WIDTH, HEIGHT)) for node in layout.nodes[1:])


def test_the_drawing_fits_a_window_of_1280_pixels_beside_the_details():
    assert every_layout().width <= 1280 - 430


def test_every_id_is_written_out():
    page = render_page(every_statement())
    for record in every_statement().records:
        shown = re.search(rf'data-id="{re.escape(record.claim.id)}"[^>]*>(.*?)</g>\n', page, flags=re.DOTALL)[1]
        letters = re.sub(r"<title>.*?</title>|<text class=\"mark\".*?</text>|<[^>]*>", "", shown).strip()
        assert letters == record.claim.id
    assert "…</text>" not in page

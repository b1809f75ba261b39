"""The verdicts of ``attnprune-verify claims`` as text: grouped by section, one line each, coloured by verdict."""

from __future__ import annotations

from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnprune_verify.claims.run import ClaimRecord, ClaimsResult

__all__ = ["closing_sentence", "render_claims"]

STYLE = {"holds": "green", "refuted": "bold red", "ill-posed": "magenta", "vacuous": "yellow", "open": "cyan"}
_PROOF = {"sound": "green", "gap": "yellow", "wrong": "red", "none": "dim"}


def render_claims(result: ClaimsResult) -> Group:
    """Every statement, section by section, then the counts."""
    parts: list[RenderableType] = [Text("attnprune-verify claims", style="bold"), Text()]
    for heading, records in groupby(result.records, key=_heading):
        parts += [Text(heading, style="bold underline"), _table(list(records)), Text()]
    return Group(*parts, _counts(result), Text(closing_sentence(result), style="bold"))


def closing_sentence(result: ClaimsResult) -> str:
    """What to remember, in one sentence."""
    paper = [record for record in result.records if not record.claim.own]
    own = [record for record in result.records if record.claim.own]
    standing = sum(record.statement.value == "holds" for record in paper)
    ours = sum(record.statement.value == "holds" for record in own)
    return (
        f"{standing} of {len(paper)} statements of the paper hold as printed; {ours} of {len(own)} repaired or new"
        f" statements hold. Outcome: {result.outcome}."
    )


def _heading(record: ClaimRecord) -> str:
    group = record.claim.id.split(":")[0]
    named = {"exp": "In the text", "fix": "Repaired statements", "new": "New statements"}
    return named.get(group, record.claim.section)


def _table(records: list[ClaimRecord]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    longest = max(len(record.claim.id) + len(record.claim.reading.name) + 3 for record in records)
    for column, width in (("statement", 9), ("id", max(40, longest)), ("proof", 12), ("evidence", 9)):
        table.add_column(column, min_width=width, no_wrap=True)
    table.add_column("why", overflow="ellipsis", no_wrap=True)
    for record in records:
        verdict, proof = record.statement.value, record.evidence.proof.value
        table.add_row(
            Text(verdict, style=STYLE[verdict]),
            Text(f"{record.claim.id} ({record.claim.reading.name})"),
            Text("" if proof == "none" else f"proof {proof}", style=_PROOF[proof]),
            Text(record.evidence.grade, style="dim"),
            Text(record.claim.says),
        )
    return table


def _counts(result: ClaimsResult) -> Text:
    text = Text()
    for verdict, count in sorted(result.counts.items(), key=lambda item: -item[1]):
        text.append(f"{count} {verdict}   ", style=STYLE[verdict])
    return text

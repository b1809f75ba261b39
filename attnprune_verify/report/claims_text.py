"""The verdicts of ``attnprune-verify claims`` as text: grouped by section, one line each, coloured by verdict."""

from itertools import groupby

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from attnprune_verify.claims.formulas.scope import sentence
from attnprune_verify.claims.run import ClaimRecord, ClaimsResult

STYLE = {
    "holds": "green",
    "refuted": "bold red",
    "misstated": "magenta",
    "ill-posed": "magenta",
    "not-reproduced": "red",
    "vacuous": "yellow",
    "open": "cyan",
}
_SHORTEST = 9  # the width of the verdicts, "ill-posed", where no longer one is there
_LONGEST = 48  # characters of a name, after which the kind of evidence still fits into 80 columns beside such a verdict
_TAUTOLOGY = " It restates a definition: a tautology."
_PROOF = {"sound": "green", "gap": "yellow", "wrong": "red", "none": "dim"}


_COUNTED = {
    "paper": "statements of the paper",
    "text": "sentences of its text",
    "consequence": "consequences drawn from it",
    "own": "repaired or new statements",
}
_FEW = 4  # verdicts that a sentence lists


def render_claims(result: ClaimsResult) -> Group:
    """Every statement, section by section, then the counts."""
    parts: list[RenderableType] = [Text("attnprune-verify claims", style="bold"), Text()]
    for heading, records in groupby(sorted(result.records, key=_last), key=_heading):
        parts += [Text(heading, style="bold underline"), *_lines(list(records)), Text()]
    return Group(*parts, _counts(result), Text(closing_sentence(result), style="bold"))


def closing_sentence(result: ClaimsResult) -> str:
    """Return the report's last sentence: how many statements of each group hold, and the outcome.

    The word is "judged" where none of ours fails: the paper's statements are judged, they neither pass nor fail.
    """
    groups: dict[str, dict[str, bool]] = {"paper": {}, "text": {}, "consequence": {}, "own": {}}
    for record in result.records:
        id_, group = record.claim.id, groups[record.claim.group]
        group[id_] = group.get(id_, True) and record.statement.value == "holds"
    share = {name: f"{sum(group.values())} of {len(group)}" for name, group in groups.items() if group}
    outcome = "judged" if result.outcome == "passed" else result.outcome
    none = " and none fails" if groups["own"] and outcome == "judged" else ""
    if len(share) < len(groups):
        counted = "; ".join(f"{count} {_COUNTED[name]} hold{none * (name == 'own')}" for name, count in share.items())
        few = [f"{record.claim.id} ({record.claim.reading.name}) {record.statement.value}" for record in result.records]
        listed = f"{'; '.join(few)}. " if 0 < len(few) <= _FEW else ""
        return f"{counted or 'No statement was judged'}. {listed}Outcome: {outcome}."
    return (
        f"{share['paper']} statements of the paper hold under every reading, {share['text']} sentences of its text, and"
        f" {share['consequence']} consequences drawn from it; {share['own']} repaired or new statements hold{none}. "
        f"Outcome: {outcome}."
    )


def _last(record: ClaimRecord) -> int:
    """The order of the groups; within one that of the records."""
    return ("paper", "text", "consequence", "own").index(record.claim.group)


def _heading(record: ClaimRecord) -> str:
    group = record.claim.id.split(":")[0]
    text = "In the text" if record.claim.group == "text" else "Consequences of the text"
    named = {"exp": text, "fix": "Repaired statements", "new": "New statements"}
    return named.get(group, record.claim.section)


def _lines(records: list[ClaimRecord]) -> list[RenderableType]:
    """Verdict, name, proof and evidence of each record on a line, and below it, wrapped, its statement.

    Measured records come last, below a line with the data they were measured on; their sentences end with these data.
    """
    records = sorted(records, key=lambda record: record.claim.measured_on != "")
    names = [f"{record.claim.id} ({record.claim.reading.name})" for record in records]
    verdicts = max(_SHORTEST, *(len(record.statement.value) for record in records))
    width = min(max(map(len, names)), _LONGEST + _SHORTEST - verdicts)
    printed = [record.evidence.proof.value for record in records]
    proofs = max((len(proof) for proof in printed if proof != "none"), default=0)
    lines: list[RenderableType] = []
    where = ""
    for record, name in zip(records, names, strict=True):
        if record.claim.measured_on != where:
            where = record.claim.measured_on
            lines.append(Text(f"{where.removesuffix('.')}:", style="italic"))
        verdict, proof = record.statement.value, record.evidence.proof.value
        line = Text()
        line.append(f"{verdict:{verdicts}}  ", style=STYLE[verdict])
        line.append(f"{name:{width}}  ")
        if proofs:  # a section without proofs has no such column: its names are the longest, and 80 columns few
            line.append(f"{'' if proof == 'none' else 'proof ' + proof:{proofs + 6}}  ", style=_PROOF[proof])
        grades = record.evidence.parts
        grade = "by hand, " * ("by hand" in grades.values()) + record.evidence.grade
        line.append(grade if len(name) <= width else f"\n{'':11}{grade}", style="dim")
        says = sentence(record.claim).removesuffix(f" {where}") + (
            _TAUTOLOGY if "tautology" in record.claim.tags else ""
        )
        lines += [line, Padding(Text(says), (0, 0, 0, 11))]
        if record.evidence.sentence:
            parts = ", ".join(f"{part}: {grade}" for part, grade in record.evidence.sentence.items())
            lines.append(Padding(Text(f"Evidence: {parts}."), (0, 0, 0, 11)))
        if record.claim.finding:
            lines.append(Padding(Text(f"Found: {record.claim.finding}."), (0, 0, 0, 11)))
    return lines


def _counts(result: ClaimsResult) -> Text:
    text = Text()
    for verdict, count in sorted(result.counts.items(), key=lambda item: -item[1]):
        text.append(f"{count} {verdict}   ", style=STYLE[verdict])
    return text

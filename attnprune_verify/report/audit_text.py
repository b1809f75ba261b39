"""The result of ``attnprune-verify audit`` as text: the verdict, the mistakes with their snippets, the checks."""

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attnprune_verify.audit.result import AuditResult
from attnprune_verify.report.audit_findings import (
    Findings,
    accounted,
    closing_sentence,
    command_of,
    confined,
    findings,
    missing,
    power_of,
    present,
    shown_reason,
    unsettled,
)

_STYLE = {
    "passed": "green",
    "failed": "bold red",
    "incomplete": "yellow",
    "inconclusive": "yellow",
    "could_not_run": "yellow",
    "could_not_judge": "yellow",
    "waived": "cyan",
    "not_applicable": "dim",
}
_COLUMNS = ("passed", "failed", "inconclusive", "could_not_run", "could_not_judge", "waived", "not_applicable")
_SHORT = {
    "could_not_run": "not run", "could_not_judge": "not judged", "not_applicable": "n/a", "inconclusive": "undecided",
}  # fmt: skip


def render_audit(result: AuditResult) -> Group:
    """Return the result of `run_audit` as a rich renderable."""
    parts: list[RenderableType] = [_title(result), Text(closing_sentence(result), style=_STYLE[result.outcome])]
    if result.coverage.declare and result.outcome != "incomplete":
        parts.append(Text("\n".join(("What calls have shown, to declare in the module:", *result.coverage.declare))))
    for one in findings(result):
        parts.extend(_failure(one))
    parts += [Text()] if unsettled(result) else []
    parts += [_said(one) for one in unsettled(result)]
    parts += [Text(), _functions(result)]
    absent = missing(result)
    if absent:
        parts += [Text(), Text(f"Not in the target: {', '.join(absent)}.", style="dim")]
    return Group(*parts, Text(), Text(f"Confinement: {confined(result)}.", style="dim"))


def _title(result: AuditResult) -> Text:
    version = f", version {result.version}" if result.version else ""
    digest = f", sha256 {result.sha256[:12]}" if result.sha256 else ""
    rest = f" of {result.target}{version}{digest}, seed {result.seed}, {accounted(result)}"
    return Text.assemble((f"attnprune-verify {command_of(result)}", "bold"), rest)


def _failure(found: Findings) -> list[RenderableType]:
    """One mistake of one function: its name, the smallest instance that shows it, and code that does."""
    first = found.first
    count = len(found.records)
    title = f"failed {found.function}" if count > 1 else f"failed {first.id}"
    what = f"{count} checks: {found.checks()}" if count > 1 else first.says
    words = f" - {first.words}" if first.words else ""
    parts: list[RenderableType] = [
        Text(),
        Text.assemble((title, _STYLE["failed"]), f"  {what}"),
        _indented(f"diagnosis: {', '.join(first.diagnosis) or 'not searched'}{words}", "bold"),
        _indented(shown_reason(first)),
    ]
    return [*parts, *([_indented(first.snippet.rstrip(), "dim", 4)] if first.snippet else [])]


def _said(found: Findings) -> Text:
    first, count = found.first, len(found.records)
    label = first.status.replace("_", " ")
    more = f" ({count} checks: {found.checks()})" if count > 1 else ""
    return Text.assemble((f"{label} ", _STYLE[first.status]), (first.id, "bold"), f"  {first.reason}{more}")


def _functions(result: AuditResult) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("function", no_wrap=True)
    counts = result.counts()
    shown = [name for name in _COLUMNS if counts[name] or name in ("passed", "failed")]
    for name in shown:
        table.add_column(_SHORT.get(name, name), justify="right", no_wrap=True)
    table.add_column("sees errors above", justify="right", no_wrap=True)
    table.add_column("notes", overflow="fold")
    for function in present(result):
        records = [record for record in result.checks if record.function == function]
        cells = []
        for name in shown:
            count = sum(record.status == name for record in records)
            cells.append(Text(str(count), style=_STYLE[name]) if count else Text("-", style="dim"))
        power = power_of(records)
        table.add_row(function, *cells, "-" if power is None else f"{power:.1g}", result.notes.get(function, ""))
    return table


def _indented(text: str, style: str = "", left: int = 2) -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, left))

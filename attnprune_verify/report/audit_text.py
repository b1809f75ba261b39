"""The result of ``attnprune-verify audit`` as text: the verdict first, then what is wrong, then what was asked."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from attnprune_verify.audit.record import Record
from attnprune_verify.audit.run import AuditResult

__all__ = ["closing_sentence", "power_of", "render_audit"]

_STYLE = {
    "passed": "green",
    "failed": "bold red",
    "incomplete": "yellow",
    "inconclusive": "yellow",
    "could_not_run": "yellow",
    "waived": "cyan",
    "not_applicable": "dim",
}
_COLUMNS = ("passed", "failed", "inconclusive", "could_not_run", "waived", "not_applicable")
# Outcomes that are not wrong in the ordinary sense, said once.
_ALONE = {
    "batch-not-averaged": "Right for one sample; sums over batches, the contract averages. ",
    "low-precision": "Right in a lower precision: declare it with --dtype if that is what it promises. ",
}
_SHORT = {"could_not_run": "not run", "not_applicable": "n/a", "inconclusive": "undecided"}


def render_audit(result: AuditResult) -> Group:
    """Everything `run_audit` found, as a rich renderable."""
    parts: list[RenderableType] = [_title(result)]
    for function in result.functions:
        parts.extend(_troubles([record for record in result.checks if record.function == function]))
    parts += [Text(), _functions(result)]
    missing = [name for name in result.functions if name not in _present(result)]
    if missing:
        parts += [Text(), Text(f"Not in the target: {', '.join(missing)}.", style="dim")]
    return Group(*parts, Text(), Text(closing_sentence(result), style=_STYLE[result.outcome]))


def closing_sentence(result: AuditResult) -> str:
    """What to remember, in one sentence."""
    counts = result.counts()
    asked = sum(counts.values()) - counts["not_applicable"]
    if result.outcome == "failed":
        named = [f"{name} ({', '.join(ids)})" for name, ids in result.diagnosis.items()]
        alone = {id for ids in result.diagnosis.values() for id in ids}
        why = _ALONE.get(min(alone), "") if len(alone) == 1 else ""
        return f"Wrong: {'; '.join(named)}. {why}{counts['failed']} of {asked} checks failed. Outcome: failed."
    if result.outcome == "incomplete" and not any(counts[name] for name in ("passed", "could_not_run", "inconclusive")):
        return f"Nothing passed: {counts['waived']} checks were waived, the others do not apply. Outcome: incomplete."
    if result.outcome == "incomplete":
        return (
            f"Nothing wrong was found, but {counts['could_not_run']} checks could not run and "
            f"{counts['inconclusive']} were not decided. Outcome: incomplete."
        )
    waived = f", {counts['waived']} waived" if counts["waived"] else ""
    return (
        f"Right in every regime asked about{_where(result)}: {counts['passed']} of {asked} checks passed{waived}. "
        "Outcome: passed."
    )


def _where(result: AuditResult) -> str:
    """The declared precision, and the largest sizes judged: nothing is known beyond."""
    precision = f" in {result.dtype}" if result.dtype else ""
    if not result.largest:
        return precision
    n, d = (max(sizes) for sizes in zip(*result.largest.values(), strict=True))
    return f"{precision}, up to n = {n} and d = {d}"


def power_of(records: list[Record]) -> float | None:
    """The coarsest detection power of the passed benign checks: a larger relative error would have been noticed."""
    powers = [
        record.power for record in records if record.status == "passed" and record.required and record.power is not None
    ]
    return max(powers, default=None)


def _present(result: AuditResult) -> set[str]:
    return {record.function for record in result.checks if record.reason != f"the target has no {record.function}"}


def _title(result: AuditResult) -> Text:
    version = f", version {result.version}" if result.version else ""
    digest = f", sha256 {result.sha256[:12]}" if result.sha256 else ""
    return Text.assemble(
        ("attnprune-verify audit", "bold"), f"  {result.target}{version}{digest}, seed {result.seed}, "
        f"{len(result.checks)} of {result.expected_checks} checks accounted for",
    )  # fmt: skip


def _functions(result: AuditResult) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("function", no_wrap=True)
    counts = result.counts()
    shown = [name for name in _COLUMNS if counts[name] or name in ("passed", "failed")]
    for name in shown:
        table.add_column(_SHORT.get(name, name), justify="right", no_wrap=True)
    table.add_column("sees errors above", justify="right", no_wrap=True)
    table.add_column("notes", overflow="fold")
    for function in result.functions:
        records = [record for record in result.checks if record.function == function]
        if function not in _present(result) or not records:
            continue
        cells = []
        for name in shown:
            count = sum(record.status == name for record in records)
            cells.append(Text(str(count), style=_STYLE[name]) if count else Text("-", style="dim"))
        power = power_of(records)
        table.add_row(function, *cells, "-" if power is None else f"{power:.1g}", result.notes.get(function, ""))
    return table


def _troubles(records: list[Record]) -> list[RenderableType]:
    """The failures of one function, its first with the snippet, and what was not decided."""
    parts: list[RenderableType] = []
    failed = [record for record in records if record.status == "failed"]
    for index, record in enumerate(failed):
        names = ", ".join(record.diagnosis)
        parts += [Text(), Text.assemble(("failed ", _STYLE["failed"]), (record.id, "bold"), f"  {record.says}")]
        parts.append(_indented(f"diagnosis: {names}{f' - {record.words}' if record.words else ''}", "bold"))
        parts.append(_indented(record.reason))
        if index == 0 and record.snippet:
            parts.append(_indented(record.snippet.rstrip(), "dim", 4))
        if index == 4 and len(failed) > 6:
            rest = ", ".join(one.id.partition(":")[2] for one in failed[5:])
            parts += [Text(), Text.assemble(("failed ", _STYLE["failed"]), f"also {rest}")]
            break
    for record in records:
        if record.status in ("could_not_run", "inconclusive", "waived"):
            label = record.status.replace("_", " ")
            parts.append(Text.assemble((f"{label} ", _STYLE[record.status]), (record.id, "bold"), f"  {record.reason}"))
    return parts


def _indented(text: str, style: str = "", left: int = 2) -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, left))

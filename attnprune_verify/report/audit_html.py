"""The audit as one self-contained HTML page: no script, no network, readable in print."""

from html import escape

from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.report.audit_findings import (
    Findings,
    accounted,
    closing_sentence,
    confined,
    findings,
    missing,
    power_of,
    present,
    shown_reason,
    unsettled,
)

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1d2430; --block: #f4f5f7; --line: #d5dae1;
  --good: #1a7f37; --bad: #b42318; --unsure: #8a5a00; --quiet: #5f6672; }
@media (prefers-color-scheme: dark) { :root { --page: #12161c; --ink: #e4e8ee; --block: #1e252e; --line: #39424f;
  --good: #56d364; --bad: #ff8a80; --unsure: #e3b341; --quiet: #9ca3af; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; background: var(--page); color: var(--ink); }
main { max-width: 68rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3, code, td { overflow-wrap: anywhere; }
h3 { margin: 1.5rem 0 .3rem; font-size: 1.05rem; }
a { color: inherit; }
table { margin: .5rem 0 1.5rem; }
table { border-collapse: collapse; width: 100%; table-layout: fixed; }
th.check { width: 15rem; } th.verdict-of { width: 8rem; } th.number { width: 6rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; }
tr { border-bottom: 1px solid var(--line); }
td.number, th.number { text-align: right; white-space: nowrap; }
pre { overflow-x: auto; padding: .8rem; border-radius: .4rem; font-size: .85rem; }
pre { background: var(--block); }
code { font-size: .9em; }
summary { cursor: pointer; margin: .3rem 0; }
.facts { color: var(--quiet); font-size: .9rem; }
.status { font-weight: 600; white-space: nowrap; }
.passed { color: var(--good); } .failed { color: var(--bad); }
.inconclusive, .could_not_run, .could_not_judge, .incomplete { color: var(--unsure); }
.waived, .not_applicable { color: var(--quiet); }
.verdict { font-size: 1.15rem; padding: .8rem 1rem; border-left: .4rem solid; margin: 1rem 0; }
.verdict ul { margin: .4rem 0 0; padding-left: 1.2rem; font-size: 1rem; }
@media (max-width: 60rem) {
  thead { display: none; } table, tbody, tr, td { display: block; width: 100%; }
  tr { padding: .4rem 0; } td, td.number { text-align: left; padding: .1rem 0; } td:empty { display: none; }
  td.error::before { content: "error "; } td.bound::before { content: "allowed "; }
}
:target { background: var(--block); }
"""
_ORDER = ("failed", "could_not_judge", "could_not_run", "inconclusive", "waived")


def audit_html(result: AuditResult) -> str:
    """The whole report, findings first; everything that comes from the subject is escaped."""
    found, open_ = findings(result), unsettled(result)
    facts = {
        "version": result.version,
        "SHA-256": result.sha256,
        "seed": str(result.seed),
        "checks": accounted(result).replace(" checks", "", 1),
        "took": f"{sum(record.seconds for record in result.checks):.1f} s",
    }
    said = " · ".join(f"{name} <code>{escape(value)}</code>" for name, value in facts.items() if value)
    names = ", ".join(map(escape, missing(result)))
    absent = f'<p class="facts">Not in the target: {names}.</p>' if names else ""
    absent += f'<p class="facts">Confinement: {escape(confined(result))}.</p>'
    linked = "".join(f"<li>{_link(one)}</li>" for one in (*found, *open_))
    box = f"{escape(closing_sentence(result))}{f'<ul>{linked}</ul>' if linked else ''}"
    wrong = "".join(_finding(one) for one in found)
    checked = "".join(_section(result, name) for name in present(result))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>Audit of {escape(result.target)}: {result.outcome}</title><style>{_STYLE}</style></head>\n<body>\n"
        f"<main><h1>Audit of <code>{escape(result.target)}</code></h1>\n"
        f'<div class="verdict {result.outcome}">{box}</div>\n<p class="facts">{said}</p>\n'
        f"{'<h2>Mistakes</h2>' if wrong else ''}\n{wrong}\n"
        f"<h2>Checks</h2>\n{checked}{absent}</main>\n</body></html>\n"
    )


def _anchor(record: Record) -> str:
    return escape(record.id, quote=True)


def _link(found: Findings) -> str:
    first, count = found.first, len(found.records)
    what = ", ".join(first.diagnosis) or first.status.replace("_", " ")
    where = f"finding-{_anchor(first)}" if first.status == "failed" else _anchor(first)
    checks = "1 check" if count == 1 else f"{count} checks"
    return f'<a href="#{where}"><code>{escape(found.function)}</code>: {escape(what)}</a> ({checks})'


def _finding(found: Findings) -> str:
    first = found.first
    names = ", ".join(first.diagnosis)
    words = f"<p>{escape(first.words)}.</p>" if first.words else ""
    checks = ", ".join(f'<a href="#{_anchor(record)}">{escape(record.name)}</a>' for record in found.records)
    code = _code(first.snippet) if first.snippet else ""
    return (
        f'<section id="finding-{_anchor(first)}"><h3><code>{escape(found.function)}</code>: '
        f'<span class="failed">{escape(names)}</span></h3>\n{words}<p>{escape(shown_reason(first))}</p>\n'
        f"{code}<p>Failed: {checks}</p></section>\n"
    )


def _section(result: AuditResult, name: str) -> str:
    records = [record for record in result.checks if record.function == name]
    power = power_of(records)
    notes = [result.functions[name].says, result.notes.get(name, "")]
    seen = "any wrong entry" if power == 0 else f"a relative error above {power or 0:.1g}"
    notes.append("" if power is None else f"{seen} would have been seen")
    counts = {status: sum(one.status == status for one in records) for status in (*_ORDER, "passed", "not_applicable")}
    said = ", ".join(f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count)
    troubles = sorted((one for one in records if one.status in _ORDER), key=lambda one: _ORDER.index(one.status))
    rest = [one for one in records if one.status not in _ORDER]
    quiet = f"<details><summary>{len(rest)} without a finding</summary>{_table(rest)}</details>" if rest else ""
    return (
        f'<h3 id="{escape(name)}"><code>{escape(name)}</code> <small>{said}</small></h3>\n'
        f"<p>{escape('; '.join(note for note in notes if note))}.</p>\n{_table(troubles) if troubles else ''}{quiet}\n"
    )


def _table(records: list[Record]) -> str:
    heads = (
        '<th class="check">Check</th><th class="verdict-of">Verdict</th><th class="number">Error</th>'
        '<th class="number">Allowed</th><th>Finding</th>'
    )
    rows = "".join(_row(record) for record in records)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>\n"


def _row(record: Record) -> str:
    text = escape(record.reason)
    if record.diagnosis:
        names = ", ".join(f"<code>{escape(id)}</code>" for id in record.diagnosis)
        text = f"<strong>{names}</strong><br>{text}"
    if record.snippet:
        text += f"<details><summary>Run it</summary>{_code(record.snippet)}</details>"
    return (
        f'<tr id="{_anchor(record)}"><td>{escape(record.says)}<br><code>{escape(record.id)}</code></td>'
        f'<td class="status {record.status}">{record.status.replace("_", " ")}</td>'
        f'<td class="number error">{_number(record.error)}</td>'
        f'<td class="number bound">{_number(record.bound)}</td><td>{text}</td></tr>\n'
    )


def _code(snippet: str) -> str:
    """Return code in a box of its own, which scrolls if it is too narrow, also with the arrow keys."""
    return f'<pre tabindex="0">{escape(snippet)}</pre>'


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"

"""The audit as one self-contained HTML page: no script, no network, readable in print."""

from __future__ import annotations

from html import escape

from attnprune_verify.audit.record import Record
from attnprune_verify.audit.run import AuditResult
from attnprune_verify.report.audit_text import closing_sentence, power_of

__all__ = ["audit_html"]

_STYLE = """
:root { color-scheme: light dark; --good: #1a7f37; --bad: #b42318; --unsure: #8a5a00; --quiet: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --good: #56d364; --bad: #ff8a80; --unsure: #e3b341; --quiet: #9ca3af; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1.5rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; }
tr { border-bottom: 1px solid color-mix(in srgb, currentColor 18%, transparent); }
td.number { text-align: right; white-space: nowrap; }
pre { overflow-x: auto; padding: .8rem; border-radius: .4rem; font-size: .85rem; }
pre { background: color-mix(in srgb, currentColor 7%, transparent); }
code { font-size: .9em; }
.status { font-weight: 600; white-space: nowrap; }
.passed { color: var(--good); } .failed { color: var(--bad); }
.inconclusive, .could_not_run, .incomplete { color: var(--unsure); } .waived, .not_applicable { color: var(--quiet); }
.verdict { font-size: 1.15rem; padding: .8rem 1rem; border-left: .4rem solid; }
"""


def audit_html(result: AuditResult) -> str:
    """The whole report; everything that comes from the subject is escaped."""
    sections = [
        _section(
            name,
            result.functions[name].says,
            [record for record in result.checks if record.function == name],
            result.notes.get(name, ""),
        )
        for name in result.functions
    ]
    facts = {
        "Target": result.target,
        "Version": result.version or "not stated",
        "SHA-256": result.sha256 or "not known",
        "Seed": str(result.seed),
        "Checks": f"{len(result.checks)} of {result.expected_checks} expected",
        **{name.replace("_", " ").capitalize(): str(count) for name, count in result.counts().items()},
    }
    rows = "".join(
        f"<tr><th scope=row>{escape(k)}</th><td><code>{escape(v)}</code></td></tr>" for k, v in facts.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit of {escape(result.target)}: {result.outcome}</title><style>{_STYLE}</style></head>\n<body>\n"
        f"<h1>Audit of <code>{escape(result.target)}</code></h1>\n"
        f'<p class="verdict {result.outcome}">{escape(closing_sentence(result))}</p>\n'
        f"<table>{rows}</table>\n{''.join(sections)}</body></html>\n"
    )


def _section(name: str, says: str, records: list[Record], note: str) -> str:
    if not records or all(record.reason == f"the target has no {name}" for record in records):
        return ""
    power = power_of(records)
    seen = f" A relative error above {power:.1g} would have been seen." if power is not None else ""
    rows = "".join(_row(record) for record in records)
    return (
        f'<h2 id="{name}"><code>{name}</code></h2>\n<p>{escape(says)}. {escape(note)}{seen}</p>\n'
        f"<table><thead><tr><th>Check</th><th>Verdict</th><th>Error</th><th>Allowed</th><th>Finding</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>\n"
    )


def _row(record: Record) -> str:
    label = record.status.replace("_", " ")
    text = escape(record.reason)
    if record.diagnosis:
        names = ", ".join(f"<code>{escape(id)}</code>" for id in record.diagnosis)
        words = f" {escape(record.words)}." if record.words else ""
        text = f"<strong>{names}</strong>{words}<br>{text}"
    if record.snippet:
        text += f"<details><summary>Run it</summary><pre>{escape(record.snippet)}</pre></details>"
    return (
        f"<tr><td>{escape(record.says)}<br><code>{escape(record.id)}</code></td>"
        f'<td class="status {record.status}">{label}</td><td class="number">{_number(record.error)}</td>'
        f'<td class="number">{_number(record.bound)}</td><td>{text}</td></tr>\n'
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"

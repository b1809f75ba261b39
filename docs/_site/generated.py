"""Pages that nobody types: the reference, the claims with their verdicts, what was measured."""

import lzma
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import attnprune_verify

__all__ = ["anchor", "pages"]

ROOT = Path(__file__).resolve().parents[2]

GROUPS = {
    "functions": ("Reference functions", "What is judged everywhere else, in plain NumPy.", ("model",)),
    "instances": ("Instances and files", "A problem, and where it is kept.", ("instance", "errors", "pretrained")),
    "pruning": ("Pruning", "The descent, the baselines, layers, models.", ("algorithms", "pruning", "whole_model")),
    "judging": ("Judging", "The objects behind the commands.", ("check", "claims", "audit", "oracle", "triton")),
    "theory": ("Theory", "Assumptions and constants.", ("theory",)),
    "experiments": ("Experiments", "Plans, runs, tables and figures.", ("experiments",)),
}  # fmt: skip
"""Page, title, sentence, and the floors of the house whose public names it holds."""
BESIDE = {"interpreted": "attnprune_verify.triton"}
"""Public names that the package itself does not have, because they need another one."""


def pages() -> Iterator[tuple[str, str]]:
    """Every generated page: its path below docs/, and its text."""
    yield from _reference()
    yield "reference/command_line.md", _command_line()
    yield from _claims()
    yield "measured.md", _measured()
    yield "mistakes.md", _mistakes()
    yield "notation.md", _of_the_checkout("NOTATION.md")
    yield "contributing.md", _of_the_checkout("CONTRIBUTING.md")
    for name, folder in (("kill_matrix", "audit"), ("kernel_kill_matrix", "audit/kernel")):
        yield f"{name}.md", lzma.decompress((ROOT / "tests" / folder / "kill_matrix.md.xz").read_bytes()).decode()
    yield "changelog.md", _of_the_checkout("CHANGELOG.md")


def _reference() -> Iterator[tuple[str, str]]:
    homes = {**attnprune_verify._HOME, **BESIDE}
    told = set()
    for page, (title, sentence, floors) in GROUPS.items():
        names = [name for name, module in homes.items() if module.split(".")[1] in floors]
        told.update(names)
        # pages of classes show their attributes from the docstring
        entries = "\n\n".join(f"::: {homes[name]}.{name}" for name in sorted(names, key=str.lower))
        yield f"reference/{page}.md", f"# {title}\n\n{sentence}\n\n{entries}\n"
    if left := set(homes) - told:
        raise ValueError(
            f"no page of the reference has {', '.join(sorted(left))}: give its floor to a group in {__file__}"
        )


def _command_line() -> str:
    import click

    from attnprune_verify.cli.main import program

    parts = ["# Command line\n\nWhat `--help` prints, of every command. Exit codes: 0 passed, 1 failed, 2 wrong usage "
             "or invalid input, 3 incomplete, 130 interrupted.\n"]  # fmt: skip

    def tell(command: click.Command, words: list[str]) -> None:
        context = click.Context(command, info_name=" ".join(words), max_content_width=100, terminal_width=90)
        depth = "#" * min(len(words) + 1, 4)
        parts.append(f"{depth} {' '.join(words)}\n\n```text\n{command.get_help(context).rstrip()}\n```\n")
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                tell(below, [*words, name])

    tell(program, ["attnprune-verify"])
    return "\n".join(parts)


@cache
def judged() -> Any:
    """Every verdict, once; taken from the user's cache where this code has reached it before."""
    from attnprune_verify.claims.run import run_claims

    return run_claims(keep_verdicts=True)


def anchor(claim_id: str) -> str:
    """The id of a statement's heading."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", claim_id).lower()


def _section(record: Any) -> str:
    own = record.claim.id.partition(":")[0]
    names = {"fix": "repairs", "new": "new", "exp": "prose" if record.claim.group == "text" else "consequences"}
    return names.get(own, "paper")


_SECTIONS = {
    "paper": ("The paper's statements", "Definitions, facts, lemmas, theorems and the algorithm, as printed."),
    "prose": ("What the paper says in its text", "Sentences of the paper, quoted, each with its verdict."),
    "consequences": (
        "Consequences of the text",
        "Not sentences of the paper, but consequences of its text, its numbers and its tables.",
    ),
    "repairs": ("Repaired statements", "What takes the place of a statement that does not hold, or is not sharp."),
    "new": ("New statements", "Ours, not the paper's."),
}  # fmt: skip


def _claims() -> Iterator[tuple[str, str]]:
    result = judged()
    home = {record.claim.id: _section(record) for record in result.records}
    yield "claims/index.md", _overview(result, home)
    for section, (title, sentence) in _SECTIONS.items():
        records = [record for record in result.records if home[record.claim.id] == section]
        parts = [f"# {title}\n\n{sentence} [All statements](index.md).\n"]
        for id_ in dict.fromkeys(record.claim.id for record in records):
            parts.append(_statement([one for one in records if one.claim.id == id_], home))
        yield f"claims/{section}.md", "\n".join(parts)


def _overview(result: Any, home: dict[str, str]) -> str:
    from attnprune_verify.report.claims_text import closing_sentence

    lines = [
        "# Every statement, judged\n",
        f"{_text(closing_sentence(result))}\n",
        "`attnprune-verify claims` computed these verdicts while the site was built. [The graph of the statements]"
        "(../claims_graph.html) shows on which statements each one rests; [How a verdict is reached]"
        "(../explanation/verdicts.md) explains the words.\n",
    ]
    for section, (title, sentence) in _SECTIONS.items():
        lines.append(
            f"## {title}\n\n{sentence}\n\n| statement | reading | verdict | proof | evidence |\n|---|---|---|---|---|"
        )
        for record in result.records:
            claim = record.claim
            if home[claim.id] == section:
                link = f"[`{claim.id}`]({section}.md#{anchor(claim.id)}) {_text(claim.title)}"
                proof = "" if record.evidence.proof.value == "none" else record.evidence.proof.value
                cells = (link, _text(claim.reading.name), _coloured(record), proof, record.evidence.grade)
                lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _statement(records: list[Any], home: dict[str, str]) -> str:
    from attnprune_verify.claims.excerpts import quotation
    from attnprune_verify.claims.prior import known_or_new

    claim = records[0].claim

    def link(id_: str) -> str:
        return f"[`{id_}`]({home[id_]}.md#{anchor(id_)})"

    parts = [
        f"## {_text(claim.title)} {{ #{anchor(claim.id)} }}\n",
        f"`{claim.id}`, {claim.kind.value}, {_text(claim.section)}\n",
    ]
    for record in records:
        claim = record.claim
        proof = record.evidence.proof.value
        words = [_coloured(record), f"evidence {record.evidence.grade}"]
        words += [f"printed proof {proof}"] if proof != "none" else []
        parts.append(f"{', '.join(words)} (reading *{_text(claim.reading.name)}*: {_text(claim.reading.says)})\n")
        quoted = quotation(claim.id)
        if quoted is not None:
            parts.append(f"The paper: *{_text(quoted.text)}* (line {quoted.line} of its LaTeX).\n")
        judged = "Judged: " if claim.group in ("text", "consequence") else ""
        parts.append(f"{judged}{_stated(claim)}\n")
        parts.append(f"Found: {_text(claim.finding)}.\n" if claim.finding else "")
        noted = ". ".join(one[:1].upper() + one[1:] for one in record.note.split(". "))
        parts.append(f"{_text(noted)}.\n" if noted else "")
        graded = record.evidence.parts
        if len(set(graded.values())) > 1:
            parts.append(f"Parts: {', '.join(f'{part} {grade}' for part, grade in graded.items())}.\n")
        for one in record.evidence.theorems:
            parts.append(f"`{one['theorem']}` in Coq ({one['part']}):\n\n```text\n{one['type']}\n```\n")
        parts += [f"Known or new: {_text(line)}.\n" for line in known_or_new(claim)]
    claim = records[0].claim
    for word, ids in (
        ("Repaired by", [claim.repaired_by] if claim.repaired_by else []),
        ("Repairs", [claim.repairs] if claim.repairs in home else []),
        ("Rests on", [use for use in claim.uses if use in home]),
    ):
        if ids:
            parts.append(f"{word} {', '.join(link(id_) for id_ in ids)}.\n")
    files = dict.fromkeys(file for record in records for file in record.evidence.files)
    if files:
        parts.append("Evidence: " + ", ".join(f"`{file}`" for file in files) + ".\n")
    return "\n".join(parts)


def _coloured(record: Any) -> str:
    verdict = record.statement.value
    return f"**{verdict}**{{ .{verdict if verdict in ('holds', 'refuted') else 'short-of'} }}"


def _stated(claim: Any) -> str:
    """The statement, once: its cases and conditions, and the formula drawn; the text that programs read is folded."""
    from attnprune_verify.claims.formulas.latex import in_latex
    from attnprune_verify.claims.formulas.scope import sentence
    from attnprune_verify.claims.formulas.unread import UNREAD

    source = f"```text\n{claim.formula}\n```"
    formula = None if claim.test_id in UNREAD else in_latex(claim.formula, claim.id)
    if claim.says:
        return f"{_text(sentence(claim))}\n\n{source}"
    before, _, after = sentence(claim).partition(claim.formula)
    after = after.strip(", .")
    said = f"\n\n{after[:1].upper()}{after[1:]}." if after else ""
    if formula is None:
        return f"{_text(before)}\n\n{source}{said}"
    folded = f'<details markdown="1"><summary>As text</summary>\n\n{source}\n\n</details>'
    return f"{_text(before)}\n\n\\[{formula}\\]{said}\n\n{folded}"


def _measured() -> str:
    from attnprune_verify.experiments.stored.findings import measured

    parts = [
        "# Measured sentences\n",
        "Each sentence, when a measurement agrees with it, the command that measures, and what the stored runs say "
        "under each reading. `python -m attnprune_verify.experiments.stored check` does a sample of the runs again.\n",
    ]
    for id_, entry in measured().items():
        rows = "\n".join(
            f"| {_cell(one.verdict)} | {_cell(one.reading)} | {_cell(one.numbers)} |" for one in entry.findings
        )
        parts += [
            f"## {id_} {{ #{anchor(id_)} }}\n\n{_text(entry.says)}\n",
            f"*Agrees when* {_text(entry.criterion)}. On {_text('; '.join(entry.data))}.\n\n"
            + "```console\n"
            + "".join(f"$ {command}\n" for command in entry.commands)
            + "```\n",
            f"| measured | reading | numbers |\n|---|---|---|\n{rows}\n",
        ]
    return "\n".join(parts)


def _mistakes() -> str:
    from attnprune_verify.audit.mistakes import MISTAKES

    rows = [
        f"| `{id}` | {', '.join(mistake.subjects)} | {_cell(mistake.sentence)} | {_cell(mistake.detail)} |"
        for id, mistake in MISTAKES.items()
    ]
    lead = "Every id that `audit` or `audit-kernel` may report, where it is looked for, and what it means."
    heading = "| id | in | mistake | a report adds |\n|---|---|---|---|"
    return "\n".join([f"# Mistakes that audits name\n\n{lead}\n\n{heading}", *rows, ""])


def _of_the_checkout(name: str) -> str:
    """A page that stands at the top of the checkout; its links lead to the site's pages where there are any."""
    text = (ROOT / name).read_text(encoding="utf-8")

    def lead(found: re.Match[str]) -> str:
        words, target = found["words"], found["target"]
        if target.startswith(("http:", "https:", "#")):
            return found[0]
        if target.startswith("docs/"):
            return f"[{words}]({target.removeprefix('docs/')})"
        beside = {"NOTATION.md": "notation.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
        return f"[{words}]({beside[target]})" if target in beside else f"{words} (`{target}`)"

    return re.sub(r"\[(?P<words>[^\]]+)\]\((?P<target>[^)]+)\)", lead, text)


def _text(words: str) -> str:
    """Words that Markdown takes as they are."""
    escaped = re.sub(r"([\\`*_{}\[\]#])", r"\\\1", str(words))  # it shows the backslash before any other character
    return escaped.replace("<", "&lt;").replace("|", "&#124;").replace("$", "&#36;")


def _cell(words: Any) -> str:
    return _text(" ".join(str(words).split()))

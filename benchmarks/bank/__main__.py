"""Count the public bugs and the right programs that each rule of people fails.

    python -m benchmarks.bank [stored] [write] [--share 0/2]

judges what judged.jsonl does not hold yet (most of an hour of one core for everything; a program whose text has changed
is judged again), and prints the table; `write` writes docs/bank.md; with `stored` nothing is judged. A share judges
every second program only.
"""

import json
import sys
from pathlib import Path

from benchmarks.bank.calls import results
from benchmarks.bank.ours import fails
from benchmarks.bank.programs import Program, bugs, right_programs
from benchmarks.bank.rules import OURS, RULES

HERE = Path(__file__).parent
KEPT = HERE / "judged.jsonl"
PAGE = HERE.parents[1] / "docs" / "bank.md"
HEADINGS = ["rule", "bugs seen", "bugs it is asked of", "right programs failed"]
NAMES = [*(rule.name for rule in RULES), OURS]
Judged = dict[str, bool | None]


def judged(program: Program) -> Judged:
    """By rule: whether the program is failed; None where the rule asks nothing of it."""
    found = results(program)
    return {**{rule.name: rule.fails(found) for rule in RULES}, OURS: fails(program)}


def kept() -> dict[str, Judged]:
    """Read the stored judgements, by digest."""
    lines = KEPT.read_text(encoding="utf-8").splitlines() if KEPT.exists() else []
    return {one["digest"]: one["fails"] for one in map(json.loads, lines)}


def judge_the_rest(programs: list[Program]) -> None:
    """Judge those of the programs that are not stored, and store each at once."""
    for program in programs:
        if program.digest not in kept():
            line = {"id": program.id, "kind": program.kind, "digest": program.digest, "fails": judged(program)}
            with KEPT.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{program.kind} {program.id}", file=sys.stderr, flush=True)


def counted(rule: str, programs: list[Program]) -> tuple[int, int]:
    """Count the judged programs that a rule fails, and those of which it asks anything."""
    found = kept()
    said = [found[program.digest][rule] for program in programs if program.digest in found]
    return sum(one is True for one in said), sum(one is not None for one in said)


def table(wrong: list[Program], right: list[Program]) -> list[list[str]]:
    """Rows of rules: bugs seen, of how many it is asked, right programs failed."""
    rows, (_, all_of_them) = [], counted(OURS, wrong)
    for name in NAMES:
        (seen, asked), (failed, tried) = counted(name, wrong), counted(name, right)
        rows.append([name, f"{seen} of {all_of_them}", str(asked), f"{failed} of {tried}"])
    return rows


def marks(program: Program) -> list[str]:
    """What each rule says of a program."""
    said = kept().get(program.digest, {})
    return [{True: "x", False: "", None: "-"}[said[name]] if name in said else "?" for name in NAMES]


def page(wrong: list[Program], right: list[Program]) -> str:
    """The page of the bank."""
    short = [str(number) for number in range(1, len(NAMES) + 1)]
    tables = {
        "TABLE": [HEADINGS, *table(wrong, right)],
        "BUGS": [
            ["bug", "source", "date", "what went wrong", "format", *short],
            *([one.id, one.source, one.date or "?", one.cause, one.dtype, *marks(one)] for one in wrong),
        ],
        "RIGHT": [
            ["right program", "kind", "format", *short],
            *([one.id, one.kind, one.dtype, *marks(one)] for one in right),
        ],
    }
    text = (HERE / "page.md").read_text(encoding="utf-8")
    for name, (headings, *rows) in tables.items():
        lines = [headings, ["---"] * len(headings), *rows]
        text = text.replace(f"@{name}@", "\n".join(f"| {' | '.join(line)} |" for line in lines))
    for number, (_, seen, asked, failed) in enumerate(tables["TABLE"][1:], 1):
        for name, said in (("SEEN", seen.split()[0]), ("ASKED", asked), ("FAILED", failed)):
            text = text.replace(f"@{name}{number}@", said)
    rules = [f"{number}. {rule.name}: {rule.source}." for number, rule in enumerate(RULES, 1)]
    return text.replace("@RULES@", "\n".join(rules))


def main(arguments: list[str]) -> None:
    wrong, right = bugs(), right_programs()
    if "--share" in arguments:
        place, of = map(int, arguments[arguments.index("--share") + 1].split("/"))
        judge_the_rest([*wrong, *right][place::of])
        return
    if "stored" not in arguments:
        judge_the_rest([*wrong, *right])
    if "write" in arguments:
        known, lines = {one.digest for one in (*wrong, *right)}, KEPT.read_text(encoding="utf-8").splitlines()
        KEPT.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["digest"] in known), encoding="utf-8")
        PAGE.write_text(page(wrong, right), encoding="utf-8")
    rows = [HEADINGS, *table(wrong, right)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    missing = sum(program.digest not in kept() for program in (*wrong, *right))
    if missing:
        print(f"{missing} programs are not judged yet")


if __name__ == "__main__":
    main(sys.argv[1:])

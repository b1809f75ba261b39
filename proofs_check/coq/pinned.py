"""Pins of every definition and proposition of Trusted.v, as Coq prints it with all notations undone (types.txt).

Coq's output is long and made anew by ``make types.out``. types.txt keeps one line for each definition in it: its name,
the SHA-256 of what Coq prints, and the definitions of Trusted.v that this mentions. Nothing is stored of a theorem's
check: its type follows from its name and file. A statement's hash covers its line and that of every definition it rests
on, so that it changes with the meaning and not only with the text. Standard library only; Coq is not needed to read
types.txt.
"""

import hashlib
import re
from pathlib import Path

HALF = {"algebra": "Algebra", "analysis": "Analysis", "rounding": "Rounding"}
# of what type the check at the end of a proof file must be: the statements of Algebra hold for every R
CHECKED = {
    "algebra": "forall R : ssrnum.Num.RealClosedField.type, Trusted.Algebra.Statement.{} R",
    "analysis": "Trusted.Analysis.Statement.{}",
    "rounding": "Trusted.Rounding.Statement.{}",
}
SENTENCE = re.compile(r"\b(Module|Section|End|Definition|Fixpoint|Inductive)\s+(\w+)")
NAME = re.compile(r"\bTrusted\.((?:Algebra|Analysis|Rounding)(?:\.\w+)+)")


def declared(code: str) -> list[str]:
    """Return the qualified names that Trusted.v (without comments) declares, in order, such as Analysis.nsq."""
    names: list[str] = []
    around: list[tuple[str, str]] = []
    for word, name in SENTENCE.findall(code):
        if word in ("Module", "Section"):
            around.append((word, name))
        elif word == "End":
            around.pop()
        else:
            names.append(".".join([*(label for kind, label in around if kind == "Module"), name]))
    return names


def statement_of(file: str, theorem: str) -> str:
    """Return the qualified name of the proposition that a theorem must prove."""
    return f"{HALF[file.partition('/')[0]]}.Statement.{theorem}"


def module_of(file: str) -> str:
    return file.removesuffix(".v").replace("/", ".")


def types_source(names: list[str], theorems: list[tuple[str, str]]) -> str:
    """Return the Coq source whose output types.txt pins."""
    modules = sorted({module_of(file) for file, _ in theorems})
    lines = ["From AttnPrune Require Trusted.", *(f"From AttnPrune Require {module}." for module in modules)]
    lines += ["Set Printing All.", "Set Printing Width 118.", "Set Printing Depth 100000."]
    for name in names:
        lines += [f'Goal True. idtac "== {name}". Abort.', f"Print AttnPrune.Trusted.{name}."]
    for file, theorem in theorems:
        lines.append(f'Goal True. idtac "== {file} {theorem}". Abort.')
        lines.append(f"Check AttnPrune.{module_of(file)}.checked_{theorem}.")
    return "\n".join(lines) + "\n"


def blocks(text: str) -> dict[str, str]:
    """Return Coq's output by title, from a text whose parts begin with a line `== title`."""
    parts = re.split(r"^== ", text, flags=re.MULTILINE)[1:]
    return {title: body.strip() for title, _, body in (part.partition("\n") for part in parts)}


def pins(printed: dict[str, str]) -> dict[str, str]:
    """Return the line of each definition in Coq's output: a hash and what it mentions."""
    return {title: _pin(body, printed) for title, body in printed.items() if " " not in title}


def _pin(body: str, printed: dict[str, str]) -> str:
    mentioned = sorted({name for name in NAME.findall(body) if name in printed})
    return " ".join([hashlib.sha256(body.encode()).hexdigest(), *mentioned])


def pins_text(pinned: dict[str, str]) -> str:
    """Return the content of types.txt."""
    return "".join(f"{title} = {line}\n" for title, line in pinned.items())


def read_pins(root: Path) -> dict[str, str]:
    """Return the lines of types.txt by title."""
    lines = (root / "types.txt").read_text(encoding="utf-8").splitlines()
    return {title: line for title, _, line in (line.partition(" = ") for line in lines)}


def types_problems(pinned: dict[str, str], names: list[str], theorems: list[tuple[str, str]]) -> list[str]:
    """Return faults: missing or superfluous definitions, unproved statements, theorems without a statement."""
    problems = [f"types.txt has nothing about {name}" for name in names if name not in pinned]
    problems += [f"types.txt speaks of {name}, which does not exist" for name in pinned if name not in names]
    wanted = {statement_of(file, theorem) for file, theorem in theorems}
    asked = {name for name in names if ".Statement." in name}
    problems += [f"Trusted.v states {name}, and no theorem of the index proves it" for name in sorted(asked - wanted)]
    return problems + [f"Trusted.v does not state {name}" for name in sorted(wanted - asked)]


def check_problems(printed: dict[str, str], theorems: list[tuple[str, str]]) -> list[str]:
    """Return the theorems of which Coq prints no check against the proposition of their name."""
    problems = []
    for file, theorem in theorems:
        should = (
            f"{module_of(file).split('.')[-1]}.checked_{theorem} : {CHECKED[file.partition('/')[0]].format(theorem)}"
        )
        found = " ".join(printed.get(f"{file} {theorem}", "nothing").split())
        if found != should:
            problems.append(f"{file}: the check of {theorem} must print {should}; Coq prints {found}")
    return problems


def rests_on(pinned: dict[str, str], name: str) -> list[str]:
    """Return the statement and every definition of Trusted.v that its printed form mentions, directly or not."""
    reached, todo = set(), [name]
    while todo:
        one = todo.pop()
        if one not in reached:
            reached.add(one)
            todo += pinned[one].split()[1:]
    return sorted(reached)


def type_hash(pinned: dict[str, str], name: str) -> str:
    """Return the SHA-256 of the lines of the statement and of all that it rests on."""
    text = "".join(f"{one} = {pinned[one]}\n" for one in rests_on(pinned, name))
    return hashlib.sha256(text.encode()).hexdigest()


def statement_text(trusted: str, name: str) -> str:
    """Return the proposition as Trusted.v puts it, on one line."""
    half, _, theorem = name.split(".")
    part = trusted[trusted.index(f"\nModule {half}.") :]
    part = part[part.index("\nModule Statement.") :]
    found = re.search(rf"^Definition {theorem} :=\s*(.*?)\.$", part, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, name
    return " ".join(found.group(1).split())


def formal_types(root: Path, theorems: list[tuple[str, str]]) -> dict[tuple[str, str], dict[str, str]]:
    """Return (file, theorem) -> {"type": the proposition, "type_sha256": its hash}, for the index of the evidence."""
    pinned = read_pins(root)
    trusted = (root / "Trusted.v").read_text(encoding="utf-8")
    return {
        (file, theorem): {
            "type": statement_text(trusted, statement_of(file, theorem)),
            "type_sha256": type_hash(pinned, statement_of(file, theorem)),
        }
        for file, theorem in theorems
    }

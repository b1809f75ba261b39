"""Contents of the Coq sources, read without Coq: comments, declarations, and ways to assume instead of prove."""

import re
from pathlib import Path

LIBRARY = "AttnPrune"
TRUSTED = "Trusted.v"

DECLARATION = re.compile(r"\b(Theorem|Corollary|Lemma|Definition)\s+([A-Za-z_][A-Za-z0-9_']*)")
# Ways to leave a proof out, to assume instead of prove, or to switch a check of the kernel off.
FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Conjectures?|Parameters?|Primitive|Register|"
    r"bypass_check|Unset\s+(Guard|Positivity|Universe)\s+Check\w*|"
    r"Declare\s+(ML|Instance|Module)|Module\s+Type|Obligations?|Load|Redirect|Add\s+LoadPath)\b"
)
# What Trusted.v may not contain besides: everything that proves something, or makes one thing read like another.
FORBIDDEN_IN_TRUSTED = re.compile(
    r"\b(Theorem|Lemma|Corollary|Fact|Remark|Proposition|Example|Goal|Proof|Instance|Coercion|Canonical|"
    r"Hypothes[ie]s|Context|Let|CoInductive|Record|Structure|Class|Notation|Infix)\b"
)
# Sections and modules are counted only where a sentence begins, so that a name cannot pose as one.
BOUNDARY = re.compile(r"(?:\A|\.\s)\s*(Section|Module|End)\s+(\w+)|\b(Variables?|Hypothes[ie]s|Context)\b")
TOKEN = re.compile(r'\(\*|\*\)|"')
PROJECT_LINES = {f"-R . {LIBRARY}", "-arg -w", "-arg -notation-overridden,-ambiguous-paths"}


def without_comments(text: str) -> str:
    """The source without comments (which nest) and strings; line numbers are kept."""
    kept, depth, in_string, start = [], 0, False, 0
    for token in TOKEN.finditer(text):
        between = text[start : token.start()]
        kept.append("\n" * between.count("\n") + " " if depth or in_string else between)
        start = token.end()
        if token.group() == '"':
            in_string = not in_string
        elif not in_string:
            depth = depth + 1 if token.group() == "(*" else max(depth - 1, 0)
    kept.append(text[start:])
    return "".join(kept)


def code(root: Path, name: str) -> str:
    return without_comments((root / name).read_text(encoding="utf-8"))


def source_files(root: Path) -> list[str]:
    """The files named in _CoqProject, in the order of compilation."""
    lines = (root / "_CoqProject").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip().endswith(".v")]


def declarations(root: Path) -> dict[tuple[str, str], str]:
    """(file, name) -> keyword for every named statement and definition of the proof files."""
    found = {}
    for name in source_files(root):
        if name != TRUSTED and (root / name).is_file():
            found.update({(name, m.group(2)): m.group(1) for m in DECLARATION.finditer(code(root, name))})
    return found


def source_problems(root: Path) -> list[str]:
    """Sources that are not compiled, and words that would let a proof be left out."""
    lines = (root / "_CoqProject").read_text(encoding="utf-8").splitlines()
    problems = [
        f"_CoqProject: {line!r} is neither a source nor an option this project uses"
        for line in lines
        if line.strip() and not line.endswith(".v") and line not in PROJECT_LINES
    ]
    listed = source_files(root)
    found = {path.relative_to(root).as_posix() for path in root.glob("*/*.v")} | {TRUSTED}
    for name in sorted(found.symmetric_difference(listed)):
        problems.append(f"{name}: in _CoqProject or on disk, not in both")
    for name in sorted(found.intersection(listed)):
        problems += _forbidden(name, code(root, name))
    return problems


def _forbidden(name: str, text: str) -> list[str]:
    def at(position: int) -> str:
        return f"{name}:{text.count(chr(10), 0, position) + 1}"

    problems = [f"{at(m.start())}: {m.group(0)} is not allowed" for m in FORBIDDEN.finditer(text)]
    if name == TRUSTED:
        local = re.sub(r"\bLocal Notation (diag|sqrt)\b", "", text)  # two names, for what they are names of
        problems += [f"{name}: {m.group(0)} has no place there" for m in FORBIDDEN_IN_TRUSTED.finditer(local)]
    open_ones: list[tuple[str, str]] = []
    for match in BOUNDARY.finditer(text):
        word, label, assumption = match.groups()
        if word == "End":
            open_ones = open_ones[:-1]
        elif word:
            open_ones.append((word, label))
        elif not any(kind == "Section" for kind, _ in open_ones):
            problems.append(f"{at(match.start(3))}: {assumption} outside a section is an axiom")
    return problems

"""Compare the Coq development with its index ``theorems.json``.

No entry of the index can name a theorem that does not exist, no theorem can be missing from
it, no source can leave a proof out, and no theorem can rest on more than the axioms the
index gives for it.  Standard library only; Coq is not needed: what Coq says about the
axioms is read from ``assumptions.txt``, which ``make`` compares with a fresh compilation.

    python3 check_index.py                 check everything, exit 1 and say why if it fails
    python3 check_index.py --sources-only  the sources and the index, not assumptions.txt
"""

import argparse
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIBRARY = "AttnPrune"

# What the standard library of real numbers itself rests on; nothing else is acceptable.
STANDARD_AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec",
    "ClassicalDedekindReals.sig_not_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}

KEYS = {"theorem", "file", "statement_ids", "reading", "supports", "says", "axioms"}
READINGS = {"full", "causal", "given", "any"}
SUPPORTS = {"holds", "refuted", "vacuous"}
STATEMENT_ID = re.compile(r"(lem|fac|thm|def|asp|alg|eq|rem|exp|fix|new):[A-Za-z0-9_:().]+")

DECLARATION = re.compile(r"\b(Theorem|Corollary|Lemma)\s+([A-Za-z_][A-Za-z0-9_']*)")
INDEXED = {"Theorem", "Corollary"}
# Ways to leave a proof out, to assume instead of prove, or to switch a check of the kernel off.
FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Conjectures?|Parameters?|Primitive|Register|"
    r"bypass_check|Unset\s+(Guard|Positivity|Universe)\s+Check\w*|"
    r"Declare\s+(ML|Instance)|Module\s+Type|Obligations?|Load|Redirect|Add\s+LoadPath)\b"
)
SECTION = re.compile(r"\b(Section|End|Variables?|Hypothes[ie]s|Context)\b")


TOKEN = re.compile(r'\(\*|\*\)|"')


def without_comments(text):
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


def source_files(root):
    """The files named in _CoqProject, in the order of compilation."""
    lines = (root / "_CoqProject").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip().endswith(".v")]


PROJECT_LINES = {
    f"-R . {LIBRARY}",
    "-arg -w",
    "-arg -notation-overridden,-ambiguous-paths",
}


def source_problems(root):
    """Sources that are not compiled, and words that would let a proof be left out."""
    lines = (root / "_CoqProject").read_text(encoding="utf-8").splitlines()
    problems = [
        f"_CoqProject: {line!r} is neither a source nor an option this project uses"
        for line in lines
        if line.strip() and not line.endswith(".v") and line not in PROJECT_LINES
    ]
    listed = source_files(root)
    found = {path.relative_to(root).as_posix() for path in root.glob("*/*.v")}
    for name in sorted(found.symmetric_difference(listed)):
        problems.append(f"{name}: in _CoqProject or on disk, not in both")
    for name in sorted(found.intersection(listed)):
        code = without_comments((root / name).read_text(encoding="utf-8"))
        for match in FORBIDDEN.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            problems.append(f"{name}:{line}: {match.group(0)} is not allowed")
        depth = 0
        for match in SECTION.finditer(code):
            word = match.group(1)
            if word in ("Section", "End"):
                depth += 1 if word == "Section" else -1
            elif depth == 0:
                line = code.count("\n", 0, match.start()) + 1
                problems.append(f"{name}:{line}: {word} outside a section is an axiom")
    return problems


def declarations(root):
    """(file, name) -> keyword for every named statement of the sources."""
    found = {}
    for name in source_files(root):
        path = root / name
        if path.is_file():
            code = without_comments(path.read_text(encoding="utf-8"))
            found.update({(name, m.group(2)): m.group(1) for m in DECLARATION.finditer(code)})
    return found


def load_index(root):
    return json.loads((root / "theorems.json").read_text(encoding="utf-8"))


def entry_problems(entry):
    """What is wrong with the shape of one entry."""
    if not isinstance(entry, dict) or set(entry) != KEYS:
        return [f"an entry must have exactly the keys {sorted(KEYS)}; got {entry!r:.200}"]
    label = f"{entry['file']} {entry['theorem']}"
    problems = []
    if entry["reading"] not in READINGS:
        problems.append(f"{label}: reading must be one of {sorted(READINGS)}")
    if entry["supports"] not in SUPPORTS:
        problems.append(f"{label}: supports must be one of {sorted(SUPPORTS)}")
    if not entry["says"]:
        problems.append(f"{label}: says must put the statement in words")
    if not entry["statement_ids"]:
        problems.append(f"{label}: no statement id")
    problems += [
        f"{label}: {identifier!r} is not a statement id"
        for identifier in entry["statement_ids"]
        if not STATEMENT_ID.fullmatch(identifier)
    ]
    problems += [
        f"{label}: rests on {axiom}, which is not an axiom of the standard reals"
        for axiom in entry["axioms"]
        if axiom not in STANDARD_AXIOMS
    ]
    if entry["file"].startswith("algebra/") and entry["axioms"]:
        problems.append(f"{label}: theorems of algebra/ rest on no axiom")
    return problems


def index_problems(root, index):
    """Entries of a wrong shape, without a theorem, twice, and theorems without an entry."""
    problems = [problem for entry in index for problem in entry_problems(entry)]
    if problems:
        return problems
    declared = declarations(root)
    entries = [(entry["file"], entry["theorem"]) for entry in index]
    for entry in sorted(set(entries)):
        if declared.get(entry) not in INDEXED:
            problems.append(f"{entry[0]}: the index names {entry[1]}, the source has no such theorem")
        if entries.count(entry) > 1:
            problems.append(f"{entry[0]}: {entry[1]} is in the index twice")
    for entry, keyword in sorted(declared.items()):
        if keyword in INDEXED and entry not in entries:
            problems.append(f"{entry[0]}: theorem {entry[1]} is not in the index")
    return problems


def assumptions_source(index):
    """The text of Assumptions.v: ask Coq what every theorem of the index rests on."""
    modules = sorted({entry["file"][:-2].replace("/", ".") for entry in index})
    lines = ["(* Generated from theorems.json by `make update`. *)"]
    lines += [f"From {LIBRARY} Require {module}." for module in modules]
    for entry in index:
        module = entry["file"][:-2].replace("/", ".")
        lines.append(f'Goal True. idtac "== {entry["file"]} {entry["theorem"]}". Abort.')
        lines.append(f"Print Assumptions {LIBRARY}.{module}.{entry['theorem']}.")
    return "\n".join(lines) + "\n"


def read_assumptions(text):
    """(file, theorem) -> sorted axioms, from what Coq printed."""
    found = {}
    for block in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        title, _, body = block.partition("\n")
        file, _, theorem = title.partition(" ")
        if body.strip() == "Closed under the global context":
            axioms = []
        elif body.startswith("Axioms:\n"):
            axioms = re.findall(r"^([^\s:]+)", body[len("Axioms:\n") :], flags=re.MULTILINE)
        else:
            raise ValueError(f"assumptions.txt: cannot read what follows {title!r}")
        found[file, theorem.strip()] = sorted(axioms)
    return found


def assumption_problems(root, index):
    """Differences between the index and what Coq said about the axioms."""
    problems = []
    if (root / "Assumptions.v").read_text(encoding="utf-8") != assumptions_source(index):
        problems.append("Assumptions.v does not ask about the theorems of the index: make update")
    try:
        printed = read_assumptions((root / "assumptions.txt").read_text(encoding="utf-8"))
    except ValueError as error:
        return [*problems, str(error)]
    expected = {(entry["file"], entry["theorem"]): sorted(entry["axioms"]) for entry in index}
    for key in sorted(set(printed) | set(expected)):
        if printed.get(key) != expected.get(key):
            problems.append(
                f"{key[0]} {key[1]}: the index says axioms {expected.get(key)}, assumptions.txt says {printed.get(key)}"
            )
    return problems


def readme_table(index):
    """The table of README.md."""
    rows = ["| theorem | statement | reading | says | file | axioms |", "|---|---|---|---|---|---|"]
    for entry in index:
        says = entry["says"].replace("|", "\\|")
        if entry["supports"] != "holds":
            says = f"**{entry['supports']}**: {says}"
        axioms = "standard reals" if entry["axioms"] else "none"
        identifiers = ", ".join(entry["statement_ids"])
        rows.append(
            f"| `{entry['theorem']}` | {identifiers} | {entry['reading']} | {says} | {entry['file']} | {axioms} |"
        )
    return "\n".join(rows)


BEGIN, END = "<!-- theorems: written by make update -->\n", "\n<!-- end of theorems -->"


def with_table(readme, index):
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + readme_table(index) + END + after


def readme_problems(root, index):
    readme = (root / "README.md").read_text(encoding="utf-8")
    if with_table(readme, index) != readme:
        return ["README.md: the table is not that of the index: make update"]
    return []


def problems(root, sources_only=False):
    """Everything that is wrong with the development below ``root``."""
    index = load_index(root)
    found = source_problems(root) + index_problems(root, index)
    if sources_only or found:
        return found
    return assumption_problems(root, index) + readme_problems(root, index)


def dump_index(index):
    entries = [json.dumps(entry, ensure_ascii=False, indent=1) for entry in index]
    return "[\n" + ",\n".join(entries) + "\n]\n"


def write(root):
    """Bring the axioms of the index and the table of README.md up to date."""
    index = load_index(root)
    printed = read_assumptions((root / "assumptions.txt").read_text(encoding="utf-8"))
    for entry in index:
        entry["axioms"] = printed[entry["file"], entry["theorem"]]
    (root / "theorems.json").write_text(dump_index(index), encoding="utf-8")
    readme = (root / "README.md").read_text(encoding="utf-8")
    (root / "README.md").write_text(with_table(readme, index), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources-only", action="store_true", help="do not read assumptions.txt")
    parser.add_argument("--write", action="store_true", help="update the index and the README")
    parser.add_argument("--write-assumptions-source", action="store_true", help="rewrite Assumptions.v")
    arguments = parser.parse_args()
    if arguments.write_assumptions_source:
        source = assumptions_source(load_index(HERE))
        (HERE / "Assumptions.v").write_text(source, encoding="utf-8")
        return 0
    if arguments.write:
        write(HERE)
    found = problems(HERE, arguments.sources_only)
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"{len(load_index(HERE))} theorems, index and sources agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

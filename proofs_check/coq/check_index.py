"""Compare the Coq development with its index ``theorems.json`` and with the pinned types.

No entry of the index can name a theorem that does not exist, no theorem can be missing from it, no source can leave a
proof out, no theorem can rest on more than the axioms the index gives for it, and none can prove anything but the
proposition of its name in Trusted.v. Standard library only; Coq is not needed: what Coq prints of axioms and types is
pinned in ``theorems.json`` and ``types.txt``, which ``make`` compares with a fresh compilation.

    python3 check_index.py                 check everything; exit 1, with the reasons, if a check fails
    python3 check_index.py --sources-only  the sources and the index, not what Coq printed
    python3 check_index.py --questions     write Assumptions.v and Types.v, which make Coq print both
    python3 check_index.py --printed       compare what Coq printed (*.out) as well
    python3 check_index.py --write         bring types.txt and the axioms in the index up to date
    python3 check_index.py --table         print the theorems as a table
"""

import argparse
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import pinned  # noqa: E402
from sources import LIBRARY, TRUSTED, code, declarations, source_files, source_problems  # noqa: E402

__all__ = ["dump_index", "load_index", "problems", "source_files"]

# What the standard library of real numbers itself rests on; nothing else is acceptable.
STANDARD_AXIOMS = {
    "ClassicalDedekindReals.sig_forall_dec": (
        "forall P : nat -> Prop, (forall n : nat, {P n} + {~ P n}) -> {n : nat | ~ P n} + {forall n : nat, P n}"
    ),
    "ClassicalDedekindReals.sig_not_dec": "forall P : Prop, {~ ~ P} + {~ P}",
    "FunctionalExtensionality.functional_extensionality_dep": (
        "forall (A : Type) (B : A -> Type) (f g : forall x : A, B x), (forall x : A, f x = g x) -> f = g"
    ),
    "Classical_Prop.classic": "forall P : Prop, P \\/ ~ P",
}

KEYS = {"theorem", "file", "proves", "reading", "supports", "says", "axioms"}
READINGS = {"full", "causal", "given", "any"}
SUPPORTS = {"holds", "refuted", "vacuous"}
STATEMENT_ID = re.compile(r"(lem|fac|thm|def|asp|alg|eq|rem|exp|fix|new):[A-Za-z0-9_:().]+")
# The part of a statement that a theorem proves: all of it, its inequality, that the inequality is attained or cannot be
# improved, one of its parts, or a step towards it, which by itself proves no part.
PART = re.compile(r"(whole|bound|sharp|step)|(part|bound|sharp) [1-9]\d? of [1-9]\d?")
INDEXED = {"Theorem", "Corollary"}


def load_index(root):
    return json.loads((root / "theorems.json").read_text(encoding="utf-8"))


def keys_of(index):
    return [(entry["file"], entry["theorem"]) for entry in index]


def entry_problems(entry):
    """Return a list of faults in the shape of one entry."""
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
    if not isinstance(entry["proves"], dict) or not entry["proves"]:
        return [*problems, f"{label}: proves must map statement ids to the part that is proved"]
    for identifier, part in entry["proves"].items():
        if not STATEMENT_ID.fullmatch(identifier):
            problems.append(f"{label}: {identifier!r} is not a statement id")
        if not PART.fullmatch(part):
            problems.append(f"{label}: {part!r} is not a part of a statement")
    problems += [
        f"{label}: rests on {axiom}, which is not an axiom of the standard reals"
        for axiom in entry["axioms"]
        if axiom not in STANDARD_AXIOMS
    ]
    if entry["file"].startswith("algebra/") and entry["axioms"]:
        problems.append(f"{label}: theorems of algebra/ rest on no axiom")
    return problems


def index_problems(root, index):
    """Entries of a wrong shape, without a theorem or its check, twice, and theorems without an entry."""
    problems = [problem for entry in index for problem in entry_problems(entry)]
    if problems:
        return problems
    declared, entries = declarations(root), keys_of(index)
    for file, theorem in sorted(set(entries)):
        if declared.get((file, theorem)) not in INDEXED:
            problems.append(f"{file}: the index names {theorem}, the source has no such theorem")
        if declared.get((file, f"checked_{theorem}")) != "Definition":
            problems.append(f"{file}: {theorem} is not checked against {TRUSTED}")
        if entries.count((file, theorem)) > 1:
            problems.append(f"{file}: {theorem} is in the index twice")
    for (file, name), keyword in sorted(declared.items()):
        if keyword in INDEXED and (file, name) not in entries:
            problems.append(f"{file}: theorem {name} is not in the index")
    return problems


def assumptions_source(index):
    """Return the Coq source that prints the assumptions of every theorem."""
    modules = sorted({pinned.module_of(file) for file, _ in keys_of(index)})
    lines = [f"From {LIBRARY} Require {module}." for module in modules]
    for file, theorem in keys_of(index):
        lines.append(f'Goal True. idtac "== {file} {theorem}". Abort.')
        lines.append(f"Print Assumptions {LIBRARY}.{pinned.module_of(file)}.checked_{theorem}.")
    return "\n".join(lines) + "\n"


def printed_axioms(text):
    """Return sorted axioms by title, ``file theorem``, from Coq's output; each is a standard one, of its type."""
    found = {}
    for title, body in pinned.blocks(text).items():
        found[title] = []
        if body.startswith("Axioms:\n"):
            for axiom in re.split(r"\n(?=\S)", body)[1:]:
                name, _, says = " ".join(axiom.split()).partition(" : ")
                if STANDARD_AXIOMS.get(name) != says:
                    raise ValueError(f"{title}: Coq prints {axiom!r}, which is not an axiom of the standard reals")
                found[title].append(name)
            found[title].sort()
        elif body != "Closed under the global context":
            raise ValueError(f"Coq's output: cannot read what follows {title!r}")
    return found


def printed_problems(root):
    """Return the differences between the pins and what Coq printed of axioms and types (*.out)."""
    index, types = load_index(root), pinned.blocks((root / "types.out").read_text(encoding="utf-8"))
    try:
        printed = printed_axioms((root / "assumptions.out").read_text(encoding="utf-8"))
    except ValueError as error:
        return [str(error)]
    expected = {f"{entry['file']} {entry['theorem']}": sorted(entry["axioms"]) for entry in index}
    found = [
        f"{title}: the index says axioms {expected.get(title)}, Coq prints {printed.get(title)}"
        for title in sorted(set(printed) | set(expected))
        if printed.get(title) != expected.get(title)
    ]
    if pinned.pins(types) != pinned.read_pins(root):
        found.append("types.txt is not what Coq prints: make update, and read the differences")
    return found + pinned.check_problems(types, keys_of(index))


def table(index):
    """Return the theorems as a table of Markdown."""
    rows = ["| theorem | statement | reading | says | file | axioms |", "|---|---|---|---|---|---|"]
    for entry in index:
        says = entry["says"].replace("|", "\\|")
        if entry["supports"] != "holds":
            says = f"**{entry['supports']}**: {says}"
        axioms = "standard reals" if entry["axioms"] else "none"
        proves = ", ".join(name if part == "whole" else f"{name} ({part})" for name, part in entry["proves"].items())
        rows.append(f"| `{entry['theorem']}` | {proves} | {entry['reading']} | {says} | {entry['file']} | {axioms} |")
    return "\n".join(rows)


def problems(root, sources_only=False):
    """Return all faults of the development below ``root``."""
    index = load_index(root)
    found = source_problems(root) + index_problems(root, index)
    if sources_only or found:
        return found
    names = pinned.declared(code(root, TRUSTED))
    return pinned.types_problems(pinned.read_pins(root), names, keys_of(index))


def dump_index(index):
    entries = [json.dumps(entry, ensure_ascii=False) for entry in index]
    return "[\n" + ",\n".join(entries) + "\n]\n"


def write(root):
    """Bring types.txt and the axioms of the index up to date with what Coq printed."""
    index = load_index(root)
    axioms, types = ((root / f"{name}.out").read_text(encoding="utf-8") for name in ("assumptions", "types"))
    printed = printed_axioms(axioms)
    for entry in index:
        entry["axioms"] = printed[f"{entry['file']} {entry['theorem']}"]
    (root / "theorems.json").write_text(dump_index(index), encoding="utf-8")
    (root / "types.txt").write_text(pinned.pins_text(pinned.pins(pinned.blocks(types))), encoding="utf-8")


def write_questions(root):
    index = load_index(root)
    names = pinned.declared(code(root, TRUSTED))
    (root / "Assumptions.v").write_text(assumptions_source(index), encoding="utf-8")
    (root / "Types.v").write_text(pinned.types_source(names, keys_of(index)), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sources-only", action="store_true", help="do not read what Coq printed")
    parser.add_argument("--questions", action="store_true", help="write Assumptions.v and Types.v")
    parser.add_argument("--printed", action="store_true", help="compare what Coq printed as well")
    parser.add_argument("--write", action="store_true", help="update types.txt and the index")
    parser.add_argument("--table", action="store_true", help="print the theorems as a table of Markdown")
    arguments = parser.parse_args()
    if arguments.questions:
        write_questions(HERE)
        return 0
    if arguments.table:
        print(table(load_index(HERE)))
        return 0
    if arguments.write:
        write(HERE)
    found = problems(HERE, arguments.sources_only)
    if arguments.printed or arguments.write:
        found += printed_problems(HERE)
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"{len(load_index(HERE))} theorems: sources, index and pinned types agree")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Weaken the statements of Trusted.v mechanically, and test whether the pinned types detect it.

    python3 mutants.py [--count 300] [--seed 0]     needs Coq, and `make` run beside this file

A mutant is one sentence of Trusted.v changed, or read with a notation shadowed before it. It counts if Coq accepts it,
and is caught if Coq's output for it differs from the one that types.txt pins, the comparison that `make` runs. The
unchanged sentence goes through the same steps, and its output must not differ. Proofs need not be compiled: each is
checked against its proposition.
"""

import argparse
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import pinned  # noqa: E402
from sources import without_comments  # noqa: E402

SENTENCE = re.compile(r"^[ \t]*(?:Definition|Fixpoint|Inductive)\s+(\w+).*?\.$", re.MULTILINE | re.DOTALL)
BATCH = 100  # chosen: sentences for one session of Coq, which loads the libraries once


@dataclass(frozen=True)
class Mutant:
    """One change: the declaration, the kind of change, and the changed sentence."""

    name: str
    kind: str
    text: str
    before: str
    """What stands before the sentence in its module, as far as the sentence needs it."""


def half_of(source: str, half: str) -> str:
    """Return the body of the module of one half, from Trusted.v without comments."""
    body = re.search(rf"^Module {half}\.$(.*?)^End {half}\.$", source, re.MULTILINE | re.DOTALL)
    assert body is not None, half
    return body.group(1)


def sentences(source: str) -> Iterator[Mutant]:
    """Every definition and proposition, unchanged."""
    for half in pinned.HALF.values():
        body = half_of(source, half)
        inside = body.index("Module Statement.")
        imports = body[: re.search(r"^(Section|Definition)", body, re.MULTILINE).start()]
        opening = body[inside : body.index("Definition", inside)]
        for match in SENTENCE.finditer(body):
            if match.start() < inside:
                yield Mutant(f"{half}.{match.group(1)}", "none", match.group(0), body[: match.start()])
            else:
                before = f"{imports}Import AttnPrune.Trusted.{half}.\n{opening}"
                yield Mutant(f"{half}.Statement.{match.group(1)}", "none", match.group(0), before)


def _occurrences(pattern: str, text: str) -> list[re.Match[str]]:
    return list(re.finditer(pattern, text))


def _with(match: re.Match[str], text: str, new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


def changes(sentence: str) -> Iterator[tuple[str, str]]:
    """(kind, changed sentence): every mechanical change of one sentence."""
    head, assign, body = sentence.partition(":=")
    start = head + assign

    def each(kind: str, pattern: str, new: str) -> Iterator[tuple[str, str]]:
        for match in _occurrences(pattern, body):
            yield kind, start + _with(match, body, match.expand(new))

    yield from each("drop a hypothesis", r"(?<=[,>])(\s+)[^,>]*?(?<!=)->", r"\1")
    yield from each("add False ->", r"^(\s*forall[^,]*,)", r"\1 False ->")
    yield from each("conclude True", r"(?<=->\s)\s*[^>]*?(?=\.$)", " True")
    yield from each("change a constant", r"(?<![\w.^])(\d+)(?![\w.])", r"1\1")
    yield from each("change an inequality", r"(?<!-)<=", "<")
    yield from each("change an inequality", r" < ", " <= ")
    yield from each("turn an inequality", r" >= ", " <= ")
    yield from each("change a sign", r" \+ ", " - ")
    yield from each("change a sign", r" - ", " + ")
    yield from each("and for or", r"/\\", r"\\/")
    yield from each("swap n and d", r"\bn d\b", "d n")
    yield from each("swap n and d", r"\bINR n\b", "INR d")
    yield from each("swap n and d", r"\bINR d\b", "INR n")
    yield from each("swap two arguments", r"\b(X) (W)\b", r"\2 \1")
    yield from each("another matrix", r"\bones\b(?! R)", "full")
    yield from each("another mu", r"\bmu_corrected\b", "mu_paper")
    yield from each("another delta", r"\bdelta_allowed\b", "delta_all")


SHADOWS = {
    "Algebra": [
        ("x <= y", 'Notation "x <= y" := (y <= x) : ring_scope.'),
        ("x + y", 'Notation "x + y" := (x - y) : ring_scope.'),
        ("x * y", 'Notation "x * y" := (x + y) : ring_scope.'),
        ("normF", "Notation normF := normF2."),
    ],
    "Analysis": [
        ("x <= y", 'Notation "x <= y" := (y <= x) : R_scope.'),
        ("x + y", 'Notation "x + y" := (x - y) : R_scope.'),
        ("x * y", 'Notation "x * y" := (x + y) : R_scope.'),
        ("~ x", 'Notation "~ x" := (x -> x) : type_scope.'),
        ("nF", "Notation nF := nsq."),
        ("sqrt", "Notation sqrt := Rabs."),
    ],
    "Rounding": [
        ("x <= y", 'Notation "x <= y" := (y <= x) : R_scope.'),
        ("x + y", 'Notation "x + y" := (x - y) : R_scope.'),
        ("x * y", 'Notation "x * y" := (x + y) : R_scope.'),
        ("rounded", "Notation rounded := fl."),
        ("Rabs", "Notation Rabs := Ropp."),
    ],
}


def mutants(source: str) -> Iterator[Mutant]:
    """Yield every mutant of the algebra and the analysis of Trusted.v, in its order.

    Sentences of Rounding are left out: twelve of them, copied unchanged, are not recognised as the same.
    """
    for one in sentences(source):
        if one.name.startswith("Rounding."):
            continue
        for kind, changed in changes(one.text):
            yield replace(one, kind=kind, text=changed)
        # What no notation of the reals reads: counts (the rows of k samples, too), powers, products of matrices
        reals = re.sub(r"\([^()]*\)%(nat|N)|\(k \* n\)|\^\+|\*[m:+]", "", one.text.partition(":=")[2])
        for symbol, notation in SHADOWS[one.name.partition(".")[0]]:
            name = " " not in symbol
            if name and ".Statement." not in one.name:
                continue  # a name cannot be given twice in one module
            if re.search(rf"\b{symbol}\b" if name else re.escape(symbol.strip("xy ")), reals):
                yield replace(one, kind=f"shadow {symbol}", text=f"Local {notation}\n{one.text}")


def choose(found: list[Mutant], count: int, seed: int | str) -> list[Mutant]:
    """`count` mutants, every kind of change as often as the others as far as there are that many."""
    rng = random.Random(seed)
    by_kind: dict[str, list[Mutant]] = {}
    for one in rng.sample(found, len(found)):
        by_kind.setdefault(one.kind, []).append(one)
    chosen: list[Mutant] = []
    while len(chosen) < count and any(by_kind.values()):
        for kind in sorted(by_kind):
            if by_kind[kind] and len(chosen) < count:
                chosen.append(by_kind[kind].pop())
    return chosen


def closing(text: str) -> str:
    """Return the End sentences of the modules and sections that a piece of a source leaves open."""
    around: list[str] = []
    for word, name in pinned.SENTENCE.findall(text):
        if word in ("Module", "Section"):
            around.append(name)
        elif word == "End":
            around.pop()
    return "".join(f"End {name}.\n" for name in reversed(around))


def printed(source: str, batch: list[Mutant], root: Path) -> list[str]:
    """Return Coq's output after the equals sign for each mutant; empty if the mutant does not compile."""
    lines = [source[: source.index("Module Algebra.")], "From AttnPrune Require Trusted."]
    for mutant in batch:
        outer = "Mutated" if ".Statement." in mutant.name else "Trusted"
        text = f"Module {outer}.\nModule {mutant.name.partition('.')[0]}.\n{mutant.before}\n{mutant.text}\n"
        lines += [text, closing(text), 'Goal True. idtac "=== mutant". Abort.']
        lines += ["Set Printing All. Set Printing Width 118. Set Printing Depth 100000."]
        lines += [f"Print Top.{outer}.{mutant.name}.", "Goal True. Abort.", f"Reset {outer}."]
    command = ["coqtop", "-q", "-w", "none", "-R", str(root), "AttnPrune"]
    outcome = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    found = re.split(r"^=== mutant$", outcome.stdout, flags=re.MULTILINE)[1:]
    assert len(found) == len(batch), outcome.stderr[-2000:]
    return [_value(body.partition("\n1 goal")[0]) for body in found]


def _value(block: str) -> str:
    """The printed value and type, without the name, which differs."""
    return " ".join(block.partition(" =")[2].partition("\nArguments")[0].split())


@dataclass(frozen=True)
class MutantOutcome:
    """Result of a mutant. `compiles`: Coq accepts it; `caught`: Coq's output differs from the pinned one."""

    mutant: Mutant
    compiles: bool
    caught: bool


def run(root: Path, chosen: list[Mutant]) -> list[MutantOutcome]:
    """Judge mutants, and the sentences they come from, a batch a session of Coq."""
    source = without_comments((root / "Trusted.v").read_text(encoding="utf-8"))
    before = pinned.blocks((root / "types.out").read_text(encoding="utf-8"))
    if pinned.pins(before) != pinned.read_pins(root):
        raise ValueError("types.out is not what types.txt pins: run make")
    names = {mutant.name for mutant in chosen}
    everything = [*(one for one in sentences(source) if one.name in names), *chosen]
    outcomes = []
    for start in range(0, len(everything), BATCH):
        batch = everything[start : start + BATCH]
        for mutant, now in zip(batch, printed(source, batch, root), strict=True):
            outcomes.append(MutantOutcome(mutant, now != "", now != _value(before[mutant.name])))
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", default="0", help="any text, for example the commit")
    arguments = parser.parse_args()
    source = without_comments((HERE / "Trusted.v").read_text(encoding="utf-8"))
    outcomes = run(HERE, choose(list(mutants(source)), arguments.count, arguments.seed))
    altered = [one.mutant.name for one in outcomes if one.mutant.kind == "none" and (one.caught or not one.compiles)]
    if altered:
        raise SystemExit(f"not as pinned by types.txt: {', '.join(altered)}")
    compiled = [one for one in outcomes if one.compiles and one.mutant.kind != "none"]
    survivors = [one.mutant for one in compiled if not one.caught]
    for mutant in survivors:
        print(f"survived: {mutant.name}, {mutant.kind}: {' '.join(mutant.text.split())}")
    print(f"{len(compiled)} mutants that Coq accepts : {len(compiled) - len(survivors)} caught")
    return 1 if len(survivors) * 20 > len(compiled) else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m proofs_check.corpus [--check]`: write the corpus of invalid certificates and its index, or compare."""

import argparse
import sys
from pathlib import Path

from proofs_check.checker import judge_bytes
from proofs_check.corpus import (
    in_the_fields,
    in_the_text,
    of_empty_instances,
    of_mask_gaps,
    of_masks_and_points,
    of_single_questions,
    of_the_lemma,
    of_the_rest,
    of_the_theorem,
)
from proofs_check.corpus.trap import Trap

HERE = Path(__file__).resolve().parent
PARTS = {
    "In the text": in_the_text,
    "In common fields and in the notation of numbers": in_the_fields,
    "lem:PL_ineq": of_the_lemma,
    "The main theorem, spurious minima, leaving the box": of_the_theorem,
    "Remarks, thresholds, repaired bounds, prose, misprints": of_the_rest,
    "The best mask, stationary points, the mask of descent": of_masks_and_points,
    "The bound of every mask's divergence": of_mask_gaps,
    "Instances that say nothing": of_empty_instances,
    "Single questions": of_single_questions,
}
_HEAD = """# Invalid certificates

Each file of `invalid/` must be rejected; its name is its trap. Made by `python -m proofs_check.corpus` from the valid
certificates; `--check` compares. Most differ from a valid certificate in one place. Where inputs were changed, the
pivots were computed again and the enclosures opened to hold everything, so that only the trap is wrong.
`python -m proofs_check.both` gives them to both checkers. The last column is the reason that the first one gives.
"""


def files() -> dict[Path, bytes]:
    """Every file of the corpus, the index included."""
    found: dict[Path, bytes] = {}
    index = [_HEAD]
    for title, part in PARTS.items():
        traps = list(part.traps())
        index.append(f"## {title} ({len(traps)})\n")
        index.append("| file | what is wrong | refused, because |\n|---|---|---|")
        for trap in traps:
            path = HERE / "invalid" / f"{trap.name}.json"
            if path in found:
                raise ValueError(f"two traps are called {trap.name}")
            found[path] = trap.content
            index.append(_row(trap))
        index.append("")
    found[HERE / "README.md"] = "\n".join(index).encode()
    return found


def _row(trap: Trap) -> str:
    verdict = judge_bytes(trap.content)
    if verdict.accepted or "broke down" in verdict.reason:
        raise ValueError(f"{trap.name}: {verdict.reason}")
    reason = verdict.reason.encode("unicode_escape").decode("ascii").replace("|", "\\|")
    reason = reason if len(reason) <= 100 else reason[:97] + "..."
    return f"| `{trap.name}` | {trap.says.replace('|', chr(92) + '|')} | {reason} |"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs_check.corpus", description=(__doc__ or "").split(": ")[1])
    parser.add_argument("--check", action="store_true", help="compare with the committed files, write nothing")
    options = parser.parse_args(arguments)
    wanted = files()
    there = {*(HERE / "invalid").glob("*"), HERE / "README.md"}
    stale = sorted(
        path.name for path in there | set(wanted) if not path.exists() or path.read_bytes() != wanted.get(path)
    )
    if not options.check:
        (HERE / "invalid").mkdir(exist_ok=True)
        for path in there - set(wanted):
            path.unlink()
        for path, content in wanted.items():
            path.write_bytes(content)
    elif stale:
        print(f"not up to date: {', '.join(stale)}")
        return 1
    print(f"{len(wanted) - 1} invalid certificates, {sum(map(len, wanted.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

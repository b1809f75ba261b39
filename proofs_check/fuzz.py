"""`python -m proofs_check.fuzz --count N --seed S`: mutated certificates, and both checkers' verdicts on each.

Valid certificates are changed in one or two places: numbers, keys, types, structure, intervals narrowed past the truth,
relations swapped, bytes. With some changes of the inputs all enclosures are opened and the pivots computed again, so
that only the hypotheses and the relation are left to decide. Exit 0 only if no two verdicts differ, those aside where
one checker stopped at a limit of precision or work, which are counted and listed.
"""

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from proofs_check.__main__ import CERTIFICATES
from proofs_check.both import SecondChecker, build, missing_tool
from proofs_check.checker import judge_bytes
from proofs_check.mutations import mutant

COSTLY = (
    "mask_stays_in_box", "attn_prun-confirmation", "spurious_minimum", "our_convergence-refutation-from-ones",
    "best_mask-five", "best_mask-six", "returned_mask", "stationary_point-seven",
)  # fmt: skip


def originals(only: str = "") -> tuple[list[str], list[int]]:
    """Valid certificates, and how often each is drawn: those that take a checker long a tenth as often."""
    files = sorted(CERTIFICATES.glob(f"{only}*.json"))
    return [file.read_text() for file in files], [1 if file.name.startswith(COSTLY) else 10 for file in files]


def mutants(seed: int, count: int, only: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the description and the bytes of each mutant; equal seeds give equal mutants."""
    documents, weights = originals(only)
    for index in range(count):
        rng = random.Random(f"{seed}/{index}")
        yield mutant(json.loads(rng.choices(documents, weights)[0]), rng)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs_check.fuzz", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="certificates whose names begin so")
    parser.add_argument("--keep", type=Path, help="a folder for the files on which the verdicts differ")
    options = parser.parse_args(arguments)
    if options.count < 1:
        parser.error("--count must be at least 1")
    if not originals(options.only)[0]:
        parser.error(f"no certificate's name begins with {options.only!r}")
    if missing := missing_tool():
        print(f"error: the second checker needs {missing}", file=sys.stderr)
        return 2
    try:
        return 1 if compare(options.seed, options.count, options.keep, options.only)["disagree"] else 0
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130


def compare(seed: int, count: int, keep: Path | None = None, only: str = "") -> Counter[str]:
    """Counts of `accept`, `reject`, `limit` (one checker stopped, the other accepts) and `disagree`."""
    found: Counter[str] = Counter()
    with SecondChecker(build()) as second:
        for index, (done, content) in enumerate(mutants(seed, count, only)):
            ours, theirs = judge_bytes(content), second.judge(content)
            outcome = "accept" if ours.accepted else "reject"
            if ours.accepted != theirs.accepted:
                outcome = "limit" if ours.undecided or theirs.undecided else "disagree"
                print(f"{outcome} {index} ({done})\n  first:  {ours.reason}\n  second: {theirs.reason}", flush=True)
                if keep is not None:
                    keep.mkdir(parents=True, exist_ok=True)
                    (keep / f"{outcome}-{seed}-{index}.json").write_bytes(content)
            if any("broke down" in verdict.reason for verdict in (ours, theirs)):
                outcome = "disagree"
                print(f"broke down {index} ({done}): {ours.reason} / {theirs.reason}", flush=True)
            found[outcome] += 1
    print(f"{count} mutants, seed {seed}: " + ", ".join(f"{name} {number}" for name, number in sorted(found.items())))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

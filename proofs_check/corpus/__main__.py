"""`python -m proofs_check.corpus [--out DIR | --check]`: write the invalid certificates, or compare with their digests.

--out DIR writes every invalid certificate and INDEX.md, which lists what is wrong with each and why the first checker
refuses it. Without an option README.md is written anew: it pins both by their digests, and --check compares it.
"""

import argparse
import functools
import hashlib
import sys
from pathlib import Path

from proofs_check.checker import judge_bytes
from proofs_check.corpus.parts import invalid, parts
from proofs_check.corpus.trap import Trap

README = Path(__file__).resolve().with_name("README.md")
_HEAD = """# Invalid certificates

Both checkers must reject each of them; a file's name is its trap. They are made from the valid certificates whenever
they are needed and are not kept in the repository:

    python -m proofs_check.corpus --out DIR     # every invalid certificate, and INDEX.md: what is wrong, why refused
    python -m proofs_check.both                 # both checkers on the valid and on the invalid ones

Try your own checker on DIR. Most files differ from a valid certificate in one place. Where inputs were changed, the
pivots were computed again and the enclosures opened to hold everything, so that only the trap is wrong.

"""


@functools.cache
def index() -> str:
    """Return INDEX.md: each trap, what is wrong with it, and why the first checker refuses it."""
    lines = ["# Invalid certificates\n"]
    for title, traps in parts().items():
        lines += [f"## {title} ({len(traps)})\n", "| file | what is wrong | refused, because |", "|---|---|---|"]
        lines += [*map(_row, traps), ""]
    return "\n".join(lines)


def _row(trap: Trap) -> str:
    verdict = judge_bytes(trap.content)
    if verdict.accepted or "broke down" in verdict.reason:
        raise ValueError(f"{trap.name}: {verdict.reason}")
    syntax = verdict.reason.startswith("not JSON: ")  # what follows is Python's message, which its versions word anew
    reason = "not JSON" if syntax else verdict.reason.encode("unicode_escape").decode("ascii").replace("|", "\\|")
    reason = reason if len(reason) <= 100 else reason[:97] + "..."
    return f"| `{trap.name}` | {trap.says.replace('|', chr(92) + '|')} | {reason} |"


def readme() -> str:
    """Return README.md: how many there are of each kind, and the digests of the files and of INDEX.md."""
    files = invalid()
    sums = "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items())
    rows = [f"| {title} | {len(traps)} |" for title, traps in parts().items()]
    return _HEAD + "\n".join(
        [
            "| part | files |",
            "|---|---|",
            *rows,
            f"| all, {sum(map(len, files.values())):,} bytes | {len(files)} |",
            "",
            "Pinned, and compared by `python -m proofs_check.corpus --check` (without an option: written anew):",
            "",
            f"* `LC_ALL=C; sha256sum *.json | sha256sum` in DIR: `{hashlib.sha256(sums.encode()).hexdigest()}`",
            f"* `sha256sum INDEX.md`: `{hashlib.sha256(index().encode()).hexdigest()}`",
            "",
        ]
    )


def write(folder: Path) -> None:
    """Write every invalid certificate and INDEX.md into a folder that is new or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"--out must be a folder that is new or empty; got {folder}")
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in invalid().items():
        (folder / name).write_bytes(content)
    (folder / "INDEX.md").write_text(index(), encoding="utf-8")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs_check.corpus", description=(__doc__ or "").split(": ")[1])
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--out", type=Path, metavar="DIR", help="write the invalid certificates and INDEX.md there")
    choice.add_argument("--check", action="store_true", help="compare with the digests of README.md, write nothing")
    options = parser.parse_args(arguments)
    if options.out is not None:
        try:
            write(options.out)
        except (OSError, ValueError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        print(f"{len(invalid())} invalid certificates and INDEX.md are in {options.out}")
        return 0
    wanted = readme()
    if not options.check:
        README.write_text(wanted, encoding="utf-8")
    elif README.read_text(encoding="utf-8") != wanted:
        print(f"{README.name} is stale: run python -m proofs_check.corpus")
        return 1
    print(f"{len(invalid())} invalid certificates, {sum(map(len, invalid().values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

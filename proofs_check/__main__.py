"""`python -m proofs_check [FILE ...]`: one line per certificate, and an exit code.

0 every certificate is accepted · 1 one is rejected · 2 wrong usage · 3 none is rejected, but one could not be judged
"""

import sys
from pathlib import Path

from proofs_check.checker import judge_file

CERTIFICATES = Path(__file__).resolve().parent / "certificates"


def _one_line(text: str) -> str:
    """A file's name or keys may hold line breaks and characters that a terminal cannot show."""
    return text.encode("unicode_escape").decode("ascii")


def main(arguments: list[str]) -> int:
    if asked := [argument for argument in arguments if argument in ("-h", "--help")]:
        if len(arguments) > 1 or Path(asked[0]).exists():
            print(f"error: {asked[0]} stands alone; a file of that name is ./{asked[0]}", file=sys.stderr)
            return 2
        print("usage: python -m proofs_check [FILE ...]")
        print("Re-check certificates; without FILE, all of proofs_check/certificates.")
        return 0
    if options := [name for name in arguments if name.startswith("-") and not Path(name).exists()]:
        print(f"error: no option {_one_line(options[0])}, and no file of that name", file=sys.stderr)
        return 2
    files = [Path(argument) for argument in arguments] or sorted(CERTIFICATES.glob("*.json"))
    words = []
    for file in files:
        verdict = judge_file(file)
        words.append(verdict.word)
        print(_one_line(f"{verdict.word} {file.name}: {verdict.reason}"))
    print(f"{words.count('ACCEPT')} of {len(words)} certificates accepted")
    if "REJECT" in words:
        return 1
    return 0 if words and "UNDECIDED" not in words else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

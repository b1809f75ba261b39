"""The two checkers beside each other: `python -m proofs_check.both [FILE ...]`.

The second one (`second/`, OCaml and Zarith) shares no code with `checker/`. Each file is given to both; exit 0 only if
they agree on every one, whatever the verdict. Without FILE: the certificates and the invalid ones of `corpus/`.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from proofs_check.__main__ import CERTIFICATES
from proofs_check.checker import judge_bytes
from proofs_check.checker.certificate import CertificateVerdict
from proofs_check.checker.document import read_content
from proofs_check.checker.reject import Reject
from proofs_check.corpus.parts import invalid

HERE = Path(__file__).resolve().parent
SECOND = HERE / "second"
PROGRAM = SECOND / "build" / "second"


def missing_tool() -> str | None:
    """Return the first tool that the second checker's build needs and that is missing; None if all are there."""
    return next((tool for tool in ("make", "ocamlfind", "ocamlopt") if shutil.which(tool) is None), None)


def build() -> Path:
    """The compiled second checker; does nothing where it is newer than its sources."""
    done = subprocess.run(["make", "-C", str(SECOND)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the second checker does not build:\n{done.stdout}{done.stderr}")
    return PROGRAM


class SecondChecker:
    """One process of the second checker, which judges certificates one by one."""

    def __init__(self, program: Path = PROGRAM) -> None:
        self._process = subprocess.Popen([str(program), "--stream"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def judge(self, content: bytes) -> CertificateVerdict:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise RuntimeError("the second checker has no pipes")
        stdin.write(b"%d\n" % len(content) + content)
        stdin.flush()
        word, _, reason = stdout.readline().decode("ascii").rstrip("\n").partition(" ")
        if word not in ("ACCEPT", "REJECT", "UNDECIDED"):
            raise RuntimeError("the second checker ended without an answer")
        return CertificateVerdict(word == "ACCEPT", reason, undecided=word == "UNDECIDED")

    def __enter__(self) -> "SecondChecker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()


def contents(names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the files; without names of all certificates, the invalid ones last."""
    for file in map(Path, names) if names else sorted(CERTIFICATES.glob("*.json")):
        try:
            yield file.name, read_content(file)
        except Reject as refused:
            raise Reject(f"{file}: {refused}") from None
    if not names:
        yield from invalid().items()


def main(names: list[str]) -> int:
    if missing := missing_tool():
        print(f"error: the second checker needs {missing}", file=sys.stderr)
        return 2
    accepted = disagreements = 0
    try:
        files = [*contents(names)]
    except Reject as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 2
    with SecondChecker(build()) as second:
        for name, content in files:
            ours, theirs = judge_bytes(content), second.judge(content)
            accepted += ours.accepted and theirs.accepted
            if ours.accepted != theirs.accepted:
                disagreements += 1
                print(f"DISAGREE {name!r}: first {ours}, second {theirs}")
    print(f"{len(files)} files: both accept {accepted}, {disagreements} disagreements")
    return 1 if disagreements else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

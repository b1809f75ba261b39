"""The second checker (OCaml) with each of its questions numbered, so that one can be switched off without compiling.

A question is an ``if ... then reject``, or a pair ("what is asked", answer) of a statement's list. The numbered program
reads two variables: QUESTION_SHOWN puts the number before the reason, QUESTION_OFF switches one question off.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from proofs_check import both
from proofs_check.corpus.parts import invalid

_REJECT = re.compile(r"\bthen\s+(reject|give_up)\b")
_PAIR = re.compile(r'\((?="(?P<says>[^"]*)", (?:holds|less|at_least|at_most|is|proved|opposite|encloses)\b)')
_ANSWER = re.compile(r'("[^"]*"), ')
_SEVERAL = 8  # chosen: so many traps of one question are tried
_SWITCH = """
let off = match Sys.getenv_opt "QUESTION_OFF" with Some n -> int_of_string n | None -> -1
let shown = Sys.getenv_opt "QUESTION_SHOWN" <> None
let mark n text = if shown then Printf.sprintf "[%d] %s" n text else text
let reject_at n format = Printf.ksprintf (fun text -> if off <> n then raise (Reject (mark n text))) format
let give_up_at n format = Printf.ksprintf (fun text -> if off <> n then raise (Gave_up (mark n text))) format
"""
_ASKED = "\nlet asked n answer = if Refuse.off = n then Yes else answer\n"


class Numbered:
    """The compiled program, and the text of each question by its number."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(both.SECOND, folder, ignore=shutil.ignore_patterns("build"), dirs_exist_ok=True)
        self.folder, self.questions = folder, dict[int, str]()
        self.traps = [folder / "traps" / name for name in invalid()]
        (folder / "traps").mkdir()
        for path in self.traps:
            path.write_bytes(invalid()[path.name])
        self._typed: set[tuple[str, int]] = set()
        """Files and lines whose question gives a value, which nothing can stand for."""
        while (place := self._compiled()) is not None:
            self._typed.add(place)

    def _compiled(self) -> tuple[str, int] | None:
        """Number and compile; return the file and line of an error."""
        self.questions.clear()
        for path in sorted(both.SECOND.glob("*.ml")):
            (self.folder / path.name).write_text(self._numbered(path), "utf-8")
        done = subprocess.run(["make", "-C", str(self.folder)], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return None
        place = re.search(r'File "(\w+\.ml)", lines? (\d+)', done.stderr)
        if place is None or (place[1], int(place[2])) in self._typed:
            raise RuntimeError(done.stderr)
        return place[1], int(place[2])

    def _numbered(self, path: Path) -> str:
        lines = path.read_text("utf-8").split("\n")
        found = [self._line(path.name, number, line) for number, line in enumerate(lines, 1)]
        text = "\n".join(found)
        if path.name == "refuse.ml":
            return text.replace("\nlet limit", f"{_SWITCH}\nlet limit")
        return text.replace("\nlet point q", f"{_ASKED}\nlet point q") if path.name == "questions.ml" else text

    def _line(self, name: str, number: int, line: str) -> str:
        if (name, number) in self._typed:
            return line
        line = _REJECT.sub(lambda one: f"then {one[1]}_at {self._next(name, line)}", line)
        return _PAIR.sub(lambda one: "(", line) if name == "questions.ml" else self._pairs(name, line)

    def _pairs(self, name: str, line: str) -> str:
        place = 0
        while (one := _PAIR.search(line, place)) is not None:
            number = self._next(name, one["says"])
            after = _ANSWER.sub(rf"Refuse.mark {number} \1, Questions.asked {number} @@ ", line[one.end() :], count=1)
            line, place = line[: one.end()] + after, one.end() + 1
        return line

    def _next(self, name: str, text: str) -> int:
        number = len(self.questions)
        self.questions[number] = f"{name}: {text.strip()}"
        return number

    def reasons(self, traps: Iterable[Path], **environment: str) -> dict[str, str]:
        """Return the program's answer to each trap."""
        command = [str(self.folder / "build" / "second"), *map(str, traps)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
        found = re.findall(r"^\w+ (\S+)\.json: (.*)$", done.stdout, flags=re.MULTILINE)
        return dict(found)

    def unnoticed(self, report: Callable[[str], None] = lambda text: None) -> list[str]:
        """Return the questions that no trap notices."""
        shown, plain = self.reasons(self.traps, QUESTION_SHOWN="1"), self.reasons(self.traps)
        ends: dict[int, list[str]] = {}
        for name, says in shown.items():
            if numbers := re.findall(r"\[(\d+)\] ", says):  # of a pair the last: its list has a number of its own
                ends.setdefault(int(numbers[-1]), []).append(name)
        left = []
        for number, text in self.questions.items():
            here = ends.get(number, [])
            files = [self.folder / "traps" / f"{name}.json" for name in here[:_SEVERAL]]
            without = self.reasons(files, QUESTION_OFF=str(number)) if files else {}
            if not any(without.get(name) != plain[name] for name in here[:_SEVERAL]):
                left.append(text)
                report(f"{len(here)} traps end at {text}")
        return left

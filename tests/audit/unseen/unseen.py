"""Programs that were written before the audit they now test: wrong ones as edits of right ones, and right ones.

``python tests/audit/unseen/unseen.py [kernels|programs|forms|pruning|right|reported] [PATTERN]`` prints, for each,
how it is judged, its names and the processor time; reported are the wrong ones that are made after public reports.
"""

from __future__ import annotations

import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.result import AuditResult

HERE = Path(__file__).parent
PRUNING = HERE.parent / "pruning"
WRONG = HERE.parent / "wrong"
BASES = {"": WRONG / "base.py", "layer": WRONG / "layer_base.py", "pruning": PRUNING / "base.py"}
KINDS = ("kernels", "programs", "forms", "pruning")
OBJECTS = {"paper_object": "pruner", "tiled": "tiled"}
"""Files of which an object is audited, not the module."""


@dataclass(frozen=True)
class Unseen:
    """A wrong program; any one of `names` is a right diagnosis of `function`."""

    id: str
    kind: str
    function: str
    names: tuple[str, ...]
    base: Path
    edits: tuple[tuple[str, str], ...]
    reported: bool

    def source(self) -> str:
        function = self.function if self.kind == "pruning" else ""
        return edited(self.base.read_text(encoding="utf-8"), self.edits, function)

    def audited(self, folder: Path | str, **options: Any) -> AuditResult:
        """The audit of the program, with these options of it."""
        path = Path(folder) / "subject.py"
        path.write_text(self.source(), encoding="utf-8")
        if self.kind == "kernels":
            return run_kernel_audit(str(path), **options)
        return run_audit(_target(path, self.base), only=self.function, **options)

    def named(self, result: AuditResult) -> bool:
        """Return True where one of the names is given to the function, or to the other one that follows from it."""
        found = {id for ids in result.diagnosis.values() for id in ids}
        return not self.names or bool(found & set(self.names))


def edited(text: str, edits: Iterable[tuple[str, str]], function: str = "") -> str:
    """The text with these edits, of this function alone where it is given."""
    head, start, rest = text.partition(f"def {function}(") if function else ("", "", text)
    body, end, tail = rest.partition("\n\n\n") if function else (rest, "", "")
    body = start + body
    for old, new in edits:
        if old not in body:
            raise LookupError(f"nothing to edit: {old!r} is missing")
        body = body.replace(old, new)
    return head + body + end + tail


def _target(path: Path, base: Path) -> str:
    return f"{path}:{OBJECTS[base.stem]}" if base.stem in OBJECTS else str(path)


def unseen(kind: str) -> list[Unseen]:
    """The wrong programs of one kind."""
    table = PRUNING / "wrong.toml" if kind == "pruning" else HERE / f"{kind}.toml"
    entries = tomllib.loads(table.read_text(encoding="utf-8"))["wrong"]
    found = []
    for one in entries:
        base = one.get("base", "features" if kind == "kernels" else "")
        folder = HERE / "forms" if kind == "forms" else HERE
        place = folder / f"{base}.py" if kind in ("kernels", "forms") else BASES[kind if kind == "pruning" else base]
        edits = tuple((old, new) for old, new in one["edits"])
        named = one.get("function", "attention"), tuple(one["names"])
        found.append(Unseen(one["id"], kind, *named, place, edits, one.get("reported", False)))
    return found


def right() -> list[Path]:
    """The right programs."""
    found = (place for folder in ("forms", "right") for place in sorted((HERE / folder).glob("*.py")))
    return [HERE / "features.py", HERE / "torch_features.py", *found]


def judged_right(path: Path) -> AuditResult:
    """The audit of one of them."""
    if path.parent == HERE or path.stem.startswith("kernel"):
        return run_kernel_audit(str(path))
    return run_audit(_target(path, path))


def main() -> None:
    kinds, pattern = sys.argv[1:2] or [*KINDS, "right"], "".join(sys.argv[2:3])
    reported = kinds == ["reported"]
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS if reported else kinds:
            for one in right() if kind == "right" else unseen(kind):
                title = one.name if isinstance(one, Path) else one.id
                if pattern not in title or (reported and not one.reported):
                    continue
                start = time.process_time()
                result = judged_right(one) if isinstance(one, Path) else one.audited(folder)
                told = "" if isinstance(one, Path) or one.named(result) else f"   MEANT {', '.join(one.names)}"
                seconds = time.process_time() - start
                print(f"{result.outcome:10} {seconds:5.1f} s  {title}: {result.diagnosis}{told}", flush=True)


if __name__ == "__main__":
    main()

"""Calls that write, name, delete or read a file stand in `state/` and `files.py`, or below with their reason."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import attnprune_verify

ROOT = Path(attnprune_verify.__file__).parent

WRITES = {
    *(f"os.{name}" for name in "rename renames replace remove unlink rmdir removedirs mkdir makedirs truncate "
      "ftruncate link symlink mknod mkfifo chmod utime".split()),
    *(f"shutil.{name}" for name in "copy copy2 copyfile copytree move rmtree".split()),
    *(f"tempfile.{name}" for name in "mkstemp mkdtemp TemporaryDirectory TemporaryFile NamedTemporaryFile".split()),
    *(f"numpy.{name}" for name in "save savez savez_compressed savetxt".split()),
}  # fmt: skip
READS = {f"numpy.{name}" for name in ("load", "memmap", "fromfile", "loadtxt", "genfromtxt")} | {
    "json.load", "tomllib.load", "pickle.load",
}  # fmt: skip
OF_A_PATH = set(
    "write_text write_bytes unlink rename mkdir rmdir touch symlink_to hardlink_to chmod tofile savefig".split()
)

SUBJECT = "a room: an audited program's own processes and folder, by the system's tables"
WRITERS = {
    "audit/subject": SUBJECT,
    "cli/main.py": "the null device in the place of a closed stream",
    "cli/terminal/output.py": "the null device in the place of a reader who left",
    "cli/prune.py": "into a whole_file",
    "instance/archive.py": "members of an archive are opened to read, by objects",
    "instance/npz.py": "into a whole_file",
    "experiments/figures.py": "into memory",
    "torch/prune.py": "a new temporary folder",
    "whole_model/assembled.py": "the new model's folder, inside a claimed one",
    "whole_model/source.py": "the new model's files, inside a claimed folder",
}
READERS = {
    "audit/subject": SUBJECT,
    "audit/kernel/problem/real_inputs.py": "the package's own file",
    "audit/kernel/problem/released_shapes.py": "the package's own file",
    "claims/evidence.py": "the package's own file",
    "claims/excerpts.py": "the package's own file",
    "claims/judging/falsifier.py": "the package's own file",
    "experiments/layer/plan.py": "blocks of a file, to hash them",
    "instance/archive.py": "members whose announced sizes were compared",
    "instance/memory.py": "the system's tables",
    "pretrained/folder.py": "a header whose size the library checked",
    "pretrained/tensors.py": "a header whose size the library checks, and maps",
    "report/claims_html.py": "the package's own file",
    "torch/opened.py": "maps",
    "whole_model/source.py": "piece by piece",
    "whole_model/workplace.py": "maps",
}


_WORDS = sorted({one.rpartition(".")[2] for one in WRITES | READS} | OF_A_PATH | {"open", "read_text", "read_bytes"})
_THOUGHT_OF = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b")
"""Without such a word a file holds no such call, and need not be parsed."""


def opened(source: str) -> Iterator[tuple[str, str]]:
    """Yield ("write" or "read", the call) of a module, under whatever names it imports them."""
    tree = ast.parse(source)
    names = {"open": "open"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (kind := _kind(node, names)):
            yield kind, ast.unparse(node)


def _kind(call: ast.Call, names: dict[str, str]) -> str:
    head, dot, last = ast.unparse(call.func).rpartition(".")
    full = f"{names.get(head, head)}.{last}" if dot else names.get(last, last)
    if full in WRITES or (dot and last in OF_A_PATH):
        return "write"
    if dot and last == "replace" and len(call.args) == 1 and not call.keywords and full != "dataclasses.replace":
        return "write"  # of a path; that of text takes two
    if full in READS or (dot and last in ("read_text", "read_bytes")):
        return "read"
    if full == "os.open":
        flags = ast.unparse(call)
        return "write" if any(f"O_{one}" in flags for one in ("WRONLY", "RDWR", "CREAT", "TRUNC", "TMPFILE")) else ""
    if last == "open" and full not in ("os.pidfd_open", "webbrowser.open"):
        return "write" if set(_mode(call, first=1 if full in ("open", "io.open") else 0)) & set("wax+") else "read"
    return ""


def _mode(call: ast.Call, first: int) -> str:
    """The mode of an `open`; one that is computed counts as any."""
    given = [*call.args[first : first + 1], *(one.value for one in call.keywords if one.arg == "mode")]
    return next((one.value if isinstance(one, ast.Constant) else "w" for one in given), "r")


@cache
def places() -> dict[str, set[str]]:
    """Return by kind the files of the package, without `state/` and `files.py`, that hold such calls."""
    found: dict[str, set[str]] = {"write": set(), "read": set()}
    for path in ROOT.rglob("*.py"):
        name, source = path.relative_to(ROOT).as_posix(), path.read_text("utf-8")
        if not name.startswith("state/") and name != "files.py" and _THOUGHT_OF.search(source):
            for kind, _ in opened(source):
                found[kind].add("audit/subject" if name.startswith("audit/subject/") else name)
    return found


@pytest.mark.parametrize(("kind", "allowed"), [("write", WRITERS), ("read", READERS)])
def test_files_are_opened_where_the_list_says_so(kind: str, allowed: dict[str, str]) -> None:
    found = places()[kind]
    assert found - set(allowed) == set(), "use state/ or files.py"
    assert set(allowed) - found == set(), "the list shrinks"


@pytest.mark.parametrize(
    ("planted", "kind"),
    [
        ('open("a", "w")', "write"), ('open("a", mode="ab")', "write"), ('path.open("xb")', "write"),
        ('path.open(mode=f"{kind}b")', "write"), ("import os\nos.replace(a, b)", "write"),
        ("from os import unlink as gone\ngone(a)", "write"), ("path.replace(other)", "write"),
        ("import shutil as s\ns.rmtree(a)", "write"), ("import numpy as np\nnp.save(a, b)", "write"),
        ("path.mkdir()", "write"), ("path.write_text(b)", "write"), ("figure.savefig(a)", "write"),
        ("import os\nos.open(a, os.O_CREAT)", "write"), ("from tempfile import mkdtemp\nmkdtemp()", "write"),
        ('open("a")', "read"), ("path.read_bytes()", "read"), ('path.open("rb")', "read"),
        ("import numpy\nnumpy.load(a)", "read"), ("from json import load\nload(file)", "read"),
    ],
)  # fmt: skip
def test_a_planted_call_is_found(planted: str, kind: str) -> None:
    assert [one for one, _ in opened(planted)] == [kind]


@pytest.mark.parametrize("harmless", ["text.replace(a, b)", "replace(plan, n=1)", "array.copy()", "read_regular(a)"])
def test_other_calls_are_none(harmless: str) -> None:
    assert list(opened(harmless)) == []

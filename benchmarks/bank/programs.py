"""The programs of the bank: the bugs, from the catalogues of the tests, and right programs."""

import hashlib
import inspect
import tomllib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from tests.audit.kernel import eights, honest, joins, lists, test_parallel
from tests.audit.kernel.kill_matrix import HERE, WrongKernel, catalogue

FILES = ("zoo", "sizes", "fresh")
ELSEWHERE = HERE / "wrong" / "elsewhere.toml"
"""Wrong merges, lists, pages, steps and kernels of eight bits that public threads describe, by their names there."""
BASES = ("textbook", "online", "parts")
HONEST = ("textbook, stored in 16 bits", "divided at the end", "two splits")
"""Chosen of the honest kernels of the tests, which are many and dear to judge."""


@dataclass(frozen=True)
class Program:
    """A program that is judged.

    Attributes
    ----------
    kind : str
        "kernel", "honest", "merge", "lists", "pages", "eight" or "step": how it is called.
    made : object
        The text of a kernel, or functions.
    text : str
        What a stored judgement belongs to.
    mode : str
        Of `audit-kernel`, in which a bug shows.
    function : str
        Of a kernel, that is wrong.
    """

    id: str
    kind: str
    made: Any
    text: str
    dtype: str = "float32"
    source: str = ""
    date: str = ""
    cause: str = ""
    mode: str = ""
    function: str = ""

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.kind} {self.id} {self.dtype} {self.mode} {self.text}".encode()).hexdigest()[:16]


def _of_kernel(wrong: WrongKernel) -> Program:
    assert wrong.issue is not None
    source, cause = wrong.issue
    text = wrong.source()
    return Program(
        wrong.id, "kernel", text, text, wrong.dtype, source, wrong.date, cause, wrong.mode, wrong.function
    )  # fmt: skip


# By table: the kind of program, the module that the functions are in, and both functions and the mistake's name of an
# entry.
_TABLES: dict[str, tuple[str, ModuleType, dict[str, Any], Any, Any]] = {
    "merge": ("merge", joins, joins.WRONG, lambda x: (x[0], None), lambda x: x[1]),
    "merge_backward": ("merge", joins, joins.WRONG_BACKWARD, lambda x: (joins.divided_last, x[0]), lambda x: x[1]),
    "lists": ("lists", lists, lists.WRONG_LISTS, lambda x: (x[0], None), lambda x: x[1]),
    "lists_backward": ("lists", lists, lists.WRONG_GRADIENTS, lambda x: (lists.at_once, x[0]), lambda x: x[1]),
    "pages": ("pages", lists, lists.WRONG_PAGES, lambda x: x[0], lambda x: x[1]),
    "eight": ("eight", eights, eights.WRONG, lambda x: (eights.E4M3, *x[:2]), lambda x: x[2]),
    "step": ("step", test_parallel, test_parallel.WRONG, lambda x: (x, None), lambda x: "shard-mask"),
    "step_backward": (
        "step", test_parallel, test_parallel.WRONG_BACKWARD, lambda x: (test_parallel.step, x),
        lambda x: "shard-gradient",
    ),
}  # fmt: skip


def _of_functions(id: str, kind: str, module: ModuleType, made: Any, **more: str) -> Program:
    dtype = made[0] if kind == "eight" else "float32"
    return Program(id, kind, made, inspect.getsource(module), dtype, **more)


def bugs() -> list[Program]:
    """All bugs that stand for a public thread or commit."""
    found = [_of_kernel(wrong) for wrong in catalogue(*FILES) if wrong.issue is not None]
    for one in tomllib.loads(ELSEWHERE.read_text(encoding="utf-8"))["wrong"]:
        kind, module, table, made, _ = _TABLES[one["table"]]
        more = dict(zip(("source", "cause"), one["issue"], strict=True))
        found.append(_of_functions(one["id"], kind, module, made(table[one["id"]]), date=one["date"], **more))
    return found


def wrong_functions() -> list[tuple[Program, str]]:
    """Every wrong merge, list, page, kernel of eight bits and step of the tests, with the name of its mistake."""
    return [
        (_of_functions(id, kind, module, made(entry)), named(entry))
        for kind, module, entries, made, named in _TABLES.values()
        for id, entry in entries.items()
    ]


def right_programs() -> list[Program]:
    """Right kernels, merges, lists, pages, kernels of eight bits and steps."""
    texts = {base: (HERE / "wrong" / f"{base}.py").read_text(encoding="utf-8") for base in BASES}
    found = [Program(base, "kernel", text, text) for base, text in texts.items()]
    found += [
        Program(name, "honest", how, inspect.getsource(honest), "bfloat16" if how.store else "float32")
        for name, how in honest.VARIANTS.items()
        if name in HONEST
    ]
    gradients = {fn: joins.backward for fn in joins.RIGHT if fn not in (joins.many, joins.one_after_another)}
    found += [_of_functions(fn.__name__, "merge", joins, (fn, gradients.get(fn))) for fn in joins.RIGHT]
    found += [_of_functions(name, "lists", lists, made) for name, made in lists.RIGHT_LISTS.items()]
    found += [_of_functions(name, "pages", lists, fn) for name, fn in lists.RIGHT_PAGES.items()]
    found += [_of_functions(name, "eight", eights, made) for name, made in eights.RECIPES.items()]
    steps = (
        (test_parallel.step, test_parallel.backward),
        (test_parallel.by_position, test_parallel.backward_by_position),
        (test_parallel.online, None),
    )
    found += [_of_functions(fn.__name__, "step", test_parallel, (fn, back)) for fn, back in steps]
    return found

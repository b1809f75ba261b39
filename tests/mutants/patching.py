"""One change of the package's source, made in the running process.

The changed source is compiled, and every function whose code it changes gets the new code, wherever it is referred to:
methods, closures and lambdas in tables as well. A constant of a module is replaced in every module that imported it.
"""

import ast
import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import attnprune_verify
from tests.mutants.operators import edited

ROOT = Path(attnprune_verify.__file__).parent


@dataclass(frozen=True)
class Mutant:
    """A mistake in one file: an operator at a place of a function, or a text that is once in it, and its substitute.

    Attributes
    ----------
    id : short name
    file : path below the package
    place : the function, one of `operators.OPERATORS`, and the number of the place, ``mu left 2``
    old, new : texts, where no operator makes the mistake
    catcher : test that fails then, ``path::name``; parts of the name in brackets may be left out
    why : what the change would mean; for a survivor of the first release its name there
    """

    id: str
    file: str
    catcher: str
    old: str = ""
    new: str = ""
    place: str = ""
    why: str = ""

    def sources(self) -> tuple[str, str]:
        """The file as it is, and as it is changed."""
        text = (ROOT / self.file).read_text("utf-8")
        if self.place:
            return text, edited(text, *self.place.split(" ", 1))
        if text.count(self.old) != 1:
            raise ValueError(f"{self.id}: {self.old!r} must stand once in {self.file}; it does {text.count(self.old)}x")
        return text, text.replace(self.old, self.new)

    @property
    def module(self) -> ModuleType:
        """The module, loaded."""
        return import_module(".".join(("attnprune_verify", *Path(self.file).with_suffix("").parts)))


def apply(mutant: Mutant) -> int:
    """Make the change in this process, for good; how many functions and constants it reached.

    Raises
    ------
    ValueError
        If the text is not there, or the change reaches nothing.
    """
    before, after = mutant.sources()
    path = str(mutant.module.__file__)
    pairs = [*zip(_codes(compile(before, path, "exec")), _codes(compile(after, path, "exec")), strict=True)]
    changed = {_place(old): new for old, new in pairs[1:] if _own(old) != _own(new)}
    reached = 0
    for found in gc.get_objects():
        if isinstance(found, FunctionType) and found.__code__.co_filename == path:
            new = changed.get(_place(found.__code__))
            if new is not None:
                found.__code__ = new
                reached += 1
    reached += _constants(mutant.module, before, after)
    if not reached:
        raise ValueError(f"{mutant.id}: the change reaches nothing")
    return reached


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _place(code: CodeType) -> tuple[Any, ...]:
    return code.co_qualname, code.co_firstlineno, *next(iter(code.co_positions()), ())[2:], _first_column(code)


def _first_column(code: CodeType) -> tuple[Any, ...]:
    """Lambdas of one line are told apart by where their instructions stand."""
    return min((place for place in code.co_positions() if None not in place), default=())


def _own(code: CodeType) -> tuple[Any, ...]:
    """What a function does itself, or by a function inside it."""
    inside = tuple(_own(one) if isinstance(one, CodeType) else (type(one), one) for one in code.co_consts)
    return code.co_code, inside, code.co_names


def _constants(module: ModuleType, before: str, after: str) -> int:
    """Replace the assignments at the top of the module that differ."""
    reached = 0
    for old, new in zip(ast.parse(before).body, ast.parse(after).body, strict=True):
        if isinstance(new, ast.Assign | ast.AnnAssign) and ast.dump(old) != ast.dump(new) and new.value is not None:
            target = new.target if isinstance(new, ast.AnnAssign) else new.targets[0]
            assert isinstance(target, ast.Name)
            value = eval(compile(ast.Expression(new.value), "<mutant>", "eval"), dict(vars(module)))
            former = getattr(module, target.id)
            for one in [*sys.modules.values()]:
                if getattr(one, "__dict__", {}).get(target.id) is former:
                    setattr(one, target.id, value)
                    reached += 1
    return reached

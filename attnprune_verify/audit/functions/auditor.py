"""Runs checks on a subject and turns findings into records: waivers, diagnosis, the smallest instance, the snippet."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.audit.contract import FUNCTIONS, is_kernel
from attnprune_verify.audit.examiner import Examiner
from attnprune_verify.audit.functions.checks import chosen_checks
from attnprune_verify.audit.functions.context import MOST_CALLS, Context
from attnprune_verify.audit.functions.layer.bridge import FACTS, MODULE
from attnprune_verify.audit.functions.layer.sample import LAYERED
from attnprune_verify.audit.functions.namer import Namer
from attnprune_verify.audit.functions.naming.snippet import as_code, audit_code
from attnprune_verify.audit.functions.probes import probe
from attnprune_verify.audit.functions.truth.precision import precision_named
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.naming.searching import searching
from attnprune_verify.audit.record import Call, Check, Finding, Record
from attnprune_verify.audit.subject.answers import NoAnswer
from attnprune_verify.audit.subject.functions import printable
from attnprune_verify.audit.subject.process import Subject
from attnprune_verify.audit.waivers import Waiver
from attnprune_verify.errors import InvalidInstance

NAMES = ("all", "first", "never")
"""The failures of a function whose mistake is looked for."""
_LONG = ("values:larger", "values:sizes", "values:together", "values:batch-together", "rare-errors", "long", "larger")
"""The checks that take longest, by the seconds in a JUnit report: left out where quick."""

_BRIDGED = (*LAYERED, *(name for name, signature in FUNCTIONS.items() if "rho" in signature.arguments))
"""What takes layers, or may declare a convention."""
_MOST_SHRUNK = 3  # mistakes of a function that are shown on a smaller instance


class Auditor(Examiner):
    """One target, one seed; a context manager that holds the subject's process.

    Raises
    ------
    InvalidInstance
        On entering: if TARGET cannot be read or imported, or has none of the contract's names.
    """

    functions, elsewhere = FUNCTIONS, "; a function of q, k, v is for audit-kernel"
    context: Context

    def __init__(
        self,
        target: object,
        seed: int = 0,
        waivers: tuple[Waiver, ...] = (),
        only: tuple[str, ...] = (),
        dtype: str | None = None,
        adapter: str = "",
        *,
        names: str = NAMES[0],
        quick: bool = False,
    ) -> None:
        super().__init__(target, seed, waivers, adapter)
        self.only, self.names, self.quick = only, names, quick
        self._looked_for: set[str] = set()
        # A framework's threads do not survive a fork.
        self._forked = self.target.kind != "live" or not _of_framework(self.target.object)
        self.subject = self.opened()
        self.context = Context(self.subject, seed, precision_named(dtype))
        self._probed: set[str] = set()
        self._shrunk: set[tuple[str, tuple[str, ...]]] = set()
        self.namer = Namer(self.context, self.reopened if self._forked else None)

    def opened(self) -> Subject:
        return Subject(self.target, (*FUNCTIONS, FACTS), (MODULE, *LAYERED), bridged=_BRIDGED, forked=self._forked)

    def begin(self) -> None:
        super().begin()
        if set(self.subject.functions) == {"attention"} and is_kernel(self.subject.functions["attention"]):
            title = self.target.title
            raise InvalidInstance(
                f"attention must take (X, W, mask=None); that of {title!r} takes q, k, v: use audit-kernel"
            )
        if FACTS in self.subject.functions:
            facts = json.loads(bytes(self.subject.call(FACTS, []).parts[0].astype(np.uint8)))
            self.context.declares(facts["CONVENTIONS"], facts["PATTERNS"])

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks to run, after the selection by `only`."""
        return chosen_checks(self.only)

    @property
    def dtype(self) -> str | None:
        return self.context.declared.name if self.context.declared.declared else None

    @property
    def largest(self) -> dict[str, tuple[int, int]]:
        return self.context.each("largest")

    @property
    def matrices(self) -> dict[str, tuple[int, int]]:
        return self.context.each("matrix")

    @property
    def notes(self) -> dict[str, str]:
        said = super().notes
        for name, kinds in self.context.each("refused").items():
            refused = f"refuses {', '.join(sorted(kinds))}"
            said[name] = f"{refused}; {said[name]}" if name in said else refused
        return said

    def prepare(self, function: str) -> None:
        if function not in self._probed:
            probe(self.context, function)
            self._probed.add(function)

    def _finding(self, check: Check) -> Finding:
        if self.quick and check.name in _LONG:
            return Finding("not_applicable", "left out, as quick says")
        return super()._finding(check)

    def _names_it(self, name: str) -> bool:
        """Return True where the mistake behind one more failure of a function is looked for."""
        first = name not in self._looked_for
        self._looked_for.add(name)
        return self.names == "all" or (self.names == "first" and first)

    def _explained(self, check: Check, finding: Finding) -> Record:
        """The record, with diagnosis, smallest instance and snippet if there is a failure to explain."""
        ids, words = finding.ids, "; ".join(SENTENCES[id] for id in finding.ids if id != "unknown")
        snippet = instance = None
        if finding.status == "failed" and not self._names_it(check.function):
            ids, words = ids or ("unknown",), words or "its name was not looked for, as the option for names says"
        elif finding.status == "failed":
            found = self.namer.name(check, finding)
            ids, words = found.ids, found.words
            if ids == ("stateful",) and finding.call is not None:  # a call of the same shape goes before it
                finding = replace(finding, shrink=None, call=replace(finding.call, earlier=_mirrored(finding.call)))
            smaller = self._smaller(check, finding, ids)
            if ids == ("unknown",) and smaller is not finding and (again := self.namer.on_smaller(check, smaller)):
                ids, words = again.ids, again.words
            finding = smaller
        if finding.status in ("failed", "could_not_run"):
            snippet = self._snippet(check, finding, ids if finding.status == "failed" else ())
        if finding.samples:
            instance = finding.samples[0].describe()
        return Record(
            check.id,
            check.function,
            check.claim,
            check.says,
            check.required,
            finding.status,
            finding.reason,
            ids if finding.status == "failed" else (),
            words,
            finding.error,
            finding.bound,
            finding.power,
            instance,
            self.seed,
            snippet,
        )

    def settled(self, records: list[Record]) -> list[Record]:
        return self.namer.settled(records, self.checks)

    def _smaller(self, check: Check, finding: Finding, ids: tuple[str, ...]) -> Finding:
        """Show the failure on a smaller instance, if there is one; once for every mistake of a function."""
        name = check.function
        known = sum(function == name for function, _ in self._shrunk)
        dear = self.context.of(name).calls > MOST_CALLS // 2
        if finding.shrink is None or (name, ids) in self._shrunk or known >= _MOST_SHRUNK or dear:
            return finding
        self._shrunk.add((name, ids))
        with searching():
            return finding.shrink(ids) or finding
        return finding

    def _returned(self, call: Call, ids: tuple[str, ...]) -> tuple[NDArray[Any], ...]:
        """Call the snippet's function once more and return its result; nothing if results differ from call to call."""
        if not call.expected or call.literal or set(ids) & {"nondeterministic", "wrong-shape"}:
            return ()
        if "cached" in ids and call.earlier is None:
            return ()
        try:
            if call.earlier is not None:
                self.context.call(call.function, call.earlier.arguments, call.earlier.keywords)
            return self.context.call(call.function, call.arguments, call.keywords).parts
        except NoAnswer:
            return ()

    def _snippet(self, check: Check, finding: Finding, ids: tuple[str, ...]) -> str | None:
        """The call as code, in the subject's own order and names."""
        call, name, context = finding.call, check.function, self.context
        if call is None:
            return None
        try:
            theirs, positional = self._placed(call)
            if call.earlier is not None:
                theirs = replace(theirs, earlier=self._placed(call.earlier)[0])
        except NoAnswer:
            return None
        title = f"{check.id} of the audit of {self.target.title}: {', '.join(ids) or finding.status}"
        return as_code(
            self.subject,
            theirs,
            positional,
            title=printable(title),
            parts=_parts(name, context.of(name).returned),
            ids=ids,
            tensors=context.of(name).tensors,
            returned=self._returned(call, ids),
        ) or audit_code(self.subject, check.id, self.seed, self.dtype)

    def _placed(self, call: Call) -> tuple[Call, list[str]]:
        """The call in the subject's order, and the names of its positional arguments."""
        given = (call.function, call.arguments, call.keywords)
        placed, keywords, names = self.context.placed(*given, literal=call.literal)
        positional = names[: len(placed)]
        return replace(call, arguments=dict(zip(positional, placed, strict=True)), keywords=keywords), positional


def _mirrored(call: Call) -> Call:
    """A call with the matrix turned over, of which no result is compared."""
    (name, matrix), *rest = call.arguments.items()
    return replace(call, arguments={name: matrix[::-1, ::-1].copy(), **dict(rest)}, expected=None)


def _parts(function: str, returned: int) -> tuple[str, ...]:
    """The names of what a function returns, where it is more than one thing; attributes with a dot in front."""
    signature = FUNCTIONS[function]
    if signature.part_names:
        return signature.part_names
    return ("new_weight", "pruned") if signature.parts == 0 and returned == 2 else ()


def _of_framework(holder: object) -> bool:
    """Return True where a live target, or one of its functions, declares that it computes with torch or jax."""
    static = inspect.getattr_static  # what a property does is done in the subject's process
    functions = (holder.get(name) if isinstance(holder, dict) else static(holder, name, None) for name in FUNCTIONS)
    return any(static(one, "FRAMEWORK", "numpy") in ("torch", "jax") for one in (holder, *functions))

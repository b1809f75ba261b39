"""`EightAuditor`: the audit of a kernel of eight bits, held to the recipe that it declares."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from attnprune_verify.audit.contract import Signature
from attnprune_verify.audit.examiner import Examiner
from attnprune_verify.audit.kernel.auditor import FUNCTIONS, KernelAuditor
from attnprune_verify.audit.kernel.eight.checks import EightContext, WrongEight, eight_checks
from attnprune_verify.audit.kernel.eight.names import named
from attnprune_verify.audit.kernel.eight.problems import ProblemMaker
from attnprune_verify.audit.kernel.options import NOTHING_CHOSEN, Options, as_given
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS, of_recipe
from attnprune_verify.audit.kernel.problem.recipe import STORED, TO_PASTE, Recipe, Storage
from attnprune_verify.audit.kernel.problem.sample import FORWARD
from attnprune_verify.audit.kernel.process import bridged_eight
from attnprune_verify.audit.kernel.process.bridge import FACTS
from attnprune_verify.audit.kernel.typing import Plain
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.record import Check, Coverage, Diagnosis, Finding, Record, chosen
from attnprune_verify.audit.waivers import Waiver
from attnprune_verify.errors import InvalidInstance

_OF_FUNCTIONS = {name: FUNCTIONS[name] for name in (FORWARD, "attention_backward")}


class EightAuditor(KernelAuditor):
    """One kernel of eight bits, one recipe, one seed: forward.

    Raises
    ------
    InvalidInstance
        On entering: if the kernel declares no recipe, or a wrong one, or one without this format.
    """

    functions: dict[str, Signature] = _OF_FUNCTIONS
    context: EightContext

    def __init__(
        self,
        target: object,
        dtype: str,
        seed: int = 0,
        waivers: tuple[Waiver, ...] = (),
        options: Options = NOTHING_CHOSEN,
        declared: Plain | None = None,
    ) -> None:
        if options.modes:
            raise InvalidInstance(f"modes must be none beside {dtype}; got {', '.join(options.modes)}")
        bare = Options(options.quick, (), options.names, (), options.device)
        super().__init__(target, "bfloat16", seed, waivers, bare, declared)
        self.options, self._dtype, self._wrong = options, dtype, list[WrongEight]()
        self._checks, self._unused = chosen(eight_checks(), options.only), tuple[str, ...]()
        self._through = (bridged_eight.__name__, dtype, options.device, as_given(declared or {}))
        self.subject = self.opened()

    def begin(self) -> None:
        Examiner.begin(self)
        facts = self._facts()
        recipe = _recipe(facts.get("recipe"), self._dtype)
        spelled: dict[str, str] = facts.get("scales", {})
        scales = tuple(part for part in spelled if recipe.given_as(part) in EIGHT_BITS)
        self._unused = tuple(name for part, name in spelled.items() if part not in scales)
        self.precision = of_recipe(self._dtype, recipe, Storage())
        self.context = EightContext(self.subject, self.seed, PRECISIONS["bfloat16"])
        declared = self.context.declared
        self.context.problems = ProblemMaker(
            self._dtype, recipe, scales, declared.scope, declared.conventions, self.seed
        )
        self.context.open = any(part.open for part in declared.parameters.values()) or not declared.parameters

    def _facts(self) -> Plain:
        if FACTS not in self.subject.functions:
            raise InvalidInstance(f"TARGET must have attention beside {self._dtype}; {self.target.title!r} has none")
        found: Plain = json.loads(bytes(self.subject.call(FACTS, []).parts[0].astype(np.uint8)))
        return found

    @property
    def notes(self) -> dict[str, str]:
        """A line about the recipe."""
        recipe = self.context.problems.recipe
        said = f"{self.context.declared.framework}, {self._dtype}, RECIPE = {json.dumps(recipe.as_declared())}"
        return {FORWARD: f"{said}, sizes up to {self.context.functions[FORWARD].largest}, forward only"}

    @property
    def coverage(self) -> Coverage:
        """Keywords and sizes that were judged, and parameters that no check has passed."""
        facts, mine = self.context.functions[FORWARD], self.context.declared.parameters.get(FORWARD)
        lengths = sorted({shape[4] for shape in facts.shapes})
        judged = ["plain", *sorted(facts.passed), "forward only in eight bits"]
        judged += [f"l = {lengths[0]} to {lengths[-1]}"] if lengths else []
        passed = facts.passed | (set(mine.own) if mine and self.options.only else set())
        own = () if mine is None else (*mine.foreign, *(own for name, own in mine.own.items() if name not in passed))
        names = (*self._unused, *own)
        left = tuple(name for name in names if name not in self.context.declared.ignored)
        return Coverage(tuple(judged), left, (), self.options.quick)

    @property
    def counterexample(self) -> Plain | None:
        return None

    def _explained(self, check: Check, finding: Finding) -> Record:
        """The record; the mistake behind failures of numbers gets its name when all are known."""
        self._wrong += [part for part in finding.samples if isinstance(part, WrongEight)]
        words = "; ".join(SENTENCES[id] for id in finding.ids)
        problem = finding.samples[0].problem if finding.samples else None
        return Record(
            check.id, check.function, check.claim, check.says, check.required, finding.status, finding.reason,
            finding.ids, words, finding.error, finding.bound, finding.power,
            None if problem is None else problem.sample.describe(), self.seed,
        )  # fmt: skip

    def settled(self, records: list[Record]) -> list[Record]:
        """The records, those of wrong numbers with the name of the mistake behind all of them."""
        if not self._wrong:
            return records
        looked_for = self.options.names != "never"
        found = named(self._wrong) if looked_for else Diagnosis((), "its name was not looked for, as names says")
        return [
            replace(record, diagnosis=found.ids, words=found.words)
            if record.status == "failed" and not record.diagnosis
            else record
            for record in records
        ]


def auditor_of(
    target: object,
    dtype: str = "float32",
    seed: int = 0,
    waivers: tuple[Waiver, ...] = (),
    options: Options = NOTHING_CHOSEN,
    declared: Plain | None = None,
) -> KernelAuditor:
    """Return the auditor of a precision: of eight bits one that holds the kernel to its recipe."""
    kind = EightAuditor if dtype in EIGHT_BITS else KernelAuditor
    return kind(target, dtype, seed, waivers, options, declared)


def _recipe(given: object, dtype: str) -> Recipe:
    if given is None:
        raise InvalidInstance(
            f"dtype {dtype} needs a recipe, what the kernel stores in which format; the target declares no RECIPE; "
            f"paste this line into the module, or pass it as recipe=, and change what differs: {TO_PASTE}"
        )
    recipe = Recipe.declared(given)
    formats = [recipe.format_of(name) for name in (*STORED, "p")]
    if dtype not in formats:
        raise InvalidInstance(f"dtype must be a format that RECIPE has for q, k, v or p; got {dtype!r} for {formats}")
    return recipe

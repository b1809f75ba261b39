"""The checks of index lists and pages: their samples, and the mistake behind those that fail."""

from __future__ import annotations

from collections.abc import Mapping

from attnprune_verify.audit.kernel.problem.features import feature_named
from attnprune_verify.audit.kernel.problem.integer_cases import CASES, PAGES, integers_of, page_sizes
from attnprune_verify.audit.kernel.problem.integers import ListedSample
from attnprune_verify.audit.kernel.problem.precision import LOWER
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, KernelSample
from attnprune_verify.audit.kernel.process.context import KernelContext
from attnprune_verify.audit.kernel.process.facts import Refused
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.record import Check
from attnprune_verify.audit.subject.answers import NoAnswer

_MISTAKES = {
    "padding": "index-padding", "duplicates": "index-duplicates", "shared": "index-duplicates",
    "bounds": "index-bounds", "longer": "index-bounds", "order": "index-bounds", "other-lists": "heads-mixed",
    "heads": "heads-mixed", "groups": "heads-swapped", "table": "page-table", "batch": "page-table",
    "size": "page-table", "many": "page-table", "tail": "page-tail", "unnamed": "nan-leak", "scale": "missing-scale",
    "lse": "lse-wrong",
}  # fmt: skip
"""By the trait that all failing cases have."""
_BACKWARD = {"groups": "gqa-gradient-not-summed", "lse": "lse-gradient"}
_TIMES = 8  # chosen: of what rounding explains; a wrong key is far more, a number rounded once more is less
_TILE = 16  # chosen: the smallest tile of kernels


def integer_samples(context: KernelContext, function: str, check: str) -> tuple[KernelSample, ...]:
    """The cases of a check, with pages of a size that the kernel takes."""
    maker = context.maker
    if context.scope.causal and not context.declared.conventions.bottom_right:
        raise Refused("index lists and pages are judged beside causal_only where causal_alignment is bottom-right")
    size = _page_size(context, function) if CASES[_first(check)].parameter == PAGES else 0
    found = (_made(context, name, size) for name, case in CASES.items() if case.check == check)
    samples = tuple(sample for sample in found if sample is not None)
    if not samples:
        raise Refused(
            f"no page size of this kernel is one of {', '.join(map(str, page_sizes(maker))) or 'those tried'}"
        )
    return samples


def integer_mistake(context: KernelContext, function: str, failing: tuple[KernelSample, ...]) -> str:
    """Return the id of the mistake behind failing cases: of the rarest trait that all of them have."""
    names = {sample.name for sample in failing}
    traits = {trait: {name for name, case in CASES.items() if trait in case.traits} for trait in _traits()}
    if all(_rounded(context, function, sample) for sample in failing):
        return "low-precision"
    fitting = [trait for trait, having in traits.items() if names <= having]
    if fitting:
        trait = min(fitting, key=lambda trait: len(traits[trait]))
        known = _MISTAKES | (_BACKWARD if function == BACKWARD else {})
        return known.get(trait, feature_named(trait).mistake) or "unknown"
    return _of_all(context, function, failing)


def _rounded(context: KernelContext, function: str, sample: KernelSample) -> bool:
    """Report whether an answer is off by a few times what rounding explains, and right in a lower precision."""
    reply = context.known(function, sample)
    if reply is None or misshapen(function, sample, reply) is not None:
        return False
    own = judge(function, sample, reply.parts)
    lower = (judge(function, sample, reply.parts, precision).status for precision in LOWER[sample.precision.name])
    return own.error <= _TIMES * own.bound and any(status != "failed" for status in lower)


def integer_mistakes(context: KernelContext, failing: Mapping[Check, tuple[KernelSample, ...]]) -> dict[str, str]:
    """Return the mistakes by the ids of checks: one behind all failures of a function, where one trait has them."""
    found = {}
    for check in failing:
        of_kind = check.function, integers_of(check)
        alike = [samples for like, samples in failing.items() if (like.function, integers_of(like)) == of_kind]
        every = tuple(sample for samples in alike for sample in samples)
        ids = (integer_mistake(context, check.function, samples) for samples in (every, failing[check]))
        found[check.id] = next((id for id in ids if id != "unknown"), "unknown")
    return found


def _of_all(context: KernelContext, function: str, failing: tuple[KernelSample, ...]) -> str:
    """The mistake behind failures of cases without a common trait: a tile's rest, or lists that are not read."""
    listed = [sample for sample in failing if isinstance(sample, ListedSample)]
    if len(listed) != len(failing):
        sixteen = context.rows.get(("integers", "pages of 16", _TILE))
        return "page-table" if sixteen is not None and sixteen not in failing else "unknown"
    whole = context.rows.get(("integers", "lists of 64 entries", 0))
    plain = any(not CASES[sample.name].traits for sample in listed)
    rest = all(sample.indices.shape[3] % _TILE for sample in listed)
    if plain and rest and whole is not None and whole not in failing:
        return "index-bounds"
    first = min(listed, key=lambda sample: sample.work)
    reply = context.known(function, first)
    dense = first.ordinary
    if reply is not None and judge(function, dense, reply.parts).status != "failed":
        return "index-bounds"
    return "unknown"


def _traits() -> set[str]:
    return {trait for case in CASES.values() for trait in case.traits}


def _first(check: str) -> str:
    return next(name for name, case in CASES.items() if case.check == check)


def _made(context: KernelContext, name: str, page_size: int) -> KernelSample | None:
    key = "integers", name, page_size
    if key not in context.rows:
        sample = CASES[name].make(context.maker, name, page_size)
        if sample is None:
            return None
        context.rows[key] = context.meant(sample)
    return context.rows[key]


def _page_size(context: KernelContext, function: str) -> int:
    """The first size of pages that the kernel does not refuse."""
    sizes = page_sizes(context.maker)
    for size in sizes:
        sample = _made(context, "a page", size)
        try:
            if sample is not None:
                context.answer(function, sample)
        except Refused:
            continue
        except NoAnswer:
            pass
        return size
    return sizes[0] if sizes else 0

"""Find out which sizes a kernel takes, and whether it must be causal or has one query, where nothing declares it.

Sizes are tried from small to large: in the plain case, then causal, then with one query. From the first that are taken,
each axis is tried apart. A kernel that takes small and odd sizes at once is asked nothing more than its checks ask.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD, KernelSample
from attnprune_verify.audit.kernel.problem.scope import ANY_SIZE, AXES, Extent, KernelScope, described
from attnprune_verify.audit.kernel.process.bridge import ORDERS
from attnprune_verify.audit.kernel.process.context import KernelContext, overflows
from attnprune_verify.audit.kernel.process.facts import Refused
from attnprune_verify.audit.kernel.process.shapes import misshapen
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.subject.answers import NoAnswer

LADDER = ((4, 8), (16, 16), (64, 64), (128, 64), (256, 128))
"""Pairs of tokens and features, tried in turn. Chosen: the plain sample's, then the tiles of most kernels."""
_TOKENS = (1, 7, 8, 16, 32, 48, 64, 96, 100, 128, 192, 256, 384)  # chosen: tiles of kernels, sizes between and beside
_FEATURES = (1, 5, 8, 16, 32, 64, 80, 96, 128, 256)  # chosen: head sizes of models, sizes below and odd ones
_FEW = {"batch": (1, 2, 17), "heads": (1, 2, 3, 4, 17)}  # chosen: small ones, and a prime above a tile of 16


def probe_scope(context: KernelContext) -> KernelScope:
    """Return the scope in which the kernel answers: the declared one, or what calls show where it declares nothing."""
    functions = tuple(name for name in (FORWARD, BACKWARD) if name in context.subject.functions)
    for asked in dict.fromkeys((functions, functions[:1])):
        for scope in _cases(context.declared.scope):
            context.scope = scope
            for rung in LADDER:
                if _taken(context, asked, _sized(context, *rung)):
                    return _beside(context, asked, *rung)
    return context.declared.scope


def _cases(declared: KernelScope) -> Iterator[KernelScope]:
    yield declared
    if declared.causal is None:
        yield replace(declared, causal=True)
    if declared.extent("n") == ANY_SIZE:
        yield declared.with_extents(n=Extent((1,)))


def _sized(context: KernelContext, tokens: int, features: int, heads: int = 1, batch: int = 1) -> KernelSample:
    """A plain sample near these sizes; the first one is that of the regime, whose answer is kept."""
    if (tokens, features, heads, batch) == (*LADDER[0], 1, 1):
        return context.regimes()["plain"].samples[0]
    return context.meant(context.maker.make(f"{tokens} x {features}", tokens, features, heads=heads, batch=batch))


def _taken(context: KernelContext, functions: tuple[str, ...], sample: KernelSample) -> bool:
    """Report whether functions answer on a sample, or fail in a way that is no refusal."""
    for function in functions:
        try:
            context.answer(function, sample)
        except Refused:
            if not context.functions[function].refuses_all:
                return False
        except NoAnswer as none:
            if none.raised and not overflows(none):
                return False
    return True


def _beside(context: KernelContext, functions: tuple[str, ...], tokens: int, features: int) -> KernelScope:
    """Try each axis apart, and return the sizes that are taken."""
    scope = context.scope
    if scope.causal is None and _always_causal(context):
        scope = replace(scope, causal=True)
        context.scope = scope
    if any(extent != ANY_SIZE for extent in context.declared.scope.extents):
        return scope
    plain, largest = context.regimes()["plain"].samples, context.regimes()["head sizes"].samples[-1]
    if (tokens, features) == LADDER[0] and all(
        _taken(context, functions, one) for one in (plain[1], plain[-1], largest)
    ):
        return scope
    found: dict[str, Extent] = {}
    for axis, sizes in {"tokens": _TOKENS, "features": _FEATURES, **_FEW}.items():
        asked = {size: {"tokens": tokens, "features": features, axis: size} for size in sizes}
        asked |= {tokens: {"tokens": tokens, "features": features}} if axis == "tokens" else {}
        asked |= {features: {"tokens": tokens, "features": features}} if axis == "features" else {}
        answers = {size: _taken(context, functions, _sized(context, **how)) for size, how in asked.items()}
        taken = [size for size, is_taken in answers.items() if is_taken]
        found[axis] = described(taken, [size for size, is_taken in answers.items() if not is_taken])
    one_query = scope.extent("n") != ANY_SIZE
    of_tokens = {"l": found["tokens"]} if one_query else {"n": found["tokens"], "l": found["tokens"]}
    widths = {"m": found["features"], "mv": found["features"]}
    return scope.with_extents(**of_tokens, **widths, batch=found["batch"], heads=found["heads"])


def _always_causal(context: KernelContext) -> bool:
    """Report whether a kernel without a parameter for it returns what a causal one returns."""
    mine = context.declared.parameters.get(FORWARD)
    if mine is None or mine.open or context.has(FORWARD, "causal"):
        return False
    sample = _sized(context, *LADDER[0])
    try:
        reply = context.answer(FORWARD, sample)
    except NoAnswer:
        return False
    if misshapen(FORWARD, sample, reply) is not None or judge(FORWARD, sample, reply.parts).status != "failed":
        return False
    return judge(FORWARD, sample.changed(causal=True), reply.parts).status == "passed"


def _order_taken(context: KernelContext) -> str | None:
    """Return the first other order of axes, of those without an axis or with heads last, in which a call is right."""
    if FORWARD not in context.functions or context.functions[FORWARD].given_up:
        return None
    sample = _sized(context, *LADDER[0])
    for order in map(str, reversed(ORDERS[1:])):
        reply = context.in_order(order, FORWARD, sample)
        if reply is not None and misshapen(FORWARD, sample, reply) is None:
            if judge(FORWARD, sample, reply.parts).status == "passed":
                return order
    return None


def to_declare(context: KernelContext) -> tuple[str, ...]:
    """Return the lines that a module lacks: those of the scope that was found, or that describe the sizes refused."""
    declared, scope = context.declared, context.scope
    answers = [pair for facts in context.functions.values() for pair in facts.sizes.items()]
    if not any(is_taken and max(shape) > 1 for shape, is_taken in answers) and (order := _order_taken(context)):
        return (f'LAYOUT = "{order}"',)
    if not any(is_taken for _, is_taken in answers):
        return ('SIZES = {"n": ..., "l": ..., "m": ..., "mv": ..., "heads": ..., "batch": ...}',) if answers else ()
    if scope == declared.scope:
        for place, axis in enumerate(AXES[: AXES.index("group")]):
            taken = {shape[place] for shape, is_taken in answers if is_taken}
            left = {shape[place] for shape, _ in answers} - taken
            if left and axis != "kv_heads":
                listed = tuple(size for size in declared.scope.extent(axis).values if size not in left)
                scope = scope.with_extents(**{axis: Extent(listed) if listed else described(taken, left)})
    if scope == declared.scope:
        return ()
    return scope.source(declared.capabilities)

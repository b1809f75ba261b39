"""Programs called as users do in tests: normal numbers, usual sizes, one part of the contract at a time."""

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import attnprune_verify as apv
from attnprune_verify.audit.kernel.eight.problems import ProblemMaker
from attnprune_verify.audit.kernel.merges.parallel import _Ring
from attnprune_verify.audit.kernel.problem.conventions import Conventions
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.recipe import STORED, Recipe
from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.problem.scope import ANYTHING
from attnprune_verify.audit.kernel.process.frameworks import framework_named
from attnprune_verify.audit.kernel.tensors.interval import AttentionInterval
from attnprune_verify.audit.kernel.tensors.problem import GivenProblem, problem_of
from attnprune_verify.audit.kernel.truth.truth import truth
from benchmarks.bank.programs import Program
from benchmarks.bank.rules import Array, Result
from benchmarks.other_tolerance import hipdnn_tolerance
from tests.audit.kernel import eights, joins, lists, test_parallel
from tests.audit.kernel.eight_quotients import answer
from tests.audit.kernel.kill_matrix import HERE

SIZES = ((2, 2, 2, 128, 128, 64), (1, 4, 2, 113, 203, 64), (2, 4, 2, 1, 256, 128))
"""Samples, heads, key heads, queries, keys, features; of tests that people have: a tile, odd numbers, decoding."""
_PARTS = ("mask", "padding mask", "window", "softcap", "alibi", "bias", "sinks", "dropout", "packed", "dlse")
_PAIRS = ("packed, causal, window", "packed, softcap", "causal, softcap", "causal, bias, window")
FEATURES = ("plain", "causal", *_PARTS, *_PAIRS)
_GRADIENTS = ("dq", "dk", "dv")
_STORED = (
    ("    s = (q @ turned(k)) * q.dtype.type(scale)", "    s = KEPT(q @ turned(k)) * q.dtype.type(scale)"),
    ("    p, lse, _ = softmax(s, sinks)", "    p, lse, _ = softmax(s, sinks)\n    p = KEPT(p)"),
    ("    p, _, sunk = softmax(s, sinks)", "    p, _, sunk = softmax(s, sinks)\n    p = KEPT(p)"),
    ("    dp = (do @ turned(v)) * kept", "    dp = KEPT(do @ turned(v)) * kept"),
    ("    ds = p * (dp - mean)", "    ds = KEPT(p * (dp - mean))"),
)
"""What makes the right kernel one that stores every intermediate in the format of its inputs."""


def loaded(text: str, **names: Any) -> SimpleNamespace:
    """The names that a program's text defines."""
    space = {"__name__": "program", **names}
    exec(compile(text, "program", "exec"), space)
    return SimpleNamespace(**space)


@cache
def _plain(dtype: str) -> SimpleNamespace:
    text = (HERE / "wrong" / "parts.py").read_text(encoding="utf-8")
    for old, new in _STORED:
        assert old in text
        text = text.replace(old, new)
    kept = precision_named(dtype).exact
    return loaded(text, KEPT=lambda x: x if dtype == "float32" else kept(x).astype(x.dtype))


def _made(dtype: str, values: Array) -> Any:
    return framework_named("numpy", dtype).made(precision_named(dtype).laid_down(values), "plain")


def _drawn(rng: np.random.Generator, dtype: str, *shape: int) -> Any:
    return _made(dtype, precision_named(dtype).exact(rng.standard_normal(shape)))


def _options(feature: str, rng: np.random.Generator, size: tuple[int, ...]) -> dict[str, Any]:
    """Keywords of a call with a part of the contract."""
    batch, heads, _, n, length, _ = size
    found: dict[str, Any] = {}
    for part in feature.split(", "):
        found |= {
            "plain": lambda: {},
            "causal": lambda: {"causal": True},
            "mask": lambda: {"mask": rng.random((n, length)) < 0.8},
            "padding mask": lambda: {"mask": np.arange(length) < rng.integers(length // 2, length, (batch, 1, 1, 1))},
            "window": lambda: {"window": 32},
            "softcap": lambda: {"softcap": 20.0},
            "alibi": lambda: {"causal": True, "alibi": 2.0 ** -np.arange(1, heads + 1)},
            "bias": lambda: {"bias": _drawn(rng, "float32", 1, heads, n, length)},
            "sinks": lambda: {"sinks": _drawn(rng, "float32", heads)},
            "dropout": lambda: {"dropout_mask": rng.random((batch, heads, n, length)) < 0.75, "dropout_keep": 0.75},
            "packed": lambda: {f"cu_seqlens_{side}": _starts(rng, n, size) for side in "qk"} if n > 1 else {},
            "dlse": lambda: {"dlse": _drawn(rng, "float32", batch, heads, n)},
        }[part]()
    return found


def _starts(rng: np.random.Generator, n: int, size: tuple[int, ...]) -> Any:
    """Three sequences; queries and keys are equally many."""
    cuts = np.random.default_rng(size).choice(np.arange(2, n), 2, replace=False)
    return np.array([0, *sorted(cuts), n], np.int32)


class Call:
    """Inputs of one call, what is right, what is plain and our interval."""

    def __init__(self, feature: str, size: tuple[int, ...], dtype: str, conventions: tuple[tuple[str, Any], ...]):
        rng = np.random.default_rng([FEATURES.index(feature), *size])
        batch, heads, kv_heads, n, length, m = size
        self.feature, self.dtype, self.options = feature, dtype, _options(feature, rng, size)
        if "cu_seqlens_q" in self.options:
            shapes: tuple[tuple[int, ...], ...] = ((n, heads, m), *2 * ((n, kv_heads, m),), (n, heads, m))
        else:
            shapes = ((batch, heads, n, m), *2 * ((batch, kv_heads, length, m),), (batch, heads, n, m))
        self.arrays = [_drawn(rng, dtype, *shape) for shape in shapes]
        self.problem: GivenProblem = problem_of(
            *self.arrays, dtype=dtype, conventions=dict(conventions), **self.options
        )
        self.interval = AttentionInterval(self.problem, True)
        with np.errstate(all="ignore"):
            self.plain = self.answers(_plain(dtype).attention, _plain(dtype).attention_backward)
        self.derived = hipdnn_tolerance(self.problem.sample)

    def taken(self, fn: Callable[..., Any]) -> bool:
        return {name for name in self.options if name != "dlse"} <= set(inspect.signature(fn).parameters)

    def answers(self, forward: Callable[..., Any], backward: Callable[..., Any] | None) -> dict[str, Array]:
        """Results by name, of copies of the inputs; log sum exp where it is returned."""
        q, k, v, do = (x.copy() for x in self.arrays)
        options = {name: x.copy() if isinstance(x, np.ndarray) else x for name, x in self.options.items()}
        dlse = options.pop("dlse", None)
        with_lse = "return_lse" in inspect.signature(forward).parameters
        found = forward(q, k, v, **options, **({"return_lse": True} if with_lse else {}))
        answers = dict(zip(("o", "lse"), found, strict=True)) if with_lse else {"o": found}
        if backward is not None:
            wanted = tuple(name for name in ("dbias", "dsinks") if name[1:] in options)
            more = {"wanted": wanted} if wanted else {}
            more |= {} if dlse is None else {"dlse": dlse}
            q, k, v, do = (x.copy() for x in self.arrays)
            answers |= dict(zip((*_GRADIENTS, *wanted), backward(q, k, v, do, **options, **more), strict=True))
        return {name: np.asarray(x).astype(float) for name, x in answers.items()}

    def results(self, answers: dict[str, Array]) -> Iterator[Result]:
        for name, found in answers.items():
            true = getattr(self.interval, name).true
            if found.shape != true.shape:
                found = np.full(true.shape, np.nan)
            yield Result(
                name, found, true, self.plain[name], self.dtype, self.derived if name == "o" else None,
                self.interval, "softcap" in self.feature,
            )  # fmt: skip


_call = cache(Call)


def _kernel_results(program: Program) -> Iterator[Result]:
    module = loaded(program.made)
    backward = getattr(module, "attention_backward", None)
    declared = {name: x for name, x in getattr(module, "CONVENTIONS", {}).items() if name != "padding"}
    for call in _calls(program.dtype, declared):
        if not call.taken(module.attention) or ("dlse" in call.options and not _has(backward, "dlse")):
            continue
        if call.feature == "padding mask" and "mask_rank_4" not in getattr(module, "CAPABILITIES", ()):
            continue
        try:
            answers = call.answers(module.attention, backward)
        except Exception:  # of the program
            answers = {"o": np.full(1, np.nan)}
        yield from call.results(answers)


def _has(fn: Callable[..., Any] | None, name: str) -> bool:
    return fn is not None and name in inspect.signature(fn).parameters


def _calls(dtype: str, conventions: dict[str, Any]) -> Iterator[Call]:
    for feature in FEATURES:
        for size in SIZES:
            if size[3] > 1 or "packed" not in feature:
                yield _call(feature, size, dtype, tuple(sorted(conventions.items())))


def _honest_results(program: Program) -> Iterator[Result]:
    for call in _calls(program.dtype, {}):
        sample = call.problem.sample
        if "packed" in call.feature or (program.made.flush and program.dtype == "float16"):
            continue
        answers = {name: call.problem.outward(name, x) for name, x in program.made.all(sample).items()}
        yield from call.results({name: np.asarray(x, float) for name, x in answers.items() if name in call.interval})


def _normal(rng: np.random.Generator, *shape: int) -> Any:
    return _drawn(rng, "float32", *shape)


def _merge_results(program: Program) -> Iterator[Result]:
    """Two halves of the keys of ordinary attention."""
    fn, backward = program.made
    rng = np.random.default_rng(0)
    for keys, m in ((128, 64), (200, 128)):
        q, k, v, do = (_normal(rng, 2, 4, n, m) for n in (64, keys, keys, 64))
        halves = [(k[:, :, a:b], v[:, :, a:b]) for a, b in ((0, keys // 4), (keys // 4, keys))]
        given = []
        for half in halves:
            o, lse = apv.reference_attention(q, *half, return_lse=True)
            given += [o.astype(np.float32), lse.astype(np.float32)]
        wide = [x.astype(float) for x in given]
        many = len(inspect.signature(fn).parameters) == 2
        called = [np.stack(given[::2]), np.stack(given[1::2])] if many else [x.copy() for x in given]
        yield from _compared(("o", "lse"), fn(*called), joins.divided_last(*wide), joins.divided_last(*given))
        if backward is not None:
            pulled = do, _normal(rng, 2, 4, 64)
            right = joins.backward(*wide, *(x.astype(float) for x in pulled))
            names, plain = ("do1", "dlse1", "do2", "dlse2"), joins.backward(*given, *pulled)
            yield from _compared(names, backward(*(x.copy() for x in (*given, *pulled))), right, plain)


def _compared(names: tuple[str, ...], found: Any, true: Any, plain: Any) -> Iterator[Result]:
    for name, *three in zip(names, found, true, plain, strict=True):
        yield Result(name, *(np.asarray(x, float) for x in three), "float32")


def _listed_results(program: Program) -> Iterator[Result]:
    """32 of 256 keys a query; and causal lists, of which early queries fill a part."""
    fn, backward = program.made
    rng = np.random.default_rng(0)
    q, k, v, do = _normal(rng, 2, 4, 64, 64), *(_normal(rng, 2, 2, 256, 64) for _ in "kv"), _normal(rng, 2, 4, 64, 64)
    chosen = np.argsort(rng.random((2, 4, 64, 256)))[..., :32].astype(np.int32)
    for indices in (chosen, np.where(chosen <= 4 * np.arange(64)[:, None] + 3, chosen, -1).astype(np.int32)):
        interval = apv.attention_interval(q, k, v, do, indices=indices)
        plain = dict(zip(_GRADIENTS, lists.gradients(q, k, v, do, indices), strict=True))
        answers = {"o": fn(q, k, v, indices.copy())}
        if backward is not None:
            answers |= dict(zip(_GRADIENTS, backward(q, k, v, do, indices.copy()), strict=True))
        yield from _judged(answers, interval, {"o": lists.at_once(q, k, v, indices), **plain})


def _paged_results(program: Program) -> Iterator[Result]:
    """Three samples of unlike lengths in shuffled pages of 16 tokens; what no table names is random, too."""
    rng = np.random.default_rng(0)
    q, k, v = _normal(rng, 3, 4, 1, 64), _normal(rng, 64, 16, 2, 64), _normal(rng, 64, 16, 2, 64)
    table, lengths = rng.permutation(64)[:36].reshape(3, 12).astype(np.int32), np.array([192, 100, 37], np.int32)
    interval = apv.attention_interval(q, k, v, block_table=table, lengths=lengths)
    found = lists.of_pages(program.made)(q, k, v, table.copy(), lengths.copy(), 16)
    yield from _judged({"o": found}, interval, {"o": lists.in_table(q, k, v, table, lengths)})


def _judged(answers: dict[str, Any], interval: AttentionInterval, plain: dict[str, Any]) -> Iterator[Result]:
    for name, found in answers.items():
        three = (np.asarray(x, float) for x in (found, getattr(interval, name).true, plain[name]))
        yield Result(name, *three, "float32", interval=interval)


def _eight_results(program: Program) -> Iterator[Result]:
    """Normal numbers with scales; the plain program follows the recipe, row by row at once."""
    dtype, recipe, how = program.made
    read = Recipe.declared(recipe)
    taken = () if read.encodes else tuple(name for name in STORED if read.format_of(name) in EIGHT_BITS)
    maker = ProblemMaker(dtype, read, taken, ANYTHING, Conventions(), 0)
    draw = maker.rounded if read.encodes else maker.plain
    fn, right = eights.kernel(recipe, **{**how, "plain": False}), eights.kernel(recipe)
    for n, causal in ((64, False), (128, False), (128, True)):
        problem = draw(f"{n} {causal}", n, n, **({"causal": True} if causal else {}))
        true = truth(problem.sample)["o"].value
        yield Result("o", answer(fn, problem), true, answer(right, problem), dtype)


def _step_results(program: Program) -> Iterator[Result]:
    """Rings of two and four ranks on 48 tokens."""
    step, backward = program.made
    rng, precision = np.random.default_rng(0), precision_named("float32")
    q, k, v, do = (precision.exact(rng.standard_normal((1, 2, 48, 64))) for _ in range(4))
    for causal in (False, True):
        sample = KernelSample("step", precision, q, k, v, do, causal, lse=True)
        for layout in ("contiguous", "zigzag"):
            for ranks in (2, 4):
                ring = _Ring(framework_named("numpy", "float32"), sample, layout, ranks)
                answers, plain = ring.forward(step, None), ring.forward(test_parallel.step, None)
                if backward is not None:
                    answers |= ring.backward(backward)
                    plain |= ring.backward(test_parallel.backward)
                for name, found in answers.items():
                    yield Result(name, found, truth(sample)[name].value, plain[name], "float32")


_KINDS: dict[str, Callable[[Program], Iterator[Result]]] = {
    "kernel": _kernel_results, "honest": _honest_results, "merge": _merge_results, "lists": _listed_results,
    "pages": _paged_results, "eight": _eight_results, "step": _step_results,
}  # fmt: skip


def results(program: Program) -> list[Result]:
    """Every result of every call that users make of a program of its kind."""
    with np.errstate(all="ignore"):
        return list(_KINDS[program.kind](program))

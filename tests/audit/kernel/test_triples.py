"""A kernel that errs only where three features meet fails, whichever three: a right one, wrapped."""

import random
import textwrap
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.audit.kernel.checks.combined_features import combined_features
from attnprune_verify.audit.kernel.options import Options
from attnprune_verify.audit.kernel.problem.interactions import FACTORS, interaction, rows
from attnprune_verify.audit.kernel.problem.sample import BACKWARD, FORWARD
from attnprune_verify.audit.kernel.truth.judge import judge
from attnprune_verify.audit.kernel.truth.steps import evaluate

RIGHT = Path(__file__).parent / "wrong" / "parts.py"
CHECKS = {check.id: check for check in kernel_checks()}
# How a kernel sees that a factor of the covering table is at a level that is not its plain one.
SEEN = {
    ("causal", True): "more.get('causal')",
    ("mask", "scattered"): "more.get('mask') is not None",
    ("lengths", "one query"): "n == 1 < length",
    ("lengths", "fewer queries"): "1 < n < length",
    ("lengths", "more queries"): "n > length",
    ("window", 2): "(more.get('window') or length) < length",
    ("window", 1000): "(more.get('window') or 0) >= length",
    ("softcap", 2.0): "more.get('softcap') is not None",
    ("alibi", True): "more.get('alibi') is not None",
    ("heads", "grouped"): "1 < k.shape[1] < q.shape[1]",
    ("heads", "one key head"): "1 == k.shape[1] < q.shape[1]",
    ("batch", 2): "len(q) > 1",
    ("m", 5): "q.shape[3] == 5",
    ("m", "large"): "q.shape[3] >= 64",
    ("mv", "smaller"): "v.shape[3] < q.shape[3]",
    ("mv", "larger"): "v.shape[3] > q.shape[3]",
    ("scale", 0.3): "more.get('scale') is not None",
    ("level", 100.0): "np.median(abs(q[0, 0, :, 0] * k[0, 0, 0, 0])) > 50",
    ("layout", "heads last or spaced"): "not q.flags.c_contiguous",
    ("bias", "full"): "more.get('bias') is not None and more['bias'].shape[:2] == q.shape[:2]",
    ("bias", "one row for all"): "more.get('bias') is not None and more['bias'].shape[:2] == (1, 1)",
    ("sinks", True): "more.get('sinks') is not None",
    ("dropout", True): "more.get('dropout_mask') is not None",
    ("lse", True): "more.get('return_lse')",
}
WRAPPED = """

import functools
_right, _right_backward = attention, attention_backward


def meet(q, k, v, more):
    if more.get("cu_seqlens_q") is not None:
        return False
    n, length = q.shape[2], k.shape[2]
    return {condition}


def spoiled(results, which):
    found = list(results) if isinstance(results, tuple) else [results]
    place = which % len(found)
    off = np.zeros_like(found[place])
    off.reshape(-1)[-1] = 0.01 * (1 + abs(found[place][np.isfinite(found[place])]).max(initial=0))
    found[place] = found[place] + off
    return tuple(found) if isinstance(results, tuple) else found[0]


@functools.wraps(_right)
def attention(q, k, v, **more):
    found = _right(q, k, v, **more)
    return spoiled(found, 0) if {forward} and meet(q, k, v, more) else found


@functools.wraps(_right_backward)
def attention_backward(q, k, v, do, **more):
    found = _right_backward(q, k, v, do, **more)
    return spoiled(found, {which}) if not {forward} and meet(q, k, v, more) else found
"""
LEFT_OPEN = ({"lse", "sinks"},)  # the contract says nothing of them together


def triples(seed):
    """Yield triples of factors in a random order, each with levels that are not the plain ones, and a function."""
    rng = random.Random(seed)
    every = [one for one in combinations(sorted({factor for factor, _ in SEEN}), 3)]
    rng.shuffle(every)
    for factors in every:
        if any(pair <= set(factors) for pair in LEFT_OPEN):
            continue
        levels = [rng.choice([level for factor, level in SEEN if factor == one]) for one in factors]
        yield tuple(zip(factors, levels, strict=True)), "lse" in factors or rng.random() < 0.5, rng.randrange(3)


DRAWN = [one for one, _ in zip(triples(23), range(10), strict=False)]


def named(case):
    return " ".join(f"{factor}={level}" for factor, level in case[0])


def record_of(path, function):
    with KernelAuditor(str(path), options=Options(names="never")) as auditor:
        return auditor.record(CHECKS[f"{function}:values:together"])


def fails_somewhere(path, function):
    """Report whether a sample of the interactions fails; those after it are not judged."""
    with KernelAuditor(str(path)) as auditor:
        samples = combined_features(auditor.context, function).samples
        parts = ((one, auditor.context.answer(function, one).parts) for one in samples)
        return any(judge(function, sample, answer).status == "failed" for sample, answer in parts)


def wrong_where(case, tmp_path):
    """Write the right kernel, wrong where three features meet; return its file, and which function is wrong."""
    met, forward, which = case
    condition = " and ".join(f"({SEEN[one]})" for one in met)
    path = tmp_path / "kernel.py"
    wrapped = textwrap.dedent(WRAPPED).format(condition=condition, forward=forward, which=which)
    path.write_text(RIGHT.read_text(encoding="utf-8") + wrapped, encoding="utf-8")
    return path, FORWARD if forward else BACKWARD


def test_a_meeting_of_three_features_is_asked_and_judged(tmp_path):
    assert fails_somewhere(*wrong_where(DRAWN[0], tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("case", DRAWN, ids=map(named, DRAWN))
def test_what_errs_only_where_three_features_meet_fails(case, tmp_path):
    assert record_of(*wrong_where(case, tmp_path)).status == "failed"


ALIGNED = """
import numpy as np

CONVENTIONS = {"causal_alignment": "bottom-right"}


def attention(q, k, v, *, causal=False, window=None, return_lse=False):
    n, length = q.shape[2], k.shape[2]
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.dtype.type(q.shape[3]))
    ago = np.arange(n)[:, None] + (length - n if causal else 0) - np.arange(length)
    off = (ago < 0) & causal | (abs(ago) >= (length + n if window is None else window))
    s = np.where(off, -np.inf, s).astype(q.dtype)
    top = np.where(off.all(axis=-1), 0, s.max(axis=-1)).astype(q.dtype)
    p = np.exp(s - top[..., None])
    total = p.sum(axis=-1)
    with np.errstate(divide="ignore"):
        lse = top + np.log(total)
    o = p @ v / np.where(total == 0, 1, total)[..., None]
    return (o, lse) if return_lse else o
"""


def test_a_window_that_ends_at_the_last_key_is_asked_of_few_queries_and_many_keys(tmp_path):
    """A window that is not causal is left open there: that stands for no refusal of windows beside l != n."""
    path = tmp_path / "kernel.py"
    path.write_text(ALIGNED, encoding="utf-8")
    with KernelAuditor(str(path)) as auditor:
        found = combined_features(auditor.context, FORWARD)
        shapes = [(one.q.shape[2], one.k.shape[2], one.causal, one.window) for one in found.samples]
    assert not found.pairs
    assert any(n == 1 and length >= 1024 and window == 2 for n, length, _, window in shapes)
    assert all(causal for n, length, causal, window in shapes if window and n != length)
    assert max(n for n, *_ in shapes) <= 192


@pytest.mark.parametrize("strength", [2, 3])
def test_a_row_asks_what_is_read_at_a_key_place_behind_the_first_tiles(strength):
    """A loop that begins at the window's tile reads the mask, bias and dropout from its first key."""
    samples = (interaction(row, 0, "float32", place) for place, row in enumerate(rows(frozenset(), strength)))
    (sample,) = (
        one for one in samples
        if one.q.shape[2] > 128 and (one.window or 4) < 4 and one.dropout is not None and one.bias is not None
    )  # fmt: skip
    truth = evaluate(sample)
    assert judge(FORWARD, sample, (truth.o,)).status == "passed"
    for part in ("mask", "bias", "dropout"):
        whole = np.array(getattr(sample, part))
        whole[..., 128:, 64:] = whole[..., 128:, :-64]
        misread = evaluate(sample.changed(**{part: whole}))
        assert judge(FORWARD, sample, (misread.o,)).status == "failed", part


def has(sample, factor, level):
    """Report whether a sample, as a kernel gets it, has a factor at a level."""
    shapes = {"q": sample.q, "k": sample.k, "v": sample.v}
    more = sample.keywords(FORWARD)
    return bool(eval(SEEN[factor, level], {"np": np, "len": len, "more": more, **shapes,
                                           "n": sample.q.shape[2], "length": sample.k.shape[2]}))  # fmt: skip


@pytest.mark.thorough
def test_every_triple_of_features_stands_together_in_a_sample():
    """In what is made of the rows, not only in the rows: groups are kept at large sizes, windows stay narrow."""
    samples = [interaction(row, 0, "float32", place) for place, row in enumerate(rows(frozenset(), 3, True))]
    read = {one: np.array([has(sample, *one) for sample in samples]) for one in SEEN}
    read["layout", FACTORS["layout"][1]] = np.array([sample.layout != "plain" for sample in samples])
    lost = [
        some
        for some in combinations(read, 3)
        if len({factor for factor, _ in some}) == 3 and not (read[some[0]] & read[some[1]] & read[some[2]]).any()
    ]
    assert lost == []

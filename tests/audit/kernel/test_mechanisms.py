"""Each experiment names the program that made it necessary, and none names a right kernel."""

import textwrap
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.names import cross_talk
from attnprune_verify.audit.kernel.names.candidates import KernelObservation, candidates
from attnprune_verify.audit.kernel.names.mechanisms import by_mechanism
from attnprune_verify.audit.kernel.names.shrink import cuts, smallest_failing, without
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.process.bridge import FORWARD
from attnprune_verify.audit.kernel.truth.steps import evaluate

SOURCE = """
import numpy as np
CALLS, KEPT = [], {}

def attention(q, k, v, *, causal=False, mask=None):
    n, length = q.shape[2], k.shape[2]
    allowed = np.tri(n, length, dtype=bool) if causal else np.ones((n, length), bool)
    allowed = np.broadcast_to(allowed if mask is None else allowed & mask, (len(q), n, length)).copy()
    CALLS.append(0)
    # here
    s = (q @ np.swapaxes(k, -1, -2)) * q.dtype.type(q.shape[3] ** -0.5)
    s = np.where(allowed[:, None], s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    o = e / e.sum(-1, keepdims=True) @ v
    # there
    return o
"""
MAKER = Maker(0, precision_named("float32"))
PLAIN = MAKER.make("plain", 5, 4, batch=2)
LONG = MAKER.make("long", 33, 4, heads=1)
PROGRAMS = {
    "nan-output": ("here", "v = np.where(v > 1, np.nan, v)", PLAIN),
    "masked-block-nan": ("there", "o = np.where(allowed[:, None].all(-1, keepdims=True), o, np.nan)",
                         MAKER.make("causal", 5, 4, causal=True)),
    "nondeterministic": ("here", "v = v * (1 + (len(CALLS) % 3 == 0))", PLAIN),
    "cached": ("here", "k = KEPT.setdefault(k.shape, k.copy())", PLAIN),
    "mask-leaks": ("here", "allowed[:, 0, 2] = True", MAKER.make("causal", 5, 4, causal=True)),
    "keys-dropped": ("here", "allowed[:, 3, 1] = False", PLAIN),
    "keys-dropped: of as many values as features": (
        "here", "assert q.shape[3] == v.shape[3]; allowed[:, 3, 1] = False", MAKER.make("wide", 9, 4)),
    "last-block-dropped": ("here", "allowed[:, :, -2:] = False", PLAIN),
    "rows-dropped": ("there", "o[:, :, 2] = 0", PLAIN),
    "features-dropped": ("there", "o[..., 3] = 0", PLAIN),
    "strides-ignored": ("here", "k = k if k.flags.c_contiguous else k[:, ::-1]", PLAIN.changed(layout="heads last")),
    "heads-mixed": ("there", "o = o * (1 if len(q) == 1 else 2)", PLAIN),
    "heads-swapped": ("here", "v = v[:, [0, 1, 0]]", MAKER.make("heads", 5, 4, heads=3)),
    "tile-tail": ("there", "o = o * (2 if length == 33 else 1)", LONG),
    "not-normalised": ("there", "o = o * 2", PLAIN),
    "unstable-exp": ("there", "o = o + ((v < 0).any() and np.abs(s[np.isfinite(s)]).max() > 50)",
                     MAKER.common(PLAIN, 100.0)),
    "unknown": ("there", "o = o + (v < 0).any()", PLAIN),
}  # fmt: skip


def opened(tmp_path: Path, place: str = "here", edit: str = "pass") -> KernelAuditor:
    path = tmp_path / "kernel.py"
    path.write_text(textwrap.dedent(SOURCE).replace(f"# {place}", edit), encoding="utf-8")
    return KernelAuditor(str(path))


@pytest.mark.parametrize("id", PROGRAMS)
def test_the_experiment_names_its_program(id, tmp_path):
    place, edit, sample = PROGRAMS[id]
    with opened(tmp_path, place, edit) as auditor:
        auditor.context.ask(FORWARD, sample.changed(k=2 * sample.k))
        found = by_mechanism(auditor.context, FORWARD, sample)
    assert found.ids[0] == id.partition(":")[0]
    assert (id == "unknown") == ("excluded: not-a-number" in found.words)


def test_the_smallest_instance_has_the_fewest_features_and_short_numbers(tmp_path):
    with opened(tmp_path, "there", "o = o * (2 if causal else 1)") as auditor:
        start = MAKER.make("start", 9, 8, 9, 5, batch=2, heads=4, kv_heads=4, causal=True, masked=True)
        found, said = smallest_failing(auditor.context, FORWARD, start)
    assert found.features == ("causal",) and found.shape[:1] + found.shape[3:] == (1, 1, 1, 1, 1)
    assert np.isclose(10 * found.v, np.round(10 * found.v), atol=1e-5).all() and found.v.any() and "off by" in said


def test_a_feature_taken_away_leaves_the_others(tmp_path):
    start = MAKER.make("start", 6, 8, 9, 5, heads=4, kv_heads=2, causal=True, masked=True, scale=0.5)
    for feature in start.features:
        less = without(start, feature)
        assert less is not None and set(less.features) == set(start.features) - {feature}
        assert less.allowed.any(axis=1).all()
    assert all(one.allowed.any(axis=1).all() for one in cuts(start))


@pytest.mark.parametrize(("zeros", "words"), [(-3, None), (1, "1 key with logit"), (2, "2 keys with logit")])
def test_zeros_that_are_counted_are_at_least_one_key(zeros, words):
    steps = evaluate(PLAIN)
    total = np.exp(np.where(steps.allowed, steps.s, -np.inf)).sum(axis=-1, keepdims=True)
    seen = KernelObservation(PLAIN, (steps.o * total / (total + zeros),), (0,))
    found = [one.words for one in candidates(FORWARD, [seen], [0]) if "with logit 0 and value 0" in one.words]
    assert len(found) == (words is not None) and all(one.startswith(words) for one in found)


def test_one_factor_of_a_head_is_no_mix_of_heads():
    """A lost sink makes weights larger, head by head; neither another head's share nor a lost one is such a factor."""
    own = np.repeat(np.eye(2), 2, axis=1)
    for shares, alone in [(1.3 * own, True), (own[::-1], False), (own * [1, 0, 1, 1], False), (own + 0.1, False)]:
        assert cross_talk._one_factor(shares[None], own) is alone


def test_what_is_no_number_is_of_no_head(tmp_path):
    with opened(tmp_path, "there", "o = o * np.nan") as auditor:
        assert cross_talk.other_heads(auditor.context, FORWARD, MAKER.make("heads", 5, 4, heads=3)) is None

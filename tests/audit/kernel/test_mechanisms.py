"""Each experiment names the program that made it necessary, and none names a right kernel."""

import textwrap
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.names import cross_talk
from attnprune_verify.audit.kernel.names.candidates import KernelObservation, candidates
from attnprune_verify.audit.kernel.names.experiments import blocks_of_gradients
from attnprune_verify.audit.kernel.names.forward_mistakes import forward_mistakes
from attnprune_verify.audit.kernel.names.mechanisms import by_mechanism
from attnprune_verify.audit.kernel.names.shrink import cuts, smallest_failing, without
from attnprune_verify.audit.kernel.names.wrong_backward import backward_mistakes, gradients
from attnprune_verify.audit.kernel.names.wrong_forward import output
from attnprune_verify.audit.kernel.problem.precision import precision_named
from attnprune_verify.audit.kernel.problem.regimes import regimes
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.process.bridge import BACKWARD, FORWARD
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
    "heads-mixed: by what the first head has": (
        "there", "w = np.tanh(s[:, :1, :, :1] - s[..., :1]) ** 2; o = (1 - w) * o + w * v[:, :, :1]",
        MAKER.make("heads", 5, 4, heads=3)),
    "heads-swapped": ("here", "v = v[:, [0, 1, 0]]", MAKER.make("heads", 5, 4, heads=3)),
    "heads-swapped: of one query": ("here", "k, v = (x[:, [0, 1, 0]] for x in (k, v))",
                                    MAKER.make("one query", 1, 5, heads=3, batch=2)),
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


def test_a_convention_that_leaves_rows_without_a_key_is_told():
    """Aligned at the bottom right, and nan where there are more queries than keys."""

    def attention(q, k, v, *, causal=False):
        s = q @ k.swapaxes(-1, -2) * q.dtype.type(q.shape[3] ** -0.5)
        below = np.tri(*s.shape[-2:], k=s.shape[-1] - s.shape[-2], dtype=bool)
        return softmax(np.where(below, s, -np.inf) if causal else s) @ v

    wrong = apv.check_attention(attention, only="attention:values:causal-more-keys").checks[0]
    assert wrong.diagnosis == ("convention",) and "causal_alignment='bottom-right'" in wrong.words, wrong.words


WINDOW, MORE_KEYS = MAKER.make("window", 1, 4, length=7, window=2), MAKER.make("more keys", 3, 4, length=8)


@pytest.mark.parametrize(
    ("sample", "meant", "id"),
    [
        (WINDOW, WINDOW.changed(window=None), "modifier-ignored"),
        (LONG.changed(window=3), LONG.changed(mask=np.tri(33, k=2, dtype=bool)), "window-wrong"),
        (LONG.changed(window=3), LONG.changed(mask=np.tri(33, k=2, dtype=bool).T), "window-wrong"),
        (MORE_KEYS, MORE_KEYS.changed(mask=np.tile(np.arange(8) < 3, (3, 1))), "keys-dropped"),
    ],
    ids=["a window left out is no mask", "no limit before", "no limit after", "keys beyond the number of queries"],
)
def test_the_first_formula_of_positions_that_fits_has_the_name(sample, meant, id):
    got = KernelObservation(sample, (evaluate(meant).o,), (0,))
    fits = (known for known in candidates(FORWARD, [got], [0]) if np.allclose(known.parts(sample)[0], got.parts[0]))
    assert next(fits).ids == (id,)


def test_a_convention_of_the_backward_pass_alone_is_none_to_declare():
    def weights(q, k, window):
        s = q @ k.swapaxes(-1, -2) * q.dtype.type(q.shape[3] ** -0.5)
        far = np.abs(np.arange(q.shape[2])[:, None] - np.arange(k.shape[2]))
        return softmax(s if window is None else np.where(far < window, s, -np.inf))

    def attention(q, k, v, *, window=None):
        return weights(q, k, window) @ v

    def backward(q, k, v, do, *, window=None):
        p, dp = weights(q, k, window and window + 1), do @ v.swapaxes(-1, -2)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True)) * q.dtype.type(q.shape[3] ** -0.5)
        return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do

    wrong = apv.check_attention(attention, backward=backward, only="*_backward:values:window").checks[0]
    assert wrong.diagnosis == ("window-off-by-one",) and "declare" not in wrong.words, wrong.words


def test_one_factor_of_a_head_is_no_mix_of_heads():
    """A lost sink makes weights larger, head by head; neither another head's share nor a lost one is such a factor."""
    own = np.repeat(np.eye(2), 2, axis=1)
    for shares, alone in [(1.3 * own, True), (own[::-1], False), (own * [1, 0, 1, 1], False), (own + 0.1, False)]:
        assert cross_talk._one_factor(shares[None], own) is alone


def test_what_is_no_number_is_of_no_head(tmp_path):
    with opened(tmp_path, "there", "o = o * np.nan") as auditor:
        assert cross_talk.other_heads(auditor.context, FORWARD, MAKER.make("heads", 5, 4, heads=3)) is None


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_masks_of_numbers_have_the_names_of_masks():
    """Of a mask that is padded with 0, the keys that fill up the last tile count."""

    def attention(q, k, v, *, mask=None):
        s = q @ k.swapaxes(-1, -2) * q.dtype.type(q.shape[3] ** -0.5)
        if mask is None or mask.dtype == bool:
            return softmax(s if mask is None else np.where(mask, s, -np.inf)) @ v
        padded = np.pad(s + mask, [(0, 0)] * 3 + [(0, -s.shape[3] % 32)])
        return softmax(padded)[..., : s.shape[3]] @ v

    wrong = apv.check_attention(attention, capabilities=("float_mask",), only="attention:values:float-masks")
    assert wrong.outcome == "failed" and wrong.checks[0].diagnosis == ("padding-counted",), wrong


def test_features_that_the_gradient_of_the_weights_leaves_out_are_named():
    """dP of tiles as wide as queries, where values are wider."""

    def attention(q, k, v):
        return softmax(q @ k.swapaxes(-1, -2) * q.dtype.type(q.shape[3] ** -0.5)) @ v

    def attention_backward(q, k, v, do):
        m, scale = q.shape[3], q.dtype.type(q.shape[3] ** -0.5)
        p = softmax(q @ k.swapaxes(-1, -2) * scale)
        dp = do[..., :m] @ v[..., :m].swapaxes(-1, -2)
        ds = p * (dp - (do * (p @ v)).sum(-1, keepdims=True)) * scale
        return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do

    wrong = apv.check_attention(attention, backward=attention_backward, only="*_backward:values:value-size")
    assert wrong.outcome == "failed" and wrong.checks[0].diagnosis == ("features-dropped",), wrong


def test_keys_that_a_gradient_loses_are_named_in_whole_tiles():
    """Each block of 128 keys overwrites dq: more terms than are solved at once."""
    sample = MAKER.make("tiles", 128, 64, length=256, heads=1)
    steps = evaluate(sample)
    dq = sample.factor * (steps.ds[..., 128:] @ sample.k[:, :, 128:])
    context = SimpleNamespace(ask=lambda *_: SimpleNamespace(parts=(dq, steps.dk, steps.dv)))
    named = blocks_of_gradients(context, BACKWARD, sample)
    assert (named.ids, named.words) == (("keys-dropped",), "keys 0 to 127 are missing from dq")


def half(array):
    return array.astype(np.float16).astype(np.float32)


def test_an_output_that_is_added_up_in_sixteen_bits_is_of_low_precision():
    """Each tile of 32 keys rounds the output so far: off by a few roundings, which is no wrong row sum."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16

    def attention(q, k, v):
        q, k, v = (x.astype(np.float32) for x in (q, k, v))
        s, o, top, total = q @ k.swapaxes(-1, -2) * np.float32(q.shape[3] ** -0.5), 0.0, -np.inf, 0.0
        for j in range(0, k.shape[2], 32):
            new = np.maximum(top, s[..., j : j + 32].max(-1, keepdims=True))
            e, fade = np.exp(s[..., j : j + 32] - new), np.exp(top - new)
            o = (o * fade).astype(bfloat16).astype(np.float32) + e.astype(bfloat16).astype(np.float32) @ v[
                :, :, j : j + 32
            ]
            top, total = new, total * fade + e.sum(-1, keepdims=True)
        return (o / total).astype(bfloat16)

    wrong = apv.check_attention(attention, dtype="bfloat16", only=("attention:values:plain", "attention:values:larger"))
    assert {id for check in wrong.checks if check.status == "failed" for id in check.diagnosis} == {"low-precision"}, (
        wrong
    )


def test_a_log_sum_that_is_kept_in_sixteen_bits_is_of_low_precision():
    def weights(q, k, kept):
        s = q.astype(np.float32) @ k.astype(np.float32).swapaxes(-1, -2) * np.float32(q.shape[3] ** -0.5)
        top = s.max(-1, keepdims=True)
        lse = top + np.log(np.exp(s - top).sum(-1, keepdims=True))
        return np.exp(s - (half(lse) if kept else lse))

    def attention(q, k, v):
        return (half(weights(q, k, False)) @ v.astype(np.float32)).astype(np.float16)

    def attention_backward(q, k, v, do):
        p, (q, k, v, do) = weights(q, k, True), (x.astype(np.float32) for x in (q, k, v, do))
        mean = (do * (softmax(q @ k.swapaxes(-1, -2) * np.float32(q.shape[3] ** -0.5)) @ v)).sum(-1, keepdims=True)
        ds = p * (do @ v.swapaxes(-1, -2) - mean) * np.float32(q.shape[3] ** -0.5)
        parts = ds @ k, ds.swapaxes(-1, -2) @ q, half(p).swapaxes(-1, -2) @ do
        return tuple(x.astype(np.float16) for x in parts)

    wrong = apv.check_attention(
        attention, backward=attention_backward, dtype="float16", only="*_backward:values:close-to-40"
    )
    assert wrong.outcome == "failed" and wrong.checks[0].diagnosis == ("low-precision",), wrong


def test_formulas_take_masks_of_every_rank():
    for sample in regimes(0, "float32")["mask ranks"].samples:
        windowed = sample.changed(causal=True, window=3)
        for wrong in forward_mistakes():
            assert output(windowed, wrong).shape == (*sample.q.shape[:3], sample.v.shape[3])
        for wrong in backward_mistakes():
            assert gradients(windowed, wrong)[0].shape == sample.q.shape


@pytest.mark.parametrize("fill", [-1e9, -1e4])
def test_a_mask_that_is_written_into_the_gradient_of_logits(fill):
    def attention(q, k, v, *, causal=False):
        return weights(q, k, causal) @ v

    def weights(q, k, causal):
        s = q @ np.swapaxes(k, -1, -2) * q.dtype.type(q.shape[-1] ** -0.5)
        p = np.exp(s - s.max(-1, keepdims=True)) * (np.tri(*s.shape[-2:], dtype=bool) | (not causal))
        return p / p.sum(-1, keepdims=True)

    def backward(q, k, v, do, *, causal=False):
        p, dp = weights(q, k, causal), do @ np.swapaxes(v, -1, -2)
        ds = p * (dp - (p * dp).sum(-1, keepdims=True))
        ds = np.where(np.tri(*ds.shape[-2:], dtype=bool) | (not causal), ds, q.dtype.type(fill))
        ds = ds * q.dtype.type(q.shape[-1] ** -0.5)
        return ds @ k, np.swapaxes(ds, -1, -2) @ q, np.swapaxes(p, -1, -2) @ do

    found = apv.check_attention(attention, backward=backward, only="*:values:*causal", quick=True)
    assert found.diagnosis == {"attention_backward": ("mask-finite",)}
    assert f"dS is about {fill:.3g} where" in found.checks[-1].words

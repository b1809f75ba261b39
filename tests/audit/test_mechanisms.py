"""Each experiment names the program that made it necessary, and none names a right function."""

from pathlib import Path

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.functions import namer
from attnprune_verify.audit.functions.auditor import Auditor
from attnprune_verify.audit.functions.checks.factors import by_columns
from attnprune_verify.audit.functions.naming.mechanisms import FailingCase, by_experiment, needed
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.functions.truth.sample import causal, make_sample
from attnprune_verify.audit.functions.truth.samples_for import asked_samples

BASE = (Path(__file__).parent / "wrong" / "base.py").read_text(encoding="utf-8")
MASKED = make_sample("masked", 0, 5, 4, mask=causal)
LONG = make_sample("long", 0, 17, 4)
BATCH = make_sample("batch", 0, 5, 4, k=3)
NEAR = make_sample("near", 0, 5, 4, lam=0.3, pruning=(1 - 1e-4, 1 + 1e-4))
PLAIN = make_sample("plain", 0, 5, 4)
F = "    F = weights / weights.sum(axis=1, keepdims=True)\n"
AVERAGE = "        return sum(gradient(M, x, W, 0.0, mask) for x in X) / len(X) + lam * M"
SHIFT = "    shift = "
LOSS = "    misfit = 0.5 * (c * c).sum()\n"
RACE = "    loss.n = getattr(loss, 'n', 0) + 1\n    misfit *= 1 + (loss.n % 3 == 0)\n"
KEPT = "    softmax.kept = getattr(softmax, 'kept', {})\n    F = softmax.kept.setdefault(F.shape, F)\n"
AGAIN = "    F = F / F.sum(axis=1, keepdims=True)\n"
PROGRAMS = {
    "nan-output": ("attention", F, F + "    F[0, 1] = np.nan\n", PLAIN),
    "masked-block-nan": ("attention", F, F + "    F = F + (0 if allowed.all() else np.nan)\n", MASKED),
    "nondeterministic": ("loss", LOSS, LOSS + RACE, PLAIN),
    "cached": ("attention", F, F + KEPT, PLAIN),
    "mask-leaks": ("attention", SHIFT, "    allowed = allowed | (np.eye(len(allowed), k=1) > 0)\n" + SHIFT, MASKED),
    "keys-dropped": ("attention", F, "    weights[:, 1] = 0\n" + F, PLAIN),
    "last-block-dropped": ("attention", F, "    weights[:, -2:] = 0\n" + F, PLAIN),
    "rows-dropped": ("attention", F, F + "    F[2] = 0\n", PLAIN),
    "not-normalised": ("attention", F, F + "    F = F * 1.5\n", PLAIN),
    "batch-weights": ("gradient", AVERAGE, AVERAGE.replace("for x in X)", "for x in X[[0, 0, 2]])"), BATCH),
    "batch-not-averaged": ("gradient", AVERAGE, AVERAGE.replace(" / len(X)", ""), BATCH),
    "batch-mixed": ("attention", "for x in X])", "for x in X - X.mean(axis=0)])", BATCH),
    "follows-from-forward": ("gradient", "    c = F - dense\n", "    c = F - 0.9 * dense\n", PLAIN),
    "early-exit": ("loss", LOSS, LOSS + "    misfit = misfit * (abs(M - 1).max() > 1e-3)\n", NEAR),
    "tile-tail": ("attention", F, F + "    F = F ** (1 + (len(F) == 17))\n" + AGAIN, LONG),
    "block-edge": ("attention", F, F + "    F = F ** (1 + (len(F) > 16))\n" + AGAIN, LONG),
    "unknown": ("loss", LOSS, LOSS + "    misfit = misfit ** 1.1\n", PLAIN),
}  # fmt: skip
"""The function, the line that is changed, what stands there instead, and the instance that shows it."""


def opened(tmp_path, line="", instead=""):
    assert line in BASE
    path = tmp_path / "subject.py"
    path.write_text(BASE.replace(line, instead, 1) if line else BASE, encoding="utf-8")
    return Auditor(str(path))


QUICK = ("mask-leaks", "batch-weights", "unknown")


@pytest.mark.parametrize("id", [id if id in QUICK else pytest.param(id, marks=pytest.mark.thorough) for id in PROGRAMS])
def test_each_experiment_names_its_program(id, tmp_path):
    function, line, instead, sample = PROGRAMS[id]
    with opened(tmp_path, line, instead) as auditor:
        if id == "cached":  # what is kept is kept by an earlier call
            auditor.context.ask(function, make_sample("other", 0, 5, 4))
        case = FailingCase(auditor.context, function, sample, auditor.reopened)
        found, _ = by_experiment(case)
    assert found.ids[0] == id, found
    assert id != "unknown" or "excluded: numbers that are not finite, a race, earlier calls" in found.words


CUT = "    weights[:, -6:] *= len(weights) < 64\n" + F


@pytest.mark.thorough  # the truth of the one instance of large logits with many tokens
def test_exp_is_blamed_only_for_what_small_logits_do_not_show(tmp_path):
    """Without the last keys a row of large logits may sum to 0; what is wrong is not how exp is computed."""
    target = tmp_path / "subject.py"
    target.write_text(BASE.replace(F, CUT), encoding="utf-8")
    (found,) = run_audit(str(target), only="attention:values:logits-1000").checks
    assert found.diagnosis[0] == "last-block-dropped" and "unstable-exp" not in found.diagnosis, found


FILL = "    logits = np.where(allowed, logits, -30.0)\n    allowed = np.ones_like(allowed)\n" + SHIFT


def test_what_hardly_shows_is_named_on_the_smallest_instance(tmp_path):
    """Beside logits of 2 a fill of -30 is within the rounding of a number; the smallest instance shows it."""
    target = tmp_path / "subject.py"
    target.write_text(BASE.replace(SHIFT, FILL), encoding="utf-8")
    records = run_audit(str(target), only="loss:values:*", quick=True, names="first").checks
    first = next(one for one in records if one.status == "failed")
    assert first.diagnosis == ("mask-leaks",) and "fill -30" in first.words, first


def test_a_name_of_the_smallest_instance_fits_the_first_one_too():
    """A head counted twice doubles the loss of two heads, one of them right; with three heads it does not."""

    def layer_loss(layer, M_Q, M_K, X, lam=0.0):
        pruned = layer.with_weights(M_Q * layer.W_Q, M_K * layer.W_K)
        c = apv.layer_attention(pruned, X) - apv.layer_attention(layer, X)
        c[..., -1, :, :] = c[..., 0, :, :]
        return (c * c).sum() / 2 + lam / 2 * ((M_Q**2).sum() + (M_K**2).sum())

    (found,) = run_audit({"layer_loss": layer_loss}, only="layer_loss:values:causal").checks
    assert found.status == "failed" and "Smallest" in found.reason and found.diagnosis == ("unknown",), found


def test_where_no_call_is_left_for_experiments_what_was_asked_is_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(namer, "MOST_CALLS", 2)  # spent before the first failure
    target = tmp_path / "subject.py"
    odd = "    if mask is not None:\n        misfit = misfit + 1e-3 * len(X) * abs(X[-1, -1])\n"
    target.write_text(BASE.replace(LOSS, LOSS + odd), encoding="utf-8")
    records = run_audit(str(target), only="loss:values:*", quick=True).checks
    first = next(one for one in records if one.status == "failed")
    assert first.diagnosis == ("unknown",)
    assert "instances so far are wrong, all with mask; the smallest: " in first.words, first.words
    assert "; the largest deviation: 0.00" in first.words


def test_what_sums_do_not_tell_is_asked_and_shown_with_the_call_before(tmp_path, capsys):
    kept = "    key = F.shape, logits.sum().round(6)\n    F = KEPT.setdefault(key, F)\n"
    target = tmp_path / "subject.py"
    target.write_text("KEPT = {}\n" + BASE.replace(F, F + kept), encoding="utf-8")
    (found,) = run_audit(str(target), only="loss:one-changed").checks
    assert found.diagnosis == ("cached",)
    exec(compile(found.snippet, "snippet", "exec"), {})
    assert float(capsys.readouterr().out.rsplit(":", 1)[1]) > 1e-6


@pytest.mark.parametrize(("power", "ids"), [(1.0, ()), (1.3, ("baseline-score",))])
def test_factors_over_columns_are_told_from_the_scores_themselves(power, ids):
    rng = np.random.default_rng(0)
    scores, norms = rng.uniform(0.1, 1, (6, 8)), rng.uniform(0.1, 9, 8)
    chosen = np.argsort(np.argsort(scores * norms ** (power - 1), axis=1), axis=1) < 3
    assert by_columns(scores, chosen, 8) == ids
    assert by_columns(scores, rng.permuted(chosen, axis=1), 8) == ()


@pytest.mark.thorough
def test_none_names_a_right_function(tmp_path):
    samples = {"attention": (PLAIN, MASKED, BATCH, LONG), "gradient": (PLAIN, BATCH, NEAR), "loss": (NEAR, BATCH)}
    with opened(tmp_path) as auditor:
        for function, some in samples.items():
            for sample in some:
                assert not by_experiment(FailingCase(auditor.context, function, sample))[0].named, (
                    function,
                    sample.name,
                )


def test_the_features_a_failure_needs_are_found_one_by_one():
    (sample, *_) = (
        one
        for one in asked_samples("layer_loss", 0, "together")
        if {"alibi", "softcap", "groups", "scale"} <= one.extras
    )
    needs, bare = needed(sample, lambda one: {"alibi", "groups"} <= one.extras)
    assert needs == bare.extras == {"alibi", "groups"}
    alone = sample.without("groups")
    assert alone.heads == alone.kv_heads == sample.kv_heads
    assert np.array_equal(alone.W_Q[:, : alone.m], sample.W_Q[:, : sample.m])
    assert all(name not in sample.without(name).extras for name in sample.extras)

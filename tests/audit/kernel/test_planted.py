"""Errors planted in the judge itself: no verdict changes, and the report says whose mistake stopped it."""

from types import SimpleNamespace

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.names import mechanisms, shrink
from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.audit.naming.searching import BrokeOff
from attnprune_verify.audit.subject.answers import OurError
from tests.audit.kernel import joins, lists

OURS = "attnprune-verify itself failed, not the target,"
ASKED = ("attention:shape", "attention:values:causal", "merge:values:plain")
PLACES = """kernel.process.context.regimes kernel.truth.judge.truth kernel.truth.judge.attention_errors
kernel.merges.check.MergeJudge._inputs subject.wire.changed kernel.process.bridge.BridgedKernel._keyword
kernel.process.bridge.BridgedKernel._inputs kernel.process.bridge._as_contract
kernel.auditor.KernelNamer.name kernel.auditor.reference_errors""".split()


def _plant(monkeypatch, place, error):
    """Make a function of the package raise; return the list of its calls in this process."""
    calls = []

    def raising(*given, **_):
        calls.append(given)
        raise error("planted")

    monkeypatch.setattr(f"attnprune_verify.audit.{place}", raising)
    return calls


def _kernel(seen=0):
    """A forward pass, wrong where it sees a key of the future; exp underflows at large logits."""

    def attention(q, k, v, *, causal=False):
        s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
        s = np.where(np.tri(*s.shape[-2:], seen, dtype=bool) | (not causal), s, -np.inf)
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    return attention


@pytest.mark.parametrize("seen", [0, 1], ids=["right", "wrong"])
@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_ours_changes_no_verdict(monkeypatch, seen, place):
    error = (IndexError, MemoryError, FloatingPointError, ZeroDivisionError)[len(place) % 4]
    calls, names = _plant(monkeypatch, place, error), "first" if "Namer" in place else "never"
    try:
        found = run_kernel_audit({"attention": _kernel(seen), "merge": joins.divided_last}, only=ASKED, names=names)
    except (error, OurError):
        return  # the command ends with exit code 3
    assert found.outcome in ("incomplete", ("passed", "failed")[seen]), found
    assert any(OURS in record.reason + record.words for record in found.checks) or not calls


def test_the_state_of_floating_point_changes_no_verdict():
    with np.errstate(all="raise"):
        assert apv.check_attention(_kernel(), only="attention:values:logits-of-1*").outcome == "passed"


def test_merges_and_steps_are_not_blamed(monkeypatch):
    with monkeypatch.context() as patch, pytest.raises(OurError):
        _plant(patch, "kernel.process.frameworks._NumPy.made", IndexError)
        apv.check_merge(joins.divided_last)
    _plant(monkeypatch, "kernel.merges.parallel.evaluate", IndexError)
    with pytest.raises(IndexError, match="planted"):
        apv.check_parallel(lambda q, k, v, *, causal: (0 * q, q[..., 0]))


def test_a_name_that_is_found_later_keeps_the_words(monkeypatch):
    _plant(monkeypatch, "kernel.auditor.as_code", MemoryError)
    found = apv.check_attention(lists.of_lists(next(iter(lists.WRONG_LISTS.values()))[0]), quick=True)
    assert {OURS in record.words for record in found.checks if record.status == "failed"} == {True}


def test_an_experiment_that_breaks_off_says_so(monkeypatch):
    calls = _plant(monkeypatch, "kernel.names.shrink.judge", FloatingPointError)
    monkeypatch.setattr(shrink, "misshapen", lambda *_: None)
    monkeypatch.setattr(mechanisms, "_RULES", [("a race", mechanisms._again), ("a sum", lambda *_: 1 // 0)])
    with pytest.warns(BrokeOff) as told:
        context = SimpleNamespace(ask=lambda *_: SimpleNamespace(parts=()))
        assert mechanisms.by_mechanism(context, "attention", None).ids == ("unknown",)
    assert len(told) == len(calls) + 1 == 6

"""Kernels with index lists and pages: wrong ones fail under their name, right ones pass, and no other is asked."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify import InvalidInstance
from attnprune_verify.audit.kernel.problem.integer_cases import CASES, CHECKS
from attnprune_verify.audit.kernel.problem.integers import ListedSample, PagedSample
from attnprune_verify.audit.kernel.problem.precision import PRECISIONS
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import KernelScope
from attnprune_verify.cli.main import main
from tests.audit.kernel import lists


@pytest.mark.parametrize("name", lists.RIGHT_LISTS)
def test_right_lists_pass(name):
    fn, backward = lists.RIGHT_LISTS[name]
    found = apv.check_attention(lists.of_lists(fn), backward=backward and lists.of_gradients(backward))
    assert found.outcome == "passed", str(found)
    assert {record.status for record in found.checks} <= {"passed", "not_applicable"}
    assert "plain" not in found.coverage.judged and "index lists" in found.coverage.judged
    assert ("backward" in found.coverage.judged) == bool(backward)


@pytest.mark.parametrize("name", lists.RIGHT_PAGES)
def test_right_pages_pass(name):
    found = apv.check_attention(lists.of_pages(lists.RIGHT_PAGES[name]))
    assert found.outcome == "passed", str(found)
    assert found.coverage.judged[:2] == ("grouped heads", "pages")


@pytest.mark.parametrize("name", lists.WRONG_LISTS)
def test_wrong_lists_fail_under_their_name(name):
    fn, id = lists.WRONG_LISTS[name]
    found = apv.check_attention(lists.of_lists(fn))
    assert (found.outcome, found.diagnosis) == ("failed", {"attention": (id,)})


@pytest.mark.parametrize("name", lists.WRONG_GRADIENTS)
def test_wrong_gradients_fail_under_their_name(name):
    fn, id = lists.WRONG_GRADIENTS[name]
    found = apv.check_attention(lists.of_lists(lists.at_once), backward=lists.of_gradients(fn))
    assert (found.outcome, found.diagnosis) == ("failed", {"attention_backward": (id,)})


@pytest.mark.parametrize("name", lists.WRONG_PAGES)
def test_wrong_pages_fail_under_their_name(name):
    fn, id = lists.WRONG_PAGES[name]
    found = apv.check_attention(lists.of_pages(fn))
    assert (found.outcome, found.diagnosis) == ("failed", {"attention": (id,)})


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_right_forms_pass_in_other_formats(dtype):
    fn, backward = lists.RIGHT_LISTS["at once"]

    def rounded(*arrays):
        """Sums in float32 of 16 bits."""
        return [x.astype(np.float32) if x.dtype == np.float16 else x for x in arrays]

    def attention(q, k, v, indices):
        return fn(*rounded(q, k, v), indices).astype(q.dtype)

    def attention_backward(q, k, v, do, indices):
        return tuple(x.astype(q.dtype) for x in backward(*rounded(q, k, v, do), indices))

    def paged(q, k, v, block_table, lengths):
        return lists.page_by_page(*rounded(q, k, v), block_table, lengths).astype(q.dtype)

    found = apv.check_attention(attention, backward=attention_backward, dtype=dtype)
    assert found.outcome == "passed", str(found)
    assert apv.check_attention(paged, dtype=dtype).outcome == "passed"


def test_sums_in_sixteen_bits_are_no_mistake_of_lists():
    found = apv.check_attention(lists.of_lists(lists.at_once), dtype="float16")
    assert found.diagnosis == {"attention": ("low-precision",)}


def test_two_mistakes_have_two_names():
    def attention(q, k, v, indices):
        return lists.at_once(
            q, k, v, np.where(indices < 0, 0, lists.once(indices, k) if (indices >= 0).all() else indices)
        )

    names = {name for record in apv.check_attention(attention).checks for name in record.diagnosis}
    assert names == {"index-padding", "index-duplicates"}


def test_lists_beside_the_rest_of_the_contract():
    def attention(q, k, v, *, indices=None, softcap=None, sinks=None):
        if indices is None:
            s = q @ np.swapaxes(lists.spread(k, q.shape[1]), -1, -2) / np.sqrt(q.dtype.type(q.shape[-1]))
            there, values = np.ones_like(s, bool), lists.spread(v, q.shape[1])[:, :, None]
        else:
            own, values, there = lists.gathered(q, k, v, indices)
            s = np.einsum("bhim,bhitm->bhit", q, own) / np.sqrt(q.dtype.type(q.shape[-1]))
        s = s if softcap is None else np.tanh(s / s.dtype.type(softcap)) * s.dtype.type(softcap)
        s = np.where(there, s, -np.inf).astype(q.dtype)
        if sinks is not None and indices is None:
            s = np.concatenate([s, np.broadcast_to(sinks[:, None, None], (*s.shape[:3], 1))], -1).astype(q.dtype)
            values = np.concatenate([values, np.zeros_like(values[..., :1, :])], -2)
        return np.einsum("bhit,bhitm->bhim", lists.weights(s), np.broadcast_to(values, (*s.shape, v.shape[-1])))

    found = apv.check_attention(attention, only=("*:values:plain", "*:values:ind*"))
    failed = {record.id: record.diagnosis for record in found.checks if record.status == "failed"}
    assert failed == {"attention:values:indices-beside": ("sink-wrong",)}


def test_kernels_without_integers_are_asked_nothing_more():
    assert not [name for name in CHECKS if f"attention:values:{name}" in _plan(lambda q, k, v: q)]


def _plan(attention):
    from attnprune_verify.audit.kernel.plan import plan

    return {check.check: check for check in plan(attention).checks}


def test_plans_have_integers():
    found = _plan(lists.of_lists(lists.at_once))
    names = [name for name, (parameter, _) in CHECKS.items() if parameter == "indices"]
    assert [check for check in found if found[check].applies] == [f"attention:values:{name}" for name in names]
    assert {check.why for check in found.values() if check.applies} == {"of every kernel with indices"}
    both = _plan(lambda q, k, v, *, block_table=None, lengths=None: q)
    assert "attention:values:plain" in both and both["attention:values:page-tail"].applies


def test_declared_sizes_hold_for_lists_and_pages():
    seen = set()

    def attention(q, k, v, block_table, lengths):
        seen.add((k.shape[1], q.shape[2], q.shape[-1]))
        return lists.in_table(q, k, v, block_table, lengths)

    scope = KernelScope.declared({"page_size": (32, 64), "n": 1, "m": 16, "topk": {"multiple_of": 8}}, ())
    maker = Maker(0, PRECISIONS["float32"], scope)
    for name, case in CASES.items():
        sample = case.make(maker, name, 32)
        if sample is None:
            assert name in (
                "pages of 16",
                "pages of 128",
                "pages of 256",
                "pages of 8",
                "pages of 1",
                "pages of one token",
            )
            continue
        assert sample.q.shape[2:] == (1, 16)
        if isinstance(sample, ListedSample):
            assert sample.indices.shape[3] % 8 == 0
        assert not isinstance(sample, PagedSample) or sample.page_size in (32, 64)


def test_a_refused_page_size_is_not_asked():
    def attention(q, k, v, block_table, lengths):
        if k.shape[1] % 64:
            raise ValueError("pages of 64 tokens")
        return lists.in_table(q, k, v, block_table, lengths)

    found = apv.check_attention(attention)
    assert found.outcome == "passed" and "pages of 16" in found.notes["attention"]


def test_cases_have_the_traits_that_they_are_named_by():
    maker = Maker(0, PRECISIONS["float32"])
    for name, case in CASES.items():
        sample = case.make(maker, name, 16)
        assert sample is not None and sample.name == name
        if isinstance(sample, ListedSample):
            keys = np.sort(sample.lists.reshape(len(sample.lists), -1), -1)
            heads = np.unique(sample.key_heads).size < sample.shape[1]
            shared = heads or bool(((keys[:, 1:] == keys[:, :-1]) & (keys[:, 1:] >= 0)).any()) and sample.shape[1] == 1
            assert ("padding" in case.traits) == bool((sample.indices < 0).any())
            assert ("duplicates" in case.traits) == (sample.repeats > 1)
            assert ("shared" in case.traits) == shared, name
        elif isinstance(sample, PagedSample):
            named = np.unique(sample.block_table).size
            assert ("unnamed" in case.traits) == (named < sample.pages)
            full = (sample.lengths == sample.block_table.shape[1] * sample.page_size).all()
            assert ("tail" in case.traits) == (not full)
            assert np.isnan(sample.in_pages(sample.k)).any() == (named < sample.pages)
            assert np.isfinite(sample.k).all()


def test_pages_of_one_token_need_seventeen_bits():
    sample = CASES["pages of one token"].make(Maker(0, PRECISIONS["float32"]), "pages of one token", 16)
    pool = sample.in_pages(sample.k)
    assert len(pool) == 65_537 and pool.astype(np.float32).nbytes < 2.2e6
    assert sample.block_table.max() == 65_536 and np.isnan(pool[0]).all()


def test_the_command_prints_a_snippet_that_runs(tmp_path, capsys, monkeypatch):
    target = tmp_path / "target.py"
    text = Path(lists.__file__).read_text(encoding="utf-8")
    target.write_text(text + "\n\nattention = of_pages(tail_read)\n", encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["audit-kernel", str(target), "--format", "json", "--only", "attention:values:page*"])
    document = json.loads(capsys.readouterr().out)
    assert ended.value.code == 1 and "files" in document["confinement"]["closed"]
    assert document["counterexample"]["keywords"]["page_size"] == 16
    (snippet,) = {record["evidence"]["snippet"] for record in document["checks"]} - {None}
    monkeypatch.syspath_prepend(tmp_path)
    exec(compile(snippet, "snippet", "exec"), {})
    assert capsys.readouterr().out.count("returned") == 4


def no_lengths(q, k, v, block_table): ...
def both(q, k, v, indices, block_table, lengths): ...


@pytest.mark.parametrize(
    ("attention", "said"),
    [
        (no_lengths, r"beside block_table there must be lengths \(batch,\); got none: add the parameter"),
        (both, "indices and block_table must not both lack a default: give one of them a default"),
    ],
)
def test_signatures_that_do_not_fit_are_refused(attention, said):
    with pytest.raises(InvalidInstance, match=said):
        apv.check_attention(attention)


def test_causal_only_is_judged_where_it_ends_at_the_last_key():
    def attention(q, k, v, indices):
        return lists.at_once(q, k, v, indices)

    found = apv.check_attention(attention, capabilities=("causal_only",))
    assert found.outcome == "incomplete"
    conventions = {"causal_alignment": "bottom-right"}
    assert apv.check_attention(attention, capabilities=("causal_only",), conventions=conventions).outcome == "passed"

"""The perplexity experiment: every combination once, resumable, numbers that follow from the logits, fingerprints."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")
pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")

from click.testing import CliRunner  # noqa: E402  # after the skips

from attnprune_verify.cli.main import program  # noqa: E402
from attnprune_verify.errors import InvalidInput, InvalidInstance  # noqa: E402
from attnprune_verify.experiments.perplexity import compare as compare_module  # noqa: E402
from attnprune_verify.experiments.perplexity import run as running  # noqa: E402
from attnprune_verify.experiments.perplexity.compare import attribute, compare, read_result  # noqa: E402
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan  # noqa: E402
from attnprune_verify.experiments.perplexity.plots import draw_damage  # noqa: E402
from attnprune_verify.experiments.perplexity.report import as_document, summary, write_tables  # noqa: E402
from attnprune_verify.experiments.perplexity.run import PerplexityResults, run_perplexity  # noqa: E402
from attnprune_verify.experiments.perplexity.sentences import perplexity_statements  # noqa: E402
from attnprune_verify.experiments.perplexity.tables import by_draws, paired_ratio  # noqa: E402
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.pretrained.texts import draw_windows, token_stream  # noqa: E402
from attnprune_verify.whole_model.in_memory import prune_in_memory  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from tests.whole_model.small import MODEL, write_texts  # noqa: E402


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return tuple((str(path),) for path in write_texts(tmp_path_factory.mktemp("texts"), letters=5000))


def _plan(texts, **choices):
    given = {"attention": ("magnitude",), "ks": (2,), "n": 24, "windows": 6} | choices
    return PerplexityPlan(str(MODEL), *texts, **given)


def test_numbers_follow_from_the_logits(texts):
    """nll, perplexity and KL written out token by token, every held-out token of every window but the first."""
    results = run_perplexity(_plan(texts, windows=None, n=200))
    (row,) = results.rows
    model = load_pretrained(MODEL, dtype=np.float32)
    stream = token_stream([Path(texts[1][0]).read_text()], model.tokenizer)
    ids = draw_windows(token_stream([Path(texts[0][0]).read_text()], model.tokenizer), 2, 200, 0)
    pruned = prune_in_memory(model, ids, Plan("magnitude", "dense", 0.5))
    losses, distances = [], []
    for start in range(0, len(stream), 200):
        window = stream[start : start + 200]
        p, q = (_softmax(each.logits(window)[0]) for each in (model, pruned))
        for i, token in enumerate(window[1:]):
            losses.append((-math.log(p[i, token]), -math.log(q[i, token])))
            distances.append(float((p[i] * np.log(p[i] / q[i])).sum()))
    dense, after = np.mean(losses, axis=0)
    assert results.dense["tokens"] == len(losses)
    assert results.dense["nll"] == pytest.approx(dense, rel=1e-5)
    assert row["nll"] == pytest.approx(after, rel=1e-5) and row["perplexity"] == pytest.approx(
        math.exp(after), rel=1e-5
    )
    assert row["kl"] == pytest.approx(np.mean(distances), rel=1e-4)


def _softmax(logits):
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_every_combination_once_and_none_twice(tmp_path, texts, monkeypatch):
    plan = _plan(texts, attention=("wanda", "dense"), rest=("dense", "wanda"), rhos=(0.5, 0.6), patterns=("2:4",))
    assert len(plan.runs(depth=4)) == 9  # dense and dense is no run
    done = []
    original = running._measure
    monkeypatch.setattr(running, "_measure", lambda *args: done.append(args[1]) or original(*args))
    first = run_perplexity(_plan(texts, attention=("wanda",)), tmp_path)
    more = run_perplexity(_plan(texts, attention=("wanda", "magnitude")), tmp_path)
    assert [run.attention for run in done] == ["wanda", "magnitude"] and more.rows[0] == first.rows[0]
    run_perplexity(_plan(texts, attention=("wanda",), windows=5), tmp_path)
    assert len(done) == 3  # other held-out windows: another number


def test_tables_and_paired_ratios(tmp_path):
    kls = {"sparsegpt": (0.2, 0.4), "output-obs": (0.1, 0.1)}
    common = {"rest": "dense", "budget": "matrix", "rho": 0.5, "pattern": None, "k": 8, "layer": None}
    rows = [
        {**common, "attention": name, "seed": seed, "kl": kl, "nll": 3.0, "perplexity": math.exp(3), "seconds": 1.0}
        for name, draws in kls.items()
        for seed, kl in enumerate(draws)
    ]
    plan = PerplexityPlan("m", attention=tuple(kls), seeds=2)
    results = PerplexityResults(
        plan, {"digest": "d", "fields": {}}, {"perplexity": 19.0, "nll": 2.9, "tokens": 9}, rows
    )
    ratio, low, high = paired_ratio(results, common | {"attention": "output-obs"}, {"attention": "sparsegpt"})
    assert ratio == pytest.approx(math.sqrt(0.5 * 0.25))
    assert (
        math.log(high / ratio) == pytest.approx(math.log(ratio / low)) == pytest.approx(12.706 * math.log(2) / 2, 1e-3)
    )
    ours = by_draws(results)[1]
    assert (ours["ratio"], ours["draws"], ours["ratio_all"]) == (ratio, 2, None)
    assert ours["added"] == pytest.approx(math.exp(0.1) - 1)
    said = {one["id"]: one["verdict"] for one in as_document(results)["statements"]}
    assert said == dict.fromkeys(["new:output-obs-beats-sparsegpt", "new:output-obs-attention"], "undecided")  # 2 draws
    assert "output-obs" in summary(results)
    paths = write_tables(results, tmp_path)
    assert "seconds" not in paths[0].read_text() + paths[1].read_text() and "seconds" in paths[2].read_text()


def _results(kls, hold=(), **choices):
    """Made-up rows: KL by method and draw, nll = 3 + KL."""
    common = {"rest": "dense", "budget": "matrix", "rho": 0.5, "pattern": None, "k": 8, "layer": None, "seconds": 1.0}
    rows = [
        {**common, **choices, **setting, "seed": seed, "kl": kl, "nll": 3 + kl, "perplexity": math.exp(3 + kl)}
        for setting, draws in kls
        for seed, kl in enumerate(draws)
    ]
    return PerplexityResults(PerplexityPlan("m", hold=hold), {}, {"perplexity": 19.0, "nll": 2.9, "tokens": 9}, rows)


def _verdicts(results):
    return {statement["id"]: statement["verdict"] for statement in perplexity_statements(results)}


DRAWS = np.array([0.1, 0.2, 0.3, 0.4, 0.5])  # far apart: only pairs can tell the methods apart


def _with_rests(methods, rests=("dense", "wanda", "sparsegpt"), **choices):
    """The same KL by method with every rest; a rest that is pruned as its attention is another sentence's."""
    return [({"attention": name, "rest": rest, **choices}, kl) for rest in rests for name, kl in methods.items()]


def test_table_1_is_half_pruned_and_asks_for_every_rest():
    """A win at nine tenths, or with one rest, was taken for a reading under which "whatever the rest" holds."""
    noise = np.array([0.0, 0.001, 0.0, -0.001, 0.002])
    better = {"paper-gd": DRAWS + noise, "wanda": DRAWS + 0.01}
    assert not _verdicts(_results(_with_rests(better, rests=("dense",))))
    assert _verdicts(_results(_with_rests(better, rests=("dense",)), rho=0.9)) == {
        "new:descent-wins-at-nine-tenths": "agrees"
    }
    assert not _verdicts(_results(_with_rests(better, rests=("wanda", "sparsegpt")), rho=0.7))
    worse = {"paper-gd": DRAWS + noise, "wanda": DRAWS - 0.01}
    mixed = [*_with_rests(better, rests=("dense", "sparsegpt")), *_with_rests(worse, rests=("wanda",))]
    assert _verdicts(_results(mixed)) == {"exp:table1-outperforms-wanda": "disagrees"}


def test_sentences_are_judged_draw_by_draw():
    noise = np.array([0.0, 0.001, 0.0, -0.001, 0.002])
    for shift, verdict in ((0.01, "agrees"), (-0.01, "disagrees"), (0.0, "undecided")):
        kls = _with_rests({"paper-gd": DRAWS + noise, "wanda": DRAWS + shift})
        assert _verdicts(_results(kls)) == {"exp:table1-outperforms-wanda": verdict}
    for share, verdict in ((0.29, "agrees"), (0.31, "disagrees")):
        kls = [({"attention": "sparsegpt"}, DRAWS), ({"attention": "output-obs"}, share * DRAWS * (1 + noise))]
        better = {"new:output-obs-beats-sparsegpt": "agrees"}
        assert _verdicts(_results(kls)) == {"new:output-obs-attention": verdict, **better}
        assert _verdicts(_results(kls, rho=0.6)) == better  # nothing more was promised there
        assert {one["id"] for one in perplexity_statements(_results(kls), bounds=False)} == set(better)
    one = _with_rests({"paper-gd": [0.1], "wanda": [0.2]})
    assert _verdicts(_results(one)) == {"exp:table1-outperforms-wanda": "undecided"}


def test_budgets_and_everything_have_sentences_of_their_own():
    noise = 1 + np.array([0.0, 0.01, 0.0, -0.01, 0.02])
    kls = [
        ({"attention": "sparsegpt"}, DRAWS),
        ({"attention": "output-obs", "budget": "measured"}, 0.2 * DRAWS * noise),
    ]
    better = {"new:output-obs-beats-sparsegpt": "agrees"}
    assert _verdicts(_results(kls)) == {"new:output-obs-attention-budgets-measured": "disagrees", **better}
    assert _verdicts(_results(kls, hold=(0,))) == {"new:output-obs-attention-budgets-held": "agrees", **better}
    names = [{"rest": name, "attention": name} for name in ("sparsegpt", "output-obs", "wanda")]
    kls = list(zip(names, (DRAWS, 0.5 * DRAWS * noise, 2 * DRAWS), strict=True))
    assert _verdicts(_results(kls)) == {
        "exp:table1-wanda-everywhere-beats-sparsegpt": "disagrees",
        "new:output-obs-everything": "agrees",
        **better,
    }


def test_many_readings_are_corrected_together():
    """One reading with p = 0.01 is believed; the same among twenty is not."""
    noise = np.array([0.0, 0.02, 0.0, -0.02, 0.04])
    methods = {"paper-gd": DRAWS, "wanda": DRAWS + 0.035 + noise}
    rows = [row for k in range(1, 21) for row in _with_rests(methods, k=k)]
    few, many = (perplexity_statements(_results(rows[:count])) for count in (6, 120))
    assert [one["verdict"] for one in few] == ["agrees"] and {one["verdict"] for one in many} == {"undecided"}


def test_the_rest_can_follow_the_attention(texts):
    plan = _plan(texts, attention=("wanda", "magnitude"), rest=("dense", "same"))
    found = [(run.rest, run.attention) for run in plan.runs(4)]
    assert found == [("dense", "wanda"), ("dense", "magnitude"), ("wanda", "wanda"), ("magnitude", "magnitude")]
    with pytest.raises(InvalidInstance, match="rest must be one of"):
        _plan(texts, attention=("paper-gd",), rest=("same",))


def test_methods_without_patterns_are_left_out_of_them(texts):
    plan = _plan(texts, attention=("paper-gd", "wanda"), rhos=(0.5,), patterns=("2:4",))
    assert [(run.attention, run.pattern) for run in plan.runs(4)] == [
        ("paper-gd", None),
        ("wanda", None),
        ("wanda", "2:4"),
    ]
    with pytest.raises(InvalidInstance, match="some method must support patterns N:M; got paper-gd"):
        _plan(texts, attention=("paper-gd",), patterns=("2:4",))


def test_results_are_compared_field_by_field(tmp_path, texts):
    documents = []
    for name, choices in {"a": {}, "b": {"ks": (3,), "n": 32}, "again": {}}.items():
        write_tables(run_perplexity(_plan(texts, **choices)), _folder(tmp_path / name))
        documents.append(read_result(tmp_path / name / "perplexity.json"))
    assert compare(documents[0], documents[2]).same
    assert documents[0] == documents[2]
    found = compare(*documents[:2])
    assert not found.same and {"choices.ks", "choices.n", "window.tokens", "window.stride"} == set(found.fields)
    steps = {step.choice: step for step in attribute(*documents[:2])}
    assert set(steps) == {"", "ks", "n", "all"}
    assert steps[""].kl == documents[0]["rows"][0]["kl"] and steps["all"].kl == documents[1]["rows"][0]["kl"]
    assert steps["ks"].dense == steps[""].dense != steps["n"].dense


@pytest.mark.parametrize("together", [False, True])
def test_all_choices_together_are_rerun_where_there_are_several(monkeypatch, texts, together):
    plans = [{"plan": _plan(texts, ks=(k,), n=n).document()} for k, n in ((2, 24), (3, 32 if together else 24))]
    monkeypatch.setattr(compare_module, "_rerun", lambda name, plan: (name, *plan.ks, plan.n))
    expected = [("", 2, 24), ("ks", 3, 24), *([("n", 2, 32), ("all", 3, 32)] if together else [])]
    assert sorted(attribute(*plans)) == sorted(expected)


def test_every_panel_draws_its_own_rest():
    pytest.importorskip("matplotlib", reason="drawing needs the extra 'plot'")
    row = {"attention": "wanda", "budget": "matrix", "pattern": None, "k": 8, "layer": None, "seed": 0, "nll": 3.0}
    found = {("dense", 0.5): 0.1, ("dense", 0.7): 0.2, ("wanda", 0.5): 0.3, ("wanda", 0.7): 0.4}
    rows = [
        {**row, "rest": rest, "rho": rho, "kl": kl, "perplexity": 20.0, "seconds": 1.0}
        for (rest, rho), kl in found.items()
    ]
    results = PerplexityResults(PerplexityPlan("m"), {}, {"perplexity": 19.0, "nll": 2.94, "tokens": 9}, rows)
    drawn = {
        panel.get_title(): [(*line.get_xdata(), *line.get_ydata()) for line in panel.get_lines()]
        for panel in draw_damage(results, "rho").axes
    }
    assert drawn == {"rest: dense": [(0.5, 0.7, 0.1, 0.2)], "rest: wanda": [(0.5, 0.7, 0.3, 0.4)]}


def _folder(path):
    path.mkdir()
    return path


def test_commands_and_their_exit_codes(tmp_path, texts):
    def run(*words):
        return CliRunner().invoke(program, list(map(str, words)), standalone_mode=False)

    common = ["--calibration", texts[0][0], "--held-out", texts[1][0], "--n", 24, "--k", 2, "--windows", 4]
    out = tmp_path / "out"
    words = ["experiment", "perplexity", MODEL, *common, "--attention", "wanda", "--out", out, "--no-plots"]
    document = json.loads(run(*words, "--format", "json").stdout)
    assert document["schema"] == "attnprune-verify/perplexity/1"
    assert {"rest", "attention", "rho", "pattern", "k", "seed", "perplexity", "nll", "kl", "seconds"} <= set(
        document["rows"][0]
    )
    assert run("compare", out / "perplexity.json", out / "perplexity.json").return_value == 0
    pruned = ["prune-model", MODEL, "--out", tmp_path / "pruned", "--rho", 0.5, "--calibration", texts[0][0]]
    pruned += ["--n", 24, "--k", 2, "--attention", "wanda", "--rest", "dense"]
    assert run(*pruned).return_value == 0 and run(*pruned).return_value == 0
    assert run("compare", out / "perplexity.json", tmp_path / "pruned" / "pruning.json").return_value == 1
    assert run("compare", out, out / "perplexity.json").return_value == 0
    assert run("compare", out, tmp_path / "pruned").return_value == 1
    refused = str(run("compare", out, tmp_path).exception)
    assert refused.startswith("a result's folder must hold one of perplexity.json, pruning.json; ")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"attention": ("magic",)}, "attention must be one of"),
        ({"rest": ("ste",)}, "rest must be one of"),
        ({"rhos": (2.0,)}, "rho must be"),
        ({"ks": ()}, "ks must not be empty"),
        ({"budgets": ("equal",)}, "budget must be one of auto, matrix, measured, owl"),
        ({"n": 1}, "n must be an integer >= 2"),
    ],
)
def test_bad_plans(texts, choices, message):
    with pytest.raises(InvalidInstance, match=message):
        _plan(texts, **choices)


def test_unreadable_results(tmp_path):
    for content in ("[]", "{}", "nothing", '{"fingerprint": {"fields": 1, "digest": "a"}}'):
        (tmp_path / "result.json").write_text(content)
        with pytest.raises(InvalidInput, match="a result must be JSON with a fingerprint"):
            read_result(tmp_path / "result.json")

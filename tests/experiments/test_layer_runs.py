"""The layer experiments and their commands on a tiny model folder made on the spot."""

import json

import numpy as np
import pytest

pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")
tokenizers = pytest.importorskip("tokenizers", reason="reading tokenizers needs the extra 'real'")

from attnprune_verify.algorithms.layer.prune import prune_layer  # noqa: E402  # after the skips
from attnprune_verify.cli.main import main  # noqa: E402
from attnprune_verify.errors import InvalidInstance  # noqa: E402
from attnprune_verify.experiments.assumptions import measure  # noqa: E402
from attnprune_verify.experiments.assumptions.report import draw_assumptions  # noqa: E402
from attnprune_verify.experiments.layer import run as layer  # noqa: E402
from attnprune_verify.experiments.layer.plan import LayerPlan  # noqa: E402
from attnprune_verify.instance.problem import Instance  # noqa: E402
from attnprune_verify.model.fusion import fused_weight  # noqa: E402
from attnprune_verify.model.layer_functions import layer_attention, layer_relative_error  # noqa: E402
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.theory.constants import constants  # noqa: E402
from tests.pretrained.folders import bert_config, bert_tensors, llama_config, llama_tensors, write_folder  # noqa: E402


@pytest.fixture(params=["bert", "llama"])
def model(request, tmp_path):
    config, tensors = (bert_config(), bert_tensors) if request.param == "bert" else (llama_config(), llama_tensors)
    folder = write_folder(tmp_path / "model", config, tensors(np.random.default_rng(3)))
    words = {f"w{i}": i for i in range(2, 30)} | {"[CLS]": 0, "[SEP]": 1}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="w2"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if request.param == "bert":
        tokenizer.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer.save(str(folder / "tokenizer.json"))
    rng = np.random.default_rng(4)
    for name in ("inside", "outside"):
        text = " ".join(f"w{i}" for i in rng.integers(2, 30, 60))
        (tmp_path / f"{name}.txt").write_text(text)
    return folder


def plan(model, **choices):
    texts = {"calibration": (str(model.parent / "inside.txt"),), "held_out": (str(model.parent / "outside.txt"),)}
    return LayerPlan(str(model), **{"ns": (10,), "k": 3, "methods": ("sparsegpt", "fisher-obs"), **texts, **choices})


def test_rows_are_what_the_library_measures(model, tmp_path):
    found = layer.run_layers(plan(model), tmp_path / "out")
    network = load_pretrained(model)
    inside, outside = layer._inputs(plan(model), 10, 0)
    pruned = prune_layer(network.layers[1], inside[1], 0.5)
    expected = layer_relative_error(network.layers[1], pruned.layer, outside[1])
    rows = [row for row in found.rows if (row["method"], row["layer"]) == ("fisher-obs", 1)]
    np.testing.assert_allclose([row["held_out"] for row in rows], expected, rtol=1e-12)
    np.testing.assert_allclose([row["in_sample"] for row in rows], pruned.summary["in_sample_error"], rtol=1e-12)
    assert len(found.rows) == 2 * 2 * 4 and len(found.whole) == 2
    assert all(0 < one["cosine_distance"] < 2 for one in found.whole)
    nothing = layer.run_layers(plan(model, rhos=(0.0,), methods=("magnitude",)), tmp_path / "none")
    assert nothing.whole[0]["cosine_distance"] == pytest.approx(0, abs=1e-12)


def test_interrupted_runs_go_on(model, tmp_path, monkeypatch):
    measure, calls = layer.measure_run, []

    def counted(plan, run):
        calls.append(run)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return measure(plan, run)

    monkeypatch.setattr(layer, "measure_run", counted)
    with pytest.raises(KeyboardInterrupt):
        layer.run_layers(plan(model, seeds=2), tmp_path / "out")
    resumed = layer.run_layers(plan(model, seeds=2), tmp_path / "out")
    assert len(calls) == 1 + 1 + 3  # one finished, one interrupted, three that were missing
    monkeypatch.undo()
    straight = layer.run_layers(plan(model, seeds=2), tmp_path / "other")
    without_time = [[{**row, "seconds": 0} for row in found.rows] for found in (resumed, straight)]
    assert without_time[0] == without_time[1]


def test_measuring_at_another_length(model, tmp_path):
    found = layer.run_layers(plan(model, held_out_n=14), tmp_path / "out")
    inside, outside = layer._inputs(plan(model, held_out_n=14), 10, 0)
    assert inside[0].shape == (3, 10, 8) and outside[0].shape == (3, 14, 8)
    assert plan(model).fingerprint() != plan(model, held_out_n=14).fingerprint()
    assert len(found.rows) == 16


def test_single_layers_have_no_end_to_end_effect(model, tmp_path):
    found = layer.run_layers(plan(model, layers=(1,)), tmp_path / "out")
    assert {row["layer"] for row in found.rows} == {1} and not found.whole
    with pytest.raises(InvalidInstance, match="layers must be in 0..1; got 2"):
        layer.run_layers(plan(model, layers=(2,)), tmp_path / "out")


def test_assumptions_are_the_library_s_own_constants(model):
    found = measure.measure_assumptions(str(model), (str(model.parent / "inside.txt"),), (6,), 2)
    network = load_pretrained(model)
    ids = measure.draw_sequences(
        measure.read_documents([model.parent / "inside.txt"], ""), network.tokenizer, 2, 6,
        np.random.default_rng([0, 6]),
    )  # fmt: skip
    X, one = network.attention_inputs(ids)[1], network.layers[1]
    F = layer_attention(one, X)
    for row in (row for row in found.rows if row["layer"] == 1):
        tokens, head = X[row["sequence"]], row["head"]
        weights = F[row["sequence"], head]
        lowest = weights[weights > 0].min()
        assert 10 ** row["log10_delta"] == pytest.approx(lowest, rel=1e-9)
        assert row["row_max"] == pytest.approx(weights.max(axis=1).mean(), rel=1e-12)
        assert row["beta"] == pytest.approx(np.linalg.eigvalsh(tokens @ tokens.T)[0], rel=1e-9)
        W = fused_weight(one, head)
        assert row["min_W"] == np.abs(W).min()
        exact = constants(Instance(tokens, W, lam=0.05), eps=0.02 / 6)
        assert row["log10_L"] == pytest.approx(exact.log10["L_paper"], abs=1e-9)
        if one.mask is None:
            delta = 10 ** row["log10_delta"]
            by_hand = np.log10(2 * row["min_W"] * row["beta"] * delta)
            assert row["log10_mu"] == pytest.approx(by_hand, abs=1e-9)
        else:
            assert row["log10_mu"] == -np.inf and row["log10_T"] == np.inf
    cell = found.table()[1]
    assert cell["beta"] == np.median([row["beta"] for row in found.rows if row["layer"] == 1])


def run(*arguments):
    with pytest.raises(SystemExit) as caught:
        main(["experiment", *map(str, arguments)])
    return int(caught.value.code or 0)


def test_commands(model, tmp_path, capsys):
    texts = ("--calibration", model.parent / "inside.txt", "--held-out", model.parent / "outside.txt")
    small = ("--n", 10, "--k", 3, "--method", "sparsegpt", "--method", "fisher-obs", "--no-plots")
    assert run("layer", model, "--out", tmp_path / "out", *texts, *small, "--format", "json") == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["schema"] == "attnprune-verify/experiment-layer/1" and document["plan"]["model"] == "model"
    assert run("assumptions", model, "--out", tmp_path / "a", "--text", texts[1], "--n", 6, "--k", 2, "--no-plots") == 0
    assert "trivial bound" in capsys.readouterr().out
    json.loads((tmp_path / "a" / "assumptions.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize("model", ["bert"], indirect=True)
def test_plots(model, tmp_path):
    pytest.importorskip("matplotlib")
    from attnprune_verify.experiments.layer.plots import write_plots

    found = layer.run_layers(plan(model, rhos=(0.3, 0.6)), tmp_path / "out")
    assert [path.name for path in write_plots(found, tmp_path)] == ["layer-n10.png", "layer-n10.svg"]
    measured = measure.measure_assumptions(str(model), (str(model.parent / "inside.txt"),), (6, 8), 2)
    assert all(path.stat().st_size > 3000 for path in draw_assumptions(measured, tmp_path))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("layer", "nowhere"), "a model must be a folder"),
        (("assumptions", "nowhere"), "a model must be a folder"),
        (("layer", "nowhere", "--method", "obs"), "method must be one of"),
        (("layer", "nowhere", "--jobs", 0), "jobs must be"),
        (("assumptions", "nowhere", "--k", 0), "k must be"),
    ],
)
def test_bad_arguments_are_one_line(arguments, message, tmp_path, capsys):
    assert run(*arguments, "--out", tmp_path / "out") == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and not printed.out
    assert not (tmp_path / "out").exists()


def never(*_):
    raise AssertionError("work was done")


@pytest.mark.parametrize("lengths", [("--n", 6, "--n", 17), ("--n", 6, "--held-out-n", 17)])
def test_long_sequences_are_refused_before_any_work(model, lengths, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(layer, "measure_run", never)
    monkeypatch.setattr(measure, "_layer_rows", never)
    texts = ("--calibration", model.parent / "inside.txt", "--held-out", model.parent / "outside.txt")
    assert run("layer", model, "--out", tmp_path / "out", *texts, *lengths) == 2
    assert "a sequence may have at most 16 tokens; got 17" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    if "--held-out-n" not in lengths:
        assert run("assumptions", model, "--out", tmp_path / "a", "--text", texts[1], *lengths) == 2
        assert "a sequence may have at most 16 tokens; got 17" in capsys.readouterr().err


def test_jobs_without_their_extra_are_one_at_a_time_and_say_so(model, tmp_path, capsys, monkeypatch):
    from attnprune_verify.experiments import runs

    monkeypatch.setattr(runs, "find_spec", lambda name: None)
    texts = ("--calibration", model.parent / "inside.txt", "--held-out", model.parent / "outside.txt")
    small = ("--n", 10, "--k", 3, "--method", "magnitude", "--no-plots", "--jobs", 2)
    assert run("layer", model, "--out", tmp_path / "out", *texts, *small) == 0
    assert "attnprune-verify[parallel]'" in capsys.readouterr().err


def test_short_texts_are_refused_before_any_work(model, tmp_path, capsys):
    texts = ("--calibration", model.parent / "inside.txt", "--held-out", model.parent / "outside.txt")
    assert run("layer", model, "--out", tmp_path / "out", *texts, "--n", 200) == 2
    assert "at least" in capsys.readouterr().err

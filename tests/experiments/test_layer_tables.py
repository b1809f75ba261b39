"""Tables, ratios, statements and plans of the layer experiment, on numbers made by hand."""

import json
from dataclasses import replace

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.documents import default_texts, draw_sequences, read_documents
from attnprune_verify.experiments.layer.plan import LayerPlan, parse_method
from attnprune_verify.experiments.layer.report import as_document, summary, write_tables
from attnprune_verify.experiments.layer.run import LayerResults
from attnprune_verify.experiments.layer.sentences import layer_statements
from attnprune_verify.experiments.layer.tables import by_layer, by_method, ratio_of_means


def made_up(errors, rhos=(0.5,)):
    """Results in which each method has the given held-out errors in layers 0 and 1 (two heads, two seeds)."""
    plan = LayerPlan("model", methods=tuple(errors), rhos=rhos, seeds=2)
    rows = [
        {
            "method": method, "rho": rho, "n": 128, "seed": seed, "layer": layer, "head": head,
            "in_sample": error / 10, "held_out": error * (1 + head) * (1 + rho) * (1 + 0.1 * seed), "seconds": 1.0,
        }
        for method, by in errors.items()
        for rho in rhos
        for seed in range(2)
        for layer, error in enumerate(by)
        for head in range(2)
    ]  # fmt: skip
    whole = [{"method": m, "rho": rho, "n": 128, "seed": 0, "cosine_distance": 0.1} for m in errors for rho in rhos]
    return LayerResults(plan, rows, whole)


def test_ratios_are_paired_head_by_head():
    results = made_up({"sparsegpt": (0.4, 0.2), "fisher-obs": (0.2, 0.05)})
    row = by_method(results)[1]
    assert row["ratio"] == pytest.approx(np.sqrt(0.5 * 0.25))
    assert row["wins"] == 1.0 and row["cosine_distance"] == 0.1
    assert [cell["ratio"] for cell in by_layer(results)[2:]] == pytest.approx([0.5, 0.25])
    assert ratio_of_means(results, "fisher-obs") == pytest.approx(0.25 / 0.6)
    assert ratio_of_means(results, "wanda") is None
    assert by_method(made_up({"wanda": (0.1, 0.1)}))[0]["ratio"] is None


def verdicts(results):
    return {(one["id"], one["reading"]): one["holds"] for one in layer_statements(results)}


@pytest.mark.parametrize(("ours", "holds"), [((0.9, 0.09), True), ((0.1, 0.11), False)])
def test_our_bound_is_judged_by_the_worst_layer_after_the_first(ours, holds):
    found = verdicts(made_up({"sparsegpt": (0.2, 0.2), "fisher-obs": ours}))
    reading = f"rho = 0.5, n = 128, worst layer 1; first layer {ours[0] / 0.2:.2f}"
    assert found == {("new:fisher-obs-held-out", reading): holds}


def test_what_is_worse_than_chance_has_no_lower_rate():
    """An error that falls from 2.9 to 2.7 rises more slowly than any, and a random mask has 0.7."""
    errors = {"paper-gd": (2.9, 2.9), "random": (0.7, 0.7), "wanda": (0.1, 0.1), "sparsegpt": (0.1, 0.1)}
    falling = made_up(errors, rhos=(0.5, 0.7))
    rows = [
        row | {"held_out": 2.7} if (row["method"], row["rho"]) == ("paper-gd", 0.7) else row for row in falling.rows
    ]
    reading = ("exp:real-lower-rate", "paper-gd, n = 128")
    assert not verdicts(replace(falling, rows=rows))[reading]
    better = [row | {"held_out": row["held_out"] / 10} if row["method"] == "paper-gd" else row for row in rows]
    assert verdicts(replace(falling, rows=better))[reading]


def test_a_sentence_about_every_method_is_not_true_of_one():
    """A better error than one rival's, or one method's rise, was taken for a reading under which it holds."""
    errors = {"paper-gd": (0.2, 0.2), "wanda": (0.3, 0.3), "sparsegpt": (0.1, 0.1), "random": (0.7, 0.7)}
    results = made_up(errors, rhos=(0.5, 0.7))
    rows = [
        row | {"held_out": 0.85 * row["held_out"]} if (row["method"], row["rho"]) == ("paper-gd", 0.7) else row
        for row in results.rows
    ]
    found = {id_: holds for (id_, _), holds in verdicts(replace(results, rows=rows)).items() if id_.startswith("exp:")}
    assert found == {"exp:real-outperforms": False, "exp:real-rises": False, "exp:real-lower-rate": True}
    without = made_up({name: by for name, by in errors.items() if name != "sparsegpt"}, rhos=(0.5, 0.7))
    assert not {id_ for id_, _ in verdicts(without) if id_.startswith("exp:")}


def test_the_paper_s_sentences_and_what_failed():
    errors = {
        "paper-gd": (2.0, 2.0),
        "random": (0.7, 0.7),
        "wanda": (0.1, 0.1),
        "sparsegpt": (0.1, 0.1),
        "ste": (0.05, 0.05),
    }
    found = verdicts(made_up(errors, rhos=(0.5, 0.7)))
    assert found["new:descent-worse-than-chance", "paper-gd, rho = 0.5, n = 128"]
    assert not found["exp:real-outperforms", "paper-gd, rho = 0.7, n = 128"]
    assert not found["exp:real-lower-rate", "paper-gd, n = 128"]
    assert [holds for (id_, _), holds in found.items() if id_ == "exp:real-rises"] == [True]
    assert found["new:learnt-mask", "rho = 0.5, n = 128"]
    assert found["new:in-sample-misleads", "ste, rho = 0.5, n = 128"]
    found = verdicts(made_up(errors | {"paper-gd": (0.01, 0.01)}, rhos=(0.5, 0.7)))
    assert not found.pop(("new:descent-worse-than-chance", "paper-gd, rho = 0.5, n = 128"))
    assert not found.pop(("new:descent-worse-than-chance", "paper-gd, rho = 0.7, n = 128"))
    assert all(found.values())


def test_variants_are_compared_with_their_method():
    errors = {"fisher-obs": (0.1, 0.1), "fisher-obs:output_metric=identity": (0.2, 0.2)}
    errors |= {"fisher-obs:output_metric=squared": (0.05, 0.1)}
    errors |= {"fisher-diagonal": (0.1, 0.1), "fisher-diagonal:threshold=layer": (0.11, 0.01)}
    found = verdicts(made_up(errors))
    assert found["new:thresholds-over-the-first-layer-hurt", "fisher-diagonal:threshold=layer, rho = 0.5"]
    assert found["new:output-metric-matters", "fisher-obs:output_metric=identity, rho = 0.5"]
    assert not found["new:squared-metric-gains-nothing", "fisher-obs:output_metric=squared, rho = 0.5"]


@pytest.mark.parametrize(("ours", "holds"), [(0.3, True), (0.1, False)])
def test_at_another_length_only_the_hazard_is_judged(ours, holds):
    results = made_up({"sparsegpt": (0.2, 0.2), "fisher-obs": (ours, ours)})
    longer = LayerResults(replace(results.plan, held_out_n=256), results.rows, [])
    reading = "calibrated at n = 128, measured at 256, rho = 0.5"
    assert verdicts(longer) == {("new:short-calibration-breaks-long-inputs", reading): holds}


def test_tables_are_written_whole_and_strict(tmp_path):
    results = made_up({"sparsegpt": (0.4, 0.2), "fisher-obs": (0.2, 0.05)})
    paths = write_tables(results, tmp_path)
    assert {path.name for path in paths} == {"layer.csv", "layer.json"}
    document = json.loads((tmp_path / "layer.json").read_text(), parse_constant=pytest.fail)
    assert document == json.loads(json.dumps(as_document(results)))
    assert len((tmp_path / "layer.csv").read_text().splitlines()) == 1 + len(results.rows)
    assert "fisher-obs" in summary(results) and "new:fisher-obs-held-out: holds" in summary(results)


def test_shipped_texts_are_disjoint_and_plain():
    inside, outside = (default_texts(part) for part in ("calibration", "held_out"))
    assert len(inside) == len(outside) == 4
    words = [set(" ".join(read_documents(paths, "")).split(". ")) for paths in (inside, outside)]
    assert not words[0] & words[1]
    for path in (*inside, *outside):
        assert path.read_text(encoding="utf-8").isascii() and len(path.read_text().split()) > 500


class Letters:
    """A tokenizer of one token per letter, with a mark before and after."""

    class Encoding:
        def __init__(self, ids):
            self.ids = ids

    def encode(self, text, add_special_tokens=True):
        ids = [ord(letter) for letter in text]
        return self.Encoding([1, *ids, 2] if add_special_tokens else ids)


def test_sequences_have_one_length_and_the_special_tokens():
    documents = ["abcdefghij" * 3, "uvwxyz" * 4]
    ids = draw_sequences(documents, Letters(), 5, 12, np.random.default_rng(0))
    assert ids.shape == (5, 12) and (ids[:, 0] == 1).all() and (ids[:, -1] == 2).all()
    for index, row in enumerate(ids):
        assert "".join(map(chr, row[1:-1])) in documents[index % 2]
    again = draw_sequences(documents, Letters(), 5, 12, np.random.default_rng(0))
    assert (ids == again).all()
    with pytest.raises(InvalidInstance, match="at least 28 tokens for n = 30; one has 24"):
        draw_sequences(documents, Letters(), 2, 30, np.random.default_rng(0))
    with pytest.raises(InvalidInstance, match="must hold tokenizer.json"):
        draw_sequences(documents, None, 2, 12, np.random.default_rng(0))
    with pytest.raises(InvalidInstance, match="beside 2 special tokens; got 2"):
        draw_sequences(documents, Letters(), 2, 2, np.random.default_rng(0))


def test_bad_documents(tmp_path):
    binary, empty = tmp_path / "binary", tmp_path / "empty"
    binary.write_bytes(b"\xff\xfe\x00")
    empty.write_text("  \n")
    for path, message in ((binary, "must be UTF-8"), (empty, "must not be empty"), (tmp_path, "must be a text file")):
        with pytest.raises(InvalidInstance, match=message):
            read_documents([path], "calibration")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"methods": ("obs",)}, "method must be one of"),
        ({"methods": ("fisher-obs:sweeps",)}, "options must read name=value"),
        ({"methods": ("random", "fisher-obs:dampening=1")}, "options of method 'fisher-obs' are damping"),
        ({"methods": ("random", "fisher-obs-kl:steps=-1")}, "steps must be an integer >= 0; got -1"),
        ({"methods": ("sparsegpt:percdamp=-1",)}, "percdamp must be"),
        ({"rhos": (1.5,)}, "rho must be in"),
        ({"ns": (1,)}, "n must be an integer >= 2"),
        ({"ns": ()}, "ns must not be empty"),
        ({"k": 0}, "k must be"),
        ({"layers": (-1,)}, "layer must be"),
        ({"calibration": ("a.txt", "b.txt"), "held_out": ("./b.txt",)}, "must differ; both have 'b.txt'"),
    ],
)
def test_bad_plans(choices, message):
    with pytest.raises(InvalidInstance, match=message):
        LayerPlan("model", **choices)


def test_method_options():
    assert parse_method("ste") == ("ste", {})
    assert parse_method("paper-gd:reading=sum,steps=10,step_size=0.1") == (
        "paper-gd",
        {"reading": "sum", "steps": 10, "step_size": 0.1},
    )


def test_the_fingerprint_sees_texts_and_settings(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("one")
    plan = LayerPlan(str(tmp_path), calibration=(str(text),))
    first = plan.fingerprint()
    assert first == LayerPlan(str(tmp_path), calibration=(str(text),), rhos=(0.9,)).fingerprint()
    assert first != LayerPlan(str(tmp_path), calibration=(str(text),), k=4).fingerprint()
    text.write_text("two")
    assert first != plan.fingerprint()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_the_fingerprint_sees_what_the_model_s_files_hold(tmp_path, name):
    """Models of one architecture have files of one size; another's finished runs must not be taken for one's own."""
    content = bytearray(np.random.default_rng(0).bytes(3_000_000))
    file = tmp_path / name
    file.write_bytes(content)
    first = LayerPlan(str(tmp_path)).fingerprint()
    assert first == LayerPlan(str(tmp_path)).fingerprint()
    content[1_000_000:2_000_000] = bytes(1_000_000)
    file.write_bytes(content)
    assert first != LayerPlan(str(tmp_path)).fingerprint()

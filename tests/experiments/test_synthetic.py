"""The experiment itself: its data, its runs, resuming, tables and plots."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.runs import complete, computing
from attnprune_verify.experiments.synthetic import run as synthetic
from attnprune_verify.experiments.synthetic.data import Cell, draw
from attnprune_verify.experiments.synthetic.plan import FULL, QUICK, SyntheticPlan, SyntheticRun, perform
from attnprune_verify.experiments.synthetic.plots import write_plots
from attnprune_verify.experiments.synthetic.report import COLUMNS, summary, write_tables
from attnprune_verify.experiments.synthetic.rivals import RIVALS, rivals
from attnprune_verify.experiments.synthetic.run import Results, run_synthetic
from attnprune_verify.model import factored_loss, relative_error
from attnprune_verify.state.journal import Journal

TINY = SyntheticPlan(
    lams=(0.25, 1.0), fixed_lams=(0.04,), ns=(6, 8), fixed_n=8, rhos=(0.3, 0.5), seeds=((2, 2),), steps=4, d=6
)


# ------------------------------------------------------------ data and measure


def test_weights_depend_on_seed_and_kind_only() -> None:
    first, second = draw(Cell("independent", 3, 2, 8, 6)), draw(Cell("independent", 3, 5, 16, 6))
    np.testing.assert_array_equal(first.W_Q, second.W_Q)
    assert np.linalg.matrix_rank(first.W_Q) == 4
    shared = draw(Cell("shared", 3, 2, 8, 6))
    np.testing.assert_array_equal(shared.W_Q, shared.W_K)
    assert not np.array_equal(first.W_Q, first.W_K)
    assert not np.array_equal(first.X, first.fresh)


def test_scale_multiplies_the_logits() -> None:
    plain, scaled = draw(Cell("independent", 0, 1, 8, 6)), draw(Cell("independent", 0, 1, 8, 6, scale=0.25))
    np.testing.assert_allclose(scaled.W, 0.25 * plain.W)


def test_errors_are_the_models_relative_error() -> None:
    problem = draw(Cell("independent", 0, 3, 8, 6, scale=0.05))
    mask = np.random.default_rng(0).integers(0, 2, (6, 6)).astype(float)
    errors = problem.errors(mask * problem.W)
    assert errors.in_mean == pytest.approx(relative_error(mask, problem.X, problem.W, "causal"), rel=1e-12)
    assert errors.out_mean == pytest.approx(relative_error(mask, problem.fresh, problem.W, "causal"), rel=1e-12)
    assert errors.in_pooled != errors.in_mean
    assert problem.errors(problem.W).in_mean == 0


def test_rivals_prune_what_they_say() -> None:
    problem = draw(Cell("independent", 0, 2, 32, 6, scale=0.05))
    found = dict(rivals(problem, 0.5))
    assert found.keys() == RIVALS.keys()
    for name in ("magnitude-fused", "random-fused", "wanda-fused"):
        assert np.count_nonzero(found[name] == 0) == 18
        kept = found[name] != 0
        np.testing.assert_array_equal(found[name][kept], problem.W[kept])
    assert not found["everything"].any()


def test_wanda_prunes_the_rows_of_the_transposed_pair() -> None:
    """The layer weight of Q = X W_Q is W_Q^T: as many zeros in every COLUMN of W_Q."""
    problem = draw(Cell("independent", 0, 2, 32, 6))
    from attnprune_verify.algorithms.baselines.wanda import wanda_mask

    pruned = [wanda_mask(part.T, problem.X, 0.5).T for part in (problem.W_Q, problem.W_K)]
    assert all((mask.sum(axis=0) == 3).all() for mask in pruned)
    pair = [np.where(mask, 0, part) for mask, part in zip(pruned, (problem.W_Q, problem.W_K), strict=True)]
    np.testing.assert_allclose(dict(rivals(problem, 0.5))["wanda"], pair[0] @ pair[1].T)
    keeps = [1.0 - mask for mask in pruned]
    pooled = problem.errors(pair[0] @ pair[1].T).in_pooled
    dense = sum(np.sum(F**2) for F in problem._dense[0]) / 2
    loss = factored_loss(keeps[0], keeps[1], problem.X, problem.W_Q, problem.W_K, mask="causal")
    assert pooled == pytest.approx(2 * loss / dense, rel=1e-9)


# ------------------------------------------------------------ plans


def test_plans_have_the_papers_ranges() -> None:
    assert (QUICK.d, QUICK.steps, QUICK.momentum, QUICK.fixed_n, QUICK.fixed_rho) == (64, 100, 0.9, 128, 0.5)
    assert QUICK.fixed_lams[0] == 0.04 and {k for k, _ in FULL.seeds} == {16, 64} == {k for k, _ in QUICK.seeds}
    assert {2.0**-4, 2.0**-8} <= {*FULL.lams} and 512 in FULL.ns and len(FULL.rhos) == 9
    assert {*FULL.weights} == {"independent", "shared"}


def test_no_run_twice_and_keys_are_runs() -> None:
    runs = QUICK.runs()
    assert len({run.key for run in runs}) == len(runs) == len(set(runs))


@pytest.mark.parametrize(
    "change,message",
    [
        ({"rhos": (1.5,)}, "rho must be in"),
        ({"ns": (0,)}, "n must be"),
        ({"seeds": ((0, 1),)}, "k must be"),
        ({"seeds": ((4, 0),)}, "seeds must be"),
        ({"lams": (0.0,)}, "lam must be > 0"),
        ({"lams": (float("nan"),)}, "lam must be"),
        ({"fixed_lams": (-1.0,)}, "lam must be"),
        ({"readings": ("paper",)}, "reading must be one of"),
        ({"weights": ("equal",)}, "weights must be independent or shared"),
        ({"weights": ()}, "at least one of weights"),
        ({"momentum": 1.0}, "momentum"),
        ({"momentum_form": "adam"}, "momentum_form"),
        ({"scale": 0.0}, "scale"),
        ({"steps": -1}, "steps"),
        ({"rank": 0}, "rank"),
    ],
)
def test_a_bad_plan_is_refused_before_any_work(change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInstance, match=message):
        replace(TINY, **change)  # type: ignore[arg-type]


# ------------------------------------------------------------ running and resuming


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    folder = tmp_path_factory.mktemp("synthetic")
    return run_synthetic(TINY, folder), folder


def test_every_run_gives_a_row_for_every_ratio(results: tuple[Results, Path]) -> None:
    table = results[0]
    descents = [run for run in TINY.runs() if run.kind == "descent"]
    assert sum(row["method"] == "descent" for row in table.rows) == sum(len(run.rhos) for run in descents)
    assert {row["method"] for row in table.rows} == {*RIVALS, "descent"}
    assert all(0 <= row["in_mean"] <= 2 + 1e-12 for row in table.rows)
    assert len(table.chaos) == 4  # two kinds of weights, two readings, seed 0


def test_a_second_call_repeats_nothing(results: tuple[Results, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(_: SyntheticRun) -> None:
        raise AssertionError("a finished run was repeated")

    monkeypatch.setattr(synthetic, "perform", forbidden)
    again = run_synthetic(TINY, results[1])
    assert again.rows == results[0].rows and again.chaos == results[0].chaos


def test_an_interrupted_experiment_goes_on(results: tuple[Results, Path], tmp_path: Path) -> None:
    seen: list[int] = []

    def interrupt(done: int, total: int) -> None:
        seen.append(done)
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_synthetic(TINY, tmp_path, progress=interrupt)
    assert len(Journal(tmp_path / synthetic.JOURNAL, computing()).finished) == 5
    with (tmp_path / synthetic.JOURNAL).open("ab") as file:
        file.write(f'{{"code": "{computing()}", "key": "cut off in the midd'.encode())
    progress: list[tuple[int, int]] = []
    resumed = run_synthetic(TINY, tmp_path, progress=lambda *now: progress.append(now))
    assert progress[0] == (5, len(TINY.runs())) and progress[-1][0] == len(TINY.runs())
    assert resumed.rows == results[0].rows


def test_in_parallel_the_table_is_the_same(results: tuple[Results, Path]) -> None:
    pytest.importorskip("joblib")
    assert run_synthetic(TINY, processes=2).rows == results[0].rows


def test_a_result_depends_on_its_run_only() -> None:
    run = next(run for run in TINY.runs() if run.kind == "descent")
    assert perform(run) == perform(run)


# ------------------------------------------------------------ files


def test_tables_hold_every_row(results: tuple[Results, Path], tmp_path: Path) -> None:
    table, journal = write_tables(results[0], tmp_path)
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(results[0].rows) and tuple(rows[0]) == COLUMNS
    assert [float(row["in_mean"]) for row in rows] == [row["in_mean"] for row in results[0].rows]
    document = json.loads(journal.read_text())
    assert document["schema"] == "attnprune-verify/experiment-synthetic/1"
    assert document["rows"] == results[0].rows and document["statements"]


def test_plots_are_written_and_repeatable(results: tuple[Results, Path], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    one = Results(replace(TINY, weights=("shared",)), results[0].rows, [])
    paths = write_plots(one, tmp_path)
    assert [path.name for path in paths] == ["figure2_shared.png", "figure2_shared.svg"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    svg = paths[1].read_bytes()
    write_plots(one, tmp_path)
    assert paths[1].read_bytes() == svg


def test_the_summary_names_every_statement_and_every_rival(results: tuple[Results, Path]) -> None:
    text = summary(results[0])
    for label in (*RIVALS.values(), "exp:lambda-u-shape", "exp:rho-consistently-outperforms", "Chaos"):
        assert label in text


def test_one_process_at_a_time_fills_a_journal(tmp_path: Path) -> None:
    """Two would do everything twice, and one may cut off the line that the other is writing."""
    journal, tried = tmp_path / "out" / "runs.jsonl", []

    def perform_beside_another(number: int) -> dict[str, int]:
        with pytest.raises(InvalidInstance, match="another process is at work with .*runs.jsonl'"):
            complete({"2": 2}, lambda number: {}, journal)
        tried.append(number)
        return {"square": number**2}

    assert complete({"3": 3}, perform_beside_another, journal) == [{"key": "3", "square": 9}] and tried == [3]
    assert complete({"3": 3, "4": 4}, lambda number: {"square": number**2}, journal)[1] == {"key": "4", "square": 16}
    assert list(Journal(journal, computing()).finished) == ["3", "4"]


def test_damaged_journals_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"rows": []}\n')
    with pytest.raises(InvalidInstance, match="line 1"):
        Journal(path)


# ------------------------------------------------------------ the figures of a first measurement


def measured(weights: str, seeds: int, measure: str = "in_mean") -> dict[str, tuple[float, float]]:
    values: dict[str, list[float]] = {}
    for seed in range(seeds):
        for row in perform(SyntheticRun("rivals", Cell(weights, seed, 16, 128), (0.5,)))["rows"]:  # type: ignore[arg-type]
            values.setdefault(row["method"], []).append(row[measure])
    return {method: (float(np.mean(v)), float(np.std(v, ddof=1))) for method, v in values.items()}


EARLIER = {  # weights: method: in-sample, held-out; five seeds. Random masks are other draws, see docs.
    "independent": {
        "wanda": (0.925, 0.926), "sparsegpt": (0.808, 0.801), "wanda-fused": (0.693, 0.711),
        "sparsegpt-fused": (0.544, 0.533), "magnitude-fused": (0.543, 0.533),
        "everything": (0.956, 0.956),
    },
    "shared": {
        "wanda": (0.383, 0.372), "sparsegpt": (0.249, 0.239), "wanda-fused": (0.659, 0.632),
        "sparsegpt-fused": (0.604, 0.555), "magnitude-fused": (0.602, 0.563),
        "everything": (0.957, 0.957),
    },
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("weights", EARLIER)
def test_baselines_repeat_an_earlier_independent_measurement(weights: str) -> None:
    """In-sample to every digit given; fresh samples were other draws: two means of five each."""
    inside, outside = measured(weights, 5), measured(weights, 5, "out_mean")
    for method, (expected_in, expected_out) in EARLIER[weights].items():
        assert abs(inside[method][0] - expected_in) <= 0.0006, method
        assert abs(outside[method][0] - expected_out) <= 0.001 + 3 * np.sqrt(2 / 5) * outside[method][1], method


# ------------------------------------------------------------ without the extras


def test_without_joblib_runs_go_one_by_one(results: tuple[Results, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from attnprune_verify.experiments import runs

    monkeypatch.setattr(runs, "find_spec", lambda name: None)
    assert not runs.can_run_in_parallel()
    small = replace(TINY, weights=("shared",), seeds=((2, 1),))
    expected = [row for row in results[0].rows if row["weights"] == "shared" and row["seed"] == 0]
    assert run_synthetic(small, processes=2).rows == expected

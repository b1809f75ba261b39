"""The experiments whose runs are stored, by name."""

from collections.abc import Iterator
from pathlib import Path

from attnprune_verify.experiments.documents import default_texts
from attnprune_verify.experiments.layer.plan import LayerPlan, LayerRun, parse_method
from attnprune_verify.experiments.layer.report import command_line
from attnprune_verify.experiments.layer.run import LayerResults, measure_run
from attnprune_verify.experiments.layer.sentences import layer_statements
from attnprune_verify.experiments.stored.kind import MeasuredSentence, Row, Stored, tuples
from attnprune_verify.experiments.stored.whole_models import StoredPerplexity
from attnprune_verify.experiments.synthetic import report
from attnprune_verify.experiments.synthetic.plan import SyntheticPlan, SyntheticRun, perform
from attnprune_verify.experiments.synthetic.run import Results
from attnprune_verify.experiments.synthetic.sentences import figure2_statements
from attnprune_verify.state.digests import of_file

__all__ = ["KINDS", "MeasuredSentence", "StoredLayer", "StoredPerplexity", "Stored", "StoredSynthetic"]


class StoredSynthetic(Stored):
    """Section 6.1."""

    columns = report.COLUMNS
    measured = report.MEASURED
    errors = report.MEASURED[:4]
    command = "attnprune-verify experiment synthetic"
    data = "seeded synthetic data, not the authors' own"
    needs_model = False

    def __init__(self, plan: Row, folder: str = "") -> None:
        self.plan = SyntheticPlan(**tuples(plan))

    def inputs(self) -> dict[str, str]:
        """Return no files: all data are drawn."""
        return {}

    def runs(self) -> list[SyntheticRun]:
        """Return all runs except the diagnostic of chaos, which leaves no row."""
        return [run for run in self.plan.runs() if run.kind != "chaos"]

    def rows(self, run: SyntheticRun) -> list[Row]:
        """One per method and rho."""
        return list(perform(run)["rows"])

    def setting(self, run: SyntheticRun) -> str:
        """Return the setting without seed and k: a setting is calm if every draw is."""
        if run.kind != "descent":
            return ""
        return f"{run.cell.weights}, n = {run.cell.n}, {run.reading}, lam = {run.lam:g}"

    def disturbed(self, run: SyntheticRun, disturbance: float) -> list[Row] | None:
        """Return the rows of the run from M_0 = 1 + disturbance N(0, 1)."""
        return list(perform(run, disturbance)["rows"])

    def results(self, rows: list[Row]) -> Results:
        """Return the stored table as `Results`, like `run_synthetic`."""
        return Results(self.plan, rows, [])

    def findings(self, rows: list[Row]) -> Iterator[MeasuredSentence]:
        """Section 6.1's sentences."""
        for sentence in figure2_statements(self.results(rows)):
            p = f"p = {sentence['p']:.2g}"
            words = [f"{sentence['weights']} weights", f"k = {sentence['k']}", sentence["reading"]]
            words += [
                "" if sentence["lam"] is None else f"lam = {sentence['lam']:g}",
                sentence["measure"],
                f"{sentence['seeds']} seeds",
            ]
            reading = ", ".join(filter(None, words))
            yield MeasuredSentence(
                sentence["id"],
                sentence["says"],
                sentence["criterion"],
                sentence["verdict"],
                reading,
                f"{sentence['numbers']}; {p}",
            )


class StoredLayer(Stored):
    """Section 6.2, and our methods."""

    columns = ("method", "rho", "n", "seed", "layer", "head", "in_sample", "held_out", "cosine_distance")
    measured = ("in_sample", "held_out", "cosine_distance")
    beside = ("k", "held_out_n", "layers")
    errors = ("in_sample", "held_out")
    needs_model = True

    def __init__(self, plan: Row, folder: str = "") -> None:
        self.plan = LayerPlan(**(tuples(plan) | {"model": folder}))
        draws = f"{self.plan.seeds} draw{'s' if self.plan.seeds > 1 else ''} of calibration texts"
        self.data = (
            f"a pretrained sentence encoder and two disjoint sets of texts, by means that are not tested: {draws}"
        )
        self.command = command_line(self.plan)

    def inputs(self) -> dict[str, str]:
        """The model's files and the texts."""
        folder = Path(self.plan.model)
        paths = [folder / "config.json", *sorted(folder.glob("*.safetensors")), folder / "tokenizer.json"]
        paths += [path for part in ("calibration", "held_out") for path in default_texts(part)]
        return {path.name: of_file(path) for path in paths}

    def runs(self) -> list[LayerRun]:
        """One method at one ratio on all layers."""
        return self.plan.runs()

    def rows(self, run: LayerRun) -> list[Row]:
        """One per layer and head, and one for the whole model."""
        found = measure_run(self.plan, run)
        whole = [{"cosine_distance": found["whole"]}] if found["whole"] is not None else []
        return [{**found["run"], **row} for row in (*found["rows"], *whole)]

    def setting(self, run: LayerRun) -> str:
        """Methods that descend on a mask."""
        return run.method if parse_method(run.method)[0] in ("ste", "paper-gd") else ""

    def by_rounding(self, run: LayerRun) -> bool:
        """Return True for methods that refine the kept entries step by step: OpenBLAS on Skylake moved them by 0.1."""
        return parse_method(run.method)[0] not in ("magnitude", "random", "wanda", "sparsegpt")

    def results(self, rows: list[Row]) -> LayerResults:
        """Return the stored table as `LayerResults`, like `run_layers`."""
        whole = [row for row in rows if "head" not in row]
        return LayerResults(self.plan, [row for row in rows if "head" in row], whole)

    def findings(self, rows: list[Row]) -> Iterator[MeasuredSentence]:
        """Section 6.2's sentences and ours."""
        for sentence in layer_statements(self.results(rows)):
            verdict = "agrees" if sentence["holds"] else "disagrees"
            found = "<=" if sentence["lhs"] <= sentence["rhs"] else ">"
            numbers = f"{sentence['criterion']}: {sentence['lhs']:.4g} {found} {sentence['rhs']:.4g}"
            yield MeasuredSentence(
                sentence["id"], sentence["says"], sentence["criterion"], verdict, sentence["reading"], numbers
            )


KINDS: dict[str, type[Stored]] = {"synthetic": StoredSynthetic, "layer": StoredLayer, "perplexity": StoredPerplexity}

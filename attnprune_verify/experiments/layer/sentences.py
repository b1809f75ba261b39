"""Section 6.2's sentences and ours, judged on the measurements of the layer experiment.

Each finding is an inequality between two measured numbers, so that it can be judged again from the stored numbers.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from attnprune_verify.experiments.layer.plan import LayerPlan
from attnprune_verify.experiments.layer.run import LayerResults
from attnprune_verify.experiments.layer.tables import by_layer, by_method, ratio_of_means

_SET_LATER = "bounds set after measuring"
_RIVALS = ("wanda", "sparsegpt")
_LITTLE = 0.95  # chosen: a gain below 5 % is little
_BOUNDS = {"fisher-obs": {0.5: 0.50, 0.7: 0.62}, "fisher-obs-kl": {0.5: 0.42, 0.7: 0.47}}

_VARIANTS: tuple[tuple[str, str, str, float, dict[str, int], str], ...] = (
    (
        "fisher-obs:output_metric=identity",
        "fisher-obs",
        "new:output-metric-matters",
        1.5,
        {},
        f"Without the Fisher metric on the outputs the same method is at least half as far off again ({_SET_LATER}).",
    ),
    (
        "fisher-obs:output_metric=squared",
        "fisher-obs",
        "new:squared-metric-gains-nothing",
        _LITTLE,
        {},
        f"The metric of the squared error (J^2) gains less than {100 * (1 - _LITTLE):.0f} % on other texts over the"
        f" KL's (J) ({_SET_LATER}).",
    ),
    (
        "fisher-diagonal:threshold=layer",
        "fisher-diagonal",
        "new:thresholds-over-the-first-layer-hurt",
        1.0,
        {"layer": 0},
        "In the first layer, thresholds over all heads together give a larger mean error than one per head.",
    ),
)


@dataclass(frozen=True)
class LayerFinding:
    """One sentence under one reading.

    Attributes
    ----------
    id : str
        Claim id.
    says : str
        The sentence.
    criterion : str
        The inequality, in words.
    lhs, rhs : float
        The measured numbers.
    holds : bool
        True if lhs <= rhs.
    reading : str
        The setting.
    evidence : str
        Always "measured".
    """

    id: str
    says: str
    criterion: str
    lhs: float
    rhs: float
    holds: bool
    reading: str
    evidence: str = "measured"


def layer_statements(results: LayerResults) -> list[dict[str, Any]]:
    """Every sentence that the measured methods and ratios allow to be judged: the fields of `Finding` each.

    Examples
    --------
    >>> from attnprune_verify.experiments.layer.plan import LayerPlan
    >>> held_out = {"sparsegpt": 0.2, "fisher-obs": 0.08}  # numbers made up
    >>> rows = [{"method": method, "rho": 0.5, "n": 128, "seed": 0, "layer": 1, "head": 0, "in_sample": error / 2,
    ...          "held_out": error, "seconds": 1.0} for method, error in held_out.items()]
    >>> found = layer_statements(LayerResults(LayerPlan("model", methods=tuple(held_out)), rows, []))
    >>> [(one["id"], round(one["lhs"], 3), one["rhs"], one["holds"]) for one in found]
    [('new:fisher-obs-held-out', 0.4, 0.5, True)]
    """
    tables = _Tables(results.plan, by_method(results), by_layer(results), results)
    found = [*_paper(tables), *_what_failed(tables)]
    if results.plan.held_out_n is None:  # at another length than calibrated at, our bounds are not claimed
        found += _ours(tables)
    return [asdict(finding) for finding in found]


class _Tables(NamedTuple):
    plan: LayerPlan
    methods: list[dict[str, Any]]
    layers: list[dict[str, Any]]
    results: LayerResults


def _paper(tables: _Tables) -> Iterator[LayerFinding]:
    """Section 6.2: "consistently outperforms both Wanda and SparseGPT", "with a much lower increasing rate"."""
    methods = [method for method in tables.plan.methods if method.startswith("paper-gd")]
    for method in methods:
        for row in _rows(tables, method):
            setting = f"{method}, rho = {row['rho']:g}, n = {row['n']}"
            rivals = [_row(tables, rival, row["rho"], row["n"]) for rival in _RIVALS]
            errors = [rival["held_out"] for rival in rivals if rival is not None]
            if len(errors) == len(_RIVALS):
                yield _finding(
                    "exp:real-outperforms",
                    "On a real model the paper's algorithm outperforms both Wanda and SparseGPT.",
                    "held-out error of the algorithm <= the smaller of Wanda's and SparseGPT's",
                    row["held_out"],
                    min(errors),
                    setting,
                )
            chance = _row(tables, "random", row["rho"], row["n"])
            if chance is not None:
                yield _finding(
                    "new:descent-worse-than-chance",
                    "The paper's descent, with the settings of Section 6.2, does worse than a random mask in the "
                    "attention error of an encoder's layers (not so in a language model's perplexity).",
                    "held-out error of a random mask <= that of the algorithm",
                    chance["held_out"],
                    row["held_out"],
                    setting,
                )
        yield from _growth(tables, method)


def _growth(tables: _Tables, method: str) -> Iterator[LayerFinding]:
    low, high = min(tables.plan.rhos), max(tables.plan.rhos)
    if low == high:
        return
    for n in tables.plan.ns:
        found = {name: [_row(tables, name, rho, n) for rho in (low, high)] for name in (method, *_RIVALS)}
        errors = {name: [row["held_out"] for row in rows if row is not None] for name, rows in found.items()}
        if any(len(pair) < 2 for pair in errors.values()):
            continue
        worst = min(errors, key=lambda name: errors[name][1] / errors[name][0])
        yield _finding(
            "exp:real-rises",
            "As the pruning ratio increases, the relative error of every method rises.",
            f"of every method, held-out error at rho = {low:g} <= held-out error at rho = {high:g}",
            errors[worst][0],
            errors[worst][1],
            f"{method}, wanda and sparsegpt, n = {n}; {worst} rises least",
        )
        chance = [_row(tables, "random", rho, n) for rho in (low, high)]
        lhs, rhs = errors[method][1] - errors[method][0], min(errors[rival][1] - errors[rival][0] for rival in _RIVALS)
        for row, ours in zip(chance, errors[method], strict=True):
            if row is not None and ours > row["held_out"]:  # what is worse than chance rises no further
                lhs, rhs = ours, row["held_out"]
        yield _finding(
            "exp:real-lower-rate",
            "The paper's error increases with rho at a much lower rate than the baselines'.",
            f"the algorithm's error is at most a random mask's, and from rho = {low:g} to {high:g} it rises by at most "
            "as much as Wanda's and as SparseGPT's",
            lhs,
            rhs,
            f"{method}, n = {n}",
        )


def _ours(tables: _Tables) -> Iterator[LayerFinding]:
    """Yield findings on the ratios that the attention-aware methods reach in every layer but the first."""
    for method, bounds in _BOUNDS.items():
        promised = " and ".join(f"{bound:g} at rho = {rho:g}" for rho, bound in bounds.items())
        for (rho, bound), n in product(bounds.items(), tables.plan.ns):
            ratios = {
                row["layer"]: row["ratio"]
                for row in tables.layers
                if (row["method"], row["rho"], row["n"]) == (method, rho, n) and row["ratio"] is not None
            }
            first = f"; first layer {ratios.pop(0):.2f}" if 0 in ratios else ""
            if ratios:
                layer = max(ratios, key=lambda layer: ratios[layer])
                yield _finding(
                    f"new:{method}-held-out",
                    f"In every layer but the first, {method} has at most {promised} of SparseGPT's held-out attention "
                    f"error ({_SET_LATER}).",
                    f"largest ratio of layer means, layers after the first, <= {bound:g}",
                    ratios[layer],
                    bound,
                    f"rho = {rho:g}, n = {n}, worst layer {layer}{first}",
                )
    for rho, n in product(tables.plan.rhos, tables.plan.ns):
        every = [
            (row["ratio"], row["layer"])
            for row in tables.layers
            if (row["method"], row["rho"], row["n"]) == ("output-obs", rho, n) and row["ratio"] is not None
        ]
        if every:
            (least, best), (most, worst) = min(every), max(every)
            yield _finding(
                "new:output-obs-encoder",
                "In every layer of an encoder, the first among them, output-obs has less held-out attention error than "
                "SparseGPT with as many zeros per layer.",
                "largest ratio of layer means <= 1",
                most,
                1.0,
                f"rho = {rho:g}, n = {n}, worst layer {worst}, least {least:.2f} in layer {best}",
            )
    for rho in tables.plan.rhos:
        for n in tables.plan.ns:
            ours, theirs = _row(tables, "ste", rho, n), _row(tables, "sparsegpt", rho, n)
            if ours and theirs:
                yield _finding(
                    "new:learnt-mask",
                    "A 0/1 mask learnt by descent on the attention's KL beats SparseGPT although it changes no weight.",
                    "held-out error of ste <= that of sparsegpt",
                    ours["held_out"],
                    theirs["held_out"],
                    f"rho = {rho:g}, n = {n}",
                )


def _what_failed(tables: _Tables) -> Iterator[LayerFinding]:
    """Yield findings on failures: misleading in-sample errors, calibration on short sequences, weaker variants."""
    for method in ("ste", "fisher-obs-kl"):
        for row in _rows(tables, method):
            yield _finding(
                "new:in-sample-misleads",
                "The calibration error of a method that descends on it is less than half of its error on other texts.",
                "in-sample error <= half of the held-out error",
                row["in_sample"],
                row["held_out"] / 2,
                f"{method}, rho = {row['rho']:g}, n = {row['n']}",
            )
    for n in tables.plan.ns:
        if tables.plan.held_out_n is not None and tables.plan.held_out_n > n:
            for rho in tables.plan.rhos:
                ratio = ratio_of_means(tables.results, "fisher-obs", rho=rho, n=n)
                if ratio is not None:
                    yield _finding(
                        "new:short-calibration-breaks-long-inputs",
                        "Calibrated on short sequences, fisher-obs is worse than SparseGPT on long ones.",
                        "1 <= mean held-out error of fisher-obs / of sparsegpt",
                        1.0,
                        ratio,
                        f"calibrated at n = {n}, measured at {tables.plan.held_out_n}, rho = {rho:g}",
                    )
    yield from _comparisons(tables)


def _comparisons(tables: _Tables) -> Iterator[LayerFinding]:
    """Yield findings that compare variants of one method, and so the effect of each part."""
    for rho in tables.plan.rhos:
        for variant, plain, id_, least, fixed, says in _VARIANTS:
            ratio = ratio_of_means(tables.results, variant, plain, rho=rho, **fixed)
            if ratio is not None:
                criterion = f"{least:g} <= mean held-out error of the variant / of the method"
                yield _finding(id_, says, criterion, least, ratio, f"{variant}, rho = {rho:g}")


def _finding(id_: str, says: str, criterion: str, lhs: float, rhs: float, reading: str) -> LayerFinding:
    return LayerFinding(id_, says, criterion, float(lhs), float(rhs), bool(np.less_equal(lhs, rhs)), reading)


def _rows(tables: _Tables, method: str) -> list[dict[str, Any]]:
    return [row for row in tables.methods if row["method"] == method]


def _row(tables: _Tables, method: str, rho: float, n: int) -> dict[str, Any] | None:
    found = [row for row in _rows(tables, method) if (row["rho"], row["n"]) == (rho, n)]
    return found[0] if found else None

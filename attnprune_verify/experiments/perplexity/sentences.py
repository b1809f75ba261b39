"""Sentences of Table 1, and those about our method, tested on the measurements of the perplexity experiment.

Each sentence is an inequality between two measured means, tested seed by seed: the draws of calibration windows are the
seeds, model and held-out text stay the same. All sentences of one id are corrected together (Holm), those of several
stored tables as well.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from attnprune_verify.experiments.paired import LEVEL, RULE, Doubts, all_of, is_below, verdicts
from attnprune_verify.experiments.perplexity.run import PerplexityResults
from attnprune_verify.experiments.perplexity.tables import REFERENCE, by_draws
from attnprune_verify.experiments.runs import Row
from attnprune_verify.whole_model.plan import DENSE

_PAPERS, _OURS, _RANDOM = "paper-gd", "output-obs", "random"
_PRUNED_REST = ("wanda", "sparsegpt")
_TABLE_1 = 0.5  # the paper's ratio in Table 1
_NINE_TENTHS = 0.9  # the ratio of `new:descent-wins-at-nine-tenths`
_SET_BEFORE = "bounds set before measuring"
_NAMES = {"wanda": "Wanda", "sparsegpt": "SparseGPT"}
_SAID = {True: "agrees", False: "disagrees", None: "undecided"}

# (maps, budgets) -> the largest share of SparseGPT's KL, by size; with budgets one figure for a held first block.
_BOUNDS: dict[tuple[str, str], dict[float | str, float]] = {
    ("attention", "matrix"): {0.5: 0.30, 0.7: 0.33, 0.9: 0.45, "2:4": 0.60},
    ("attention", "measured"): {0.5: 0.15, 0.7: 0.15},
    ("attention", "held"): {0.5: 0.25, 0.7: 0.25},
    ("everything", "matrix"): {0.5: 0.60, "2:4": 0.75},
    ("everything", "measured"): {0.5: 0.30},
}
_LEFT_OPEN = ("attention", "matrix", "2:4")
"""The one bound set before measuring that the draws do not decide: a sentence of its own."""
_WORDS = {
    "attention": "on W_Q and W_K, the rest dense,",
    "everything": "on every map",
    "matrix": "",
    "measured": " and budgets measured between the maps",
    "held": " and budgets measured between the maps, the first block held at rho",
}


@dataclass(frozen=True)
class PerplexityFinding:
    """One sentence under one reading.

    Attributes
    ----------
    id : str
        Claim id.
    says : str
        The sentence.
    criterion : str
        The inequality, in words.
    verdict : "agrees", "disagrees" or "undecided"
        "undecided" if the draws do not decide it.
    reading : str
        The setting.
    numbers : str
        The measured numbers.
    doubts : Doubts
        The two p-values over the draws, before Holm's correction.
    """

    id: str
    says: str
    criterion: str
    verdict: str
    reading: str
    numbers: str
    doubts: Doubts


class _Sentence(NamedTuple):
    """A sentence before its verdict, which depends on all of its id."""

    id: str
    says: str
    criterion: str
    reading: str
    numbers: str
    doubts: Doubts


def perplexity_statements(results: PerplexityResults, *, bounds: bool = True) -> list[Row]:
    """Every sentence that the measured methods allow to be judged: the fields of `PerplexityFinding` each.

    Parameters
    ----------
    results : PerplexityResults
    bounds : bool
        If True, judge our bounds as well; they were set for the default model of ``benchmarks/train_small_llama.py``.

    Examples
    --------
    >>> from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
    >>> common = {"rest": "dense", "budget": "matrix", "rho": 0.5, "pattern": None, "k": 8, "layer": None, "seconds": 1}
    >>> rows = [{**common, "attention": name, "seed": seed, "kl": kl + seed / 1000, "nll": 3 + kl, "perplexity": 20.1}
    ...         for name, kl in {"sparsegpt": 0.2, "output-obs": 0.05}.items() for seed in range(3)]  # numbers made up
    >>> found = perplexity_statements(PerplexityResults(PerplexityPlan("m"), {}, {"nll": 3.0}, rows))
    >>> [(one["id"], one["verdict"]) for one in found]
    [('new:output-obs-beats-sparsegpt', 'agrees'), ('new:output-obs-attention', 'agrees')]
    """
    table = _Table(results)
    found = [*_descent(table), *_baselines(table), *_ours(table, bounds)]
    by_id: dict[str, list[_Sentence]] = {}
    for sentence in found:
        by_id.setdefault(sentence.id, []).append(sentence)
    said = {
        id(sentence): _SAID[truth]
        for family in by_id.values()
        for sentence, truth in zip(family, verdicts([one.doubts for one in family]), strict=True)
    }
    return [
        asdict(PerplexityFinding(one.id, one.says, one.criterion, said[id(one)], one.reading, one.numbers, one.doubts))
        for one in found
    ]


class _Table:
    """The rows by setting, draws in order."""

    def __init__(self, results: PerplexityResults) -> None:
        self.held = results.plan.hold
        self.means = {_key(row): row for row in by_draws(results) if row["layer"] is None}
        self._rows: dict[tuple[Any, ...], list[Row]] = {}
        for row in results.rows:
            if row["layer"] is None:
                self._rows.setdefault(_key(row), []).append(row)

    def settings(self) -> list[Row]:
        """Sizes and calibration sizes that were measured, budgets by matrix."""
        names = ("rho", "pattern", "k")
        found = dict.fromkeys(tuple(row[name] for name in names) for row in self.means.values())
        return [dict(zip(names, values, strict=True)) for values in found]

    def below(self, one: Row, other: Row, factor: float, what: str = "nll") -> tuple[Doubts, str] | None:
        """Test, over common draws, whether one setting's perplexity (or "kl") is below `factor` times the other's."""
        first, second = (self._rows.get(_key(setting), []) for setting in (one, other))
        beside = {row["seed"]: row for row in second}
        pairs = [(row, beside[row["seed"]]) for row in first if row["seed"] in beside]
        if not pairs:
            return None
        mine, theirs = (np.array([pair[i][what] for pair in pairs]) for i in (0, 1))
        if what == "kl":
            if min(mine.min(), theirs.min()) <= 0:
                return None
            mine, theirs = np.log(mine), np.log(theirs)
        ratio = f"{'KL' if what == 'kl' else 'perplexity'} {_interval(mine - theirs)} times as large"
        return is_below(mine, theirs + math.log(factor)), f"{ratio}, {len(pairs)} draws"


def _descent(table: _Table) -> Iterator[_Sentence]:
    """Table 1: "our Attention pruning methods always outperform Wanda Attention pruning and SparseGPT"."""
    for rival in ("wanda", "sparsegpt"):
        yield from _whatever_the_rest(
            table,
            _PAPERS,
            rival,
            f"exp:table1-outperforms-{rival}",
            f"The paper's attention pruning always outperforms {_NAMES[rival]} attention pruning in perplexity, "
            "whatever the rest is pruned by.",
            f"perplexity with W_Q, W_K pruned by the paper's descent < by {rival}, with each of the rests",
        )
    for setting, rest in product(table.settings(), (DENSE, *_PRUNED_REST)):
        ours = _row(setting, rest, _PAPERS)
        yield from _compared(
            table,
            ours,
            _row(setting, rest, _RANDOM),
            "new:descent-beats-chance-end-to-end",
            "In a whole model's perplexity the paper's descent does better than a random mask (on the encoder's "
            "attention errors it does worse).",
            "perplexity with W_Q, W_K pruned by the paper's descent < by a random mask, the same rest",
        )
        if (setting["rho"], rest) == (_NINE_TENTHS, DENSE):
            for rival in ("wanda", "sparsegpt"):
                yield from _compared(
                    table,
                    ours,
                    _row(setting, rest, rival),
                    "new:descent-wins-at-nine-tenths",
                    "With nine tenths of W_Q and W_K pruned and the rest dense the paper's descent gives a lower "
                    "perplexity than Wanda and SparseGPT (seen after measuring).",
                    "perplexity with W_Q, W_K pruned by the paper's descent < by either, at rho = 0.9",
                    against=f" against {rival}",
                )


def _baselines(table: _Table) -> Iterator[_Sentence]:
    """Table 1's two orders of the baselines."""
    yield from _whatever_the_rest(
        table,
        "sparsegpt",
        "wanda",
        "exp:table1-sparsegpt-attention-beats-wanda-attention",
        "On W_Q and W_K SparseGPT gives a lower perplexity than Wanda, whatever the rest is pruned by.",
        "perplexity with W_Q, W_K pruned by sparsegpt < by wanda, with each of the rests",
    )
    for setting in _table_1(table):
        yield from _compared(
            table,
            _row(setting, "wanda", "wanda"),
            _row(setting, "sparsegpt", "sparsegpt"),
            "exp:table1-wanda-everywhere-beats-sparsegpt",
            "Wanda for every map gives a lower perplexity than SparseGPT for every map (30.4 against 36.6 in Table 1, "
            "with 8 sentences).",
            "perplexity with every map pruned by wanda < by sparsegpt",
        )


def _table_1(table: _Table) -> list[Row]:
    """The settings of Table 1: half of the weights, nothing structured; k is swept."""
    return [one for one in table.settings() if one["rho"] == _TABLE_1 and one["pattern"] is None]


def _whatever_the_rest(table: _Table, one: str, other: str, id_: str, says: str, criterion: str) -> Iterator[_Sentence]:
    """One reading for each k: the first below the second with every rest that was measured, at least two."""
    for setting in _table_1(table):
        found = {
            rest: compared
            for rest in (DENSE, *_PRUNED_REST)
            if (compared := table.below(_row(setting, rest, one), _row(setting, rest, other), 1.0)) is not None
        }
        if len(found) > 1:
            numbers = "; ".join(f"rest {rest}: {numbers}" for rest, (_, numbers) in found.items())
            reading = f"rests {', '.join(found)}, {_zeros(setting['rho'])}, k = {setting['k']}"
            doubts = all_of(doubt for doubt, _ in found.values())
            yield _Sentence(id_, says, f"{criterion}; {RULE}", reading, numbers, doubts)


def _ours(table: _Table, promised_here: bool) -> Iterator[_Sentence]:
    """The default method's KL against SparseGPT's with the same zeros, on unseen text."""
    budgets = {"matrix": "matrix", "measured": "held" if table.held else "measured"}
    for setting, maps, budget in product(table.settings(), ("attention", "everything"), budgets):
        everything = maps == "everything"
        ours = _row(setting, _OURS if everything else DENSE, _OURS) | {"budget": budget}
        theirs = _row(setting, REFERENCE if everything else DENSE, REFERENCE)
        yield from _compared(
            table,
            ours,
            theirs,
            "new:output-obs-beats-sparsegpt",
            "output-obs on W_Q and W_K with a dense rest, or on every map, has less KL to the dense model on unseen "
            "text than SparseGPT with as many zeros (no block left out).",
            "KL with output-obs < with sparsegpt",
            what="kl",
        )
        bounds = _BOUNDS.get((maps, budgets[budget]), {}) if promised_here else {}
        bound = bounds.get(setting["pattern"] or setting["rho"])
        if bound is None:
            continue
        left_open = (maps, budget, setting["pattern"]) == _LEFT_OPEN
        together = {size: share for size, share in bounds.items() if ((maps, budget, size) == _LEFT_OPEN) is left_open}
        promised = ", ".join(f"{share:g} at {_zeros(size)}" for size, share in together.items())
        id_ = f"new:output-obs-{maps}" + ("" if budget == "matrix" else f"-budgets-{budgets[budget]}")
        yield from _compared(
            table,
            ours,
            theirs,
            id_ + ("-in-pairs" if left_open else ""),
            f"output-obs {_WORDS[maps]} with as many zeros as SparseGPT{_WORDS[budgets[budget]]} has at most so much "
            f"of its KL to the dense model on unseen text: {promised} ({_SET_BEFORE}; no block left out).",
            "KL with output-obs <= the bound times KL with sparsegpt",
            factor=bound,
            what="kl",
        )


def _compared(
    table: _Table,
    one: Row,
    other: Row,
    id_: str,
    says: str,
    criterion: str,
    *,
    factor: float = 1.0,
    what: str = "nll",
    against: str = "",
) -> Iterator[_Sentence]:
    found = table.below(one, other, factor, what)
    if found is not None:
        doubts, numbers = found
        bound = "" if factor == 1 else f", bound {factor:g}"
        yield _Sentence(id_, says, f"{criterion}; {RULE}", _reading(one) + against, numbers + bound, doubts)


def _interval(logs: NDArray[np.float64]) -> str:
    """The geometric mean of a ratio with the interval in which it lies with probability 1 - LEVEL."""
    if len(logs) < 2:
        return f"{math.exp(float(logs.mean())):.4g}"
    centre = float(logs.mean())
    reach = float(stdtrit(len(logs) - 1, 1 - LEVEL / 2)) * float(logs.std(ddof=1)) / math.sqrt(len(logs))
    low, middle, high = (math.exp(centre + sign * reach) for sign in (-1, 0, 1))
    return f"{middle:.4g} [{low:.4g}, {high:.4g}]"


def _row(setting: Row, rest: str, attention: str) -> Row:
    return {**setting, "rest": rest, "attention": attention, "budget": "matrix"}


def _zeros(size: float | str) -> str:
    return size if isinstance(size, str) else f"rho = {size:g}"


def _reading(row: Row) -> str:
    budgets = "" if row["budget"] == "matrix" else f", budgets {row['budget']}"
    return f"rest {row['rest']}, {_zeros(row['pattern'] or row['rho'])}{budgets}, k = {row['k']}"


def _key(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("rest", "attention", "budget", "rho", "pattern", "k"))

"""The perplexity experiment: prune in memory, judge on held-out text, one run at a time."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.documents import default_texts
from attnprune_verify.experiments.perplexity.judge import Judge
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan, PerplexityRun
from attnprune_verify.experiments.runs import Progress, complete
from attnprune_verify.pretrained import PretrainedModel, load_pretrained
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.texts import cut_windows, draw_windows, read_text, token_stream
from attnprune_verify.whole_model.budgets import Curves, measured_curves, zeros_by_map
from attnprune_verify.whole_model.fingerprint import fingerprint, model_fields, texts_fields, versions
from attnprune_verify.whole_model.in_memory import prune_in_memory
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.source import Source

_TOKENS = 2048  # chosen: a usual window; a model's own where that is shorter
_FIRST_TOKEN = "given: every token of a window but the first is predicted, from the ones before it in the window"


@dataclass(frozen=True)
class PerplexityResults:
    """Measurements of the perplexity experiment.

    Attributes
    ----------
    plan : PerplexityPlan
    fingerprint : dict
        ``digest`` and ``fields``.
    dense : dict
        Perplexity, nll and the number of predicted tokens of the dense model.
    rows : list of dict
        One per run: its choices, perplexity, nll, kl, and the CPU seconds of pruning.
    """

    plan: PerplexityPlan
    fingerprint: dict[str, Any]
    dense: dict[str, float]
    rows: list[dict[str, Any]]

    def __repr__(self) -> str:
        return f"<perplexity experiment: {len(self.rows)} rows>"


def run_perplexity(
    plan: PerplexityPlan, folder: Path | None = None, *, processes: int = 1, progress: Progress | None = None
) -> PerplexityResults:
    """Do every run of the plan that `folder` does not hold yet.

    Parameters
    ----------
    plan : PerplexityPlan
    folder : Path, optional
        Where the journal of finished runs is kept; made if missing; None keeps nothing.
    processes : int
        Runs done at the same time.
    progress : callable, optional
        Called as ``progress(runs done, runs)``.

    Returns
    -------
    PerplexityResults

    Raises
    ------
    InvalidInstance
        If the model predicts nothing, or the model or a text cannot be used.

    Examples
    --------
    >>> run_perplexity(PerplexityPlan("no-such-folder"))
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInstance: a model must be a folder; got 'no-such-folder'
    """
    model = _model(plan.model)
    if not model.family.predicts:
        raise InvalidInstance("perplexity needs a model that predicts the next token; an encoder does not")
    _calibration(plan)  # refuses unusable texts before anything is computed
    print_ = fingerprint(_fields(plan, model))
    source = {name: value for name, value in print_["fields"].items() if name not in ("choices", "options")}
    source |= {"n": _length(plan), "windows": plan.windows}
    dense = measure_dense(plan)
    runs = {_key(source, run): run for run in plan.runs(model.depth)}
    journal = None if folder is None else folder / "perplexity-runs.jsonl"
    finished = complete(runs, partial(_measure, plan), journal, processes=processes, progress=progress)
    return PerplexityResults(plan, print_, dense, [one["row"] for one in finished])


def _key(source: dict[str, Any], run: PerplexityRun) -> str:
    """Changes with everything that a run depends on."""
    depends = fingerprint({"source": source, "options": run.plan().options()})["digest"][:16]
    return "|".join(map(str, (*asdict(run).values(), depends)))


def _fields(plan: PerplexityPlan, model: PretrainedModel) -> dict[str, Any]:
    length = _length(plan)
    return {
        "model": model_fields(Source(ModelFolder(plan.model)).digests),
        "texts": {part: texts_fields(_texts(plan, part)) for part in ("calibration", "held_out")},
        "window": {"tokens": length, "stride": length, "first_token": _FIRST_TOKEN},
        "choices": plan.fields() | {"n": length},
        "options": {name: value for run in plan.runs(depth=1) for name, value in run.plan().options().items()},
        "dtype": "float32",
        "versions": versions(),
    }


def measure_dense(plan: PerplexityPlan) -> dict[str, float]:
    """Perplexity and nll of the dense model, and how many tokens are predicted."""
    judge = _judge(plan)
    return {"perplexity": float(np.exp(judge.nll)), "nll": judge.nll, "tokens": judge.tokens}


def measure_run(plan: PerplexityPlan, run: PerplexityRun) -> dict[str, Any]:
    """One pruned model: its choices, perplexity, nll, kl, and the CPU seconds of pruning."""
    model, judge, how = _model(plan.model), _judge(plan), run.plan()
    ids = _windows(plan, run.k, run.seed)
    started = time.process_time()
    curves = _curves(plan, run.attention, run.rest, run.k, run.seed) if run.budget == "measured" else None
    pruned = prune_in_memory(model, ids, how, zeros_by_map(model, ids, how, curves))
    seconds = time.process_time() - started
    choices = {name: value for name, value in asdict(run).items() if name != "hold"}
    return {**choices, **judge(pruned), "seconds": seconds}


def _measure(plan: PerplexityPlan, run: PerplexityRun) -> dict[str, Any]:
    return {"row": measure_run(plan, run)}


def _windows(plan: PerplexityPlan, k: int, seed: int) -> NDArray[np.int64]:
    return _model(plan.model).checked_ids(draw_windows(_calibration(plan), k, _length(plan), seed))


@lru_cache(maxsize=4)
def _curves(plan: PerplexityPlan, attention: str, rest: str, k: int, seed: int) -> Curves:
    """Return the curves of measured budgets; cached, since they are costly and the same for every ratio."""
    how = Plan(attention, rest, 0.5, budget="measured")
    return measured_curves(_model(plan.model), _windows(plan, k, seed), how)


def _length(plan: PerplexityPlan) -> int:
    return min(_model(plan.model).longest, _TOKENS) if plan.n is None else plan.n


def _texts(plan: PerplexityPlan, part: str) -> list[str]:
    paths: Sequence[str | Path] = getattr(plan, part) or default_texts(part)
    return [read_text(path) for path in paths]


@lru_cache(maxsize=1)
def _model(folder: str) -> PretrainedModel:
    return load_pretrained(folder, dtype=np.float32)


@lru_cache(maxsize=1)
def _calibration(plan: PerplexityPlan) -> NDArray[np.int64]:
    return token_stream(_texts(plan, "calibration"), _model(plan.model).tokenizer)


@lru_cache(maxsize=1)
def _judge(plan: PerplexityPlan) -> Judge:
    model = _model(plan.model)
    windows = cut_windows(_texts(plan, "held_out"), model.tokenizer, _length(plan))
    if not windows:
        raise InvalidInstance("the held-out texts must have at least 2 tokens; they have fewer")
    if plan.windows is not None:
        whole = windows[0]
        windows = [whole[np.linspace(0, len(whole) - 1, min(plan.windows, len(whole))).astype(int)]]
    return Judge(model, [model.checked_ids(part) for part in windows])

"""Causes of the difference of two results: the differing fields of their fingerprints, and the effect of each alone."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnprune_verify.errors import InvalidInput
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
from attnprune_verify.experiments.perplexity.run import run_perplexity
from attnprune_verify.files import parse, read_regular
from attnprune_verify.state.digests import differing_fields
from attnprune_verify.values import as_shaped

_RESULTS = ("perplexity.json", "pruning.json")


@dataclass(frozen=True)
class ResultDifference:
    """Differences between the fingerprints of two results.

    Attributes
    ----------
    same : bool
        True if the fingerprints are equal.
    fields : dict
        Dotted names of the fields that differ, with both values.
    """

    same: bool
    fields: dict[str, tuple[Any, Any]]


@dataclass(frozen=True)
class Attribution:
    """The first run of a plan, repeated with one choice taken from the other result.

    Attributes
    ----------
    choice : str
        The choice that was changed; "" for none, "all" for all.
    dense : float
        Perplexity of the dense model.
    perplexity, kl : float
        Perplexity and KL of the pruned model.
    """

    choice: str
    dense: float
    perplexity: float
    kl: float


def read_result(path: str | Path) -> dict[str, Any]:
    """A JSON file that carries a fingerprint, or the folder with the one that `prune-model` or the experiment wrote.

    Raises
    ------
    InvalidInput
        If the file is missing, no JSON, or has no fingerprint; or the folder has none of these files, or both.
    """
    file = Path(path)
    if file.is_dir():
        there = [file / name for name in _RESULTS if (file / name).is_file()]
        if len(there) != 1:
            raise InvalidInput(f"a result's folder must hold one of {', '.join(_RESULTS)}; {str(path)!r} does not")
        (file,) = there
    if not file.is_file():
        raise InvalidInput(f"a result must be a file; got {str(path)!r}")
    read = read_regular(file)
    try:
        found: dict[str, Any] = as_shaped("it", parse(read), {"fingerprint": {"fields": dict, "digest": str}})
    except InvalidInput as error:
        raise InvalidInput(f"a result must be JSON with a fingerprint; {str(path)!r} is not: {error}") from error
    return found


def compare(one: Mapping[str, Any], other: Mapping[str, Any]) -> ResultDifference:
    """The fields in which the fingerprints of two results differ.

    Examples
    --------
    >>> results = [{"fingerprint": {"digest": d, "fields": {"k": k, "n": 256}}} for d, k in (("a", 8), ("b", 4))]
    >>> compare(*results).fields
    {'k': (8, 4)}
    """
    first, second = (result["fingerprint"] for result in (one, other))
    names = differing_fields(first["fields"], second["fields"])
    fields = {name: (_at(first["fields"], name), _at(second["fields"], name)) for name in names}
    return ResultDifference(first["digest"] == second["digest"] and not names, fields)


def attribute(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[Attribution]:
    """Rerun the first run of `one` with each differing choice of `other` alone, and with all of them.

    Versions and the machine cannot be exchanged here: a difference that no choice makes is theirs.

    Raises
    ------
    InvalidInput
        If a result holds no plan, or the model or a text that it names is missing.
    """
    plans = [_first_run(PerplexityPlan.from_document(result.get("plan", {}))) for result in (one, other)]
    names = [name for name in plans[0].document() if getattr(plans[0], name) != getattr(plans[1], name)]
    changed = {name: getattr(plans[1], name) for name in names}
    steps: list[tuple[str, dict[str, Any]]] = [("", {})]
    steps += [(name, {name: value}) for name, value in changed.items()]
    if len(changed) > 1:
        steps.append(("all", changed))
    return [_rerun(name, replace(plans[0], **choices)) for name, choices in steps]


def _rerun(name: str, plan: PerplexityPlan) -> Attribution:
    results = run_perplexity(plan)
    row = results.rows[0]
    return Attribution(name, results.dense["perplexity"], row["perplexity"], row["kl"])


def _first_run(plan: PerplexityPlan) -> PerplexityPlan:
    """The plan of its first run alone."""
    first: dict[str, Any] = {name: getattr(plan, name)[:1] for name in ("attention", "rest", "budgets", "ks")}
    sizes: dict[str, Any] = {"rhos": plan.rhos[:1], "patterns": () if plan.rhos else plan.patterns[:1]}
    return replace(plan, **first, **sizes, seeds=1, by_layer=False)


def _at(fields: Mapping[str, Any], name: str) -> Any:
    value: Any = fields
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            rest = name[name.index(part) :]
            return value.get(rest) if isinstance(value, Mapping) else None
        value = value[part]
    return value

"""A request to prune a folder: its identity, the place of the unfinished work, and the files written at the end."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from attnprune_verify.algorithms.matrix.budget import as_pattern
from attnprune_verify.algorithms.matrix.damping import MOST
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.texts import read_text
from attnprune_verify.values import as_count, as_positive
from attnprune_verify.whole_model.assembled import assemble, finished, holds
from attnprune_verify.whole_model.echoes import steps_fields
from attnprune_verify.whole_model.estimate import OF_PRUNING
from attnprune_verify.whole_model.fingerprint import fingerprint, model_fields, texts_fields, versions
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.source import Patches, Source
from attnprune_verify.whole_model.workplace import Workplace

Place: TypeAlias = str | os.PathLike[str]
Paths: TypeAlias = Place | Sequence[Place]
TOKENS = 2048
"""Tokens of a window where the model allows more; chosen: as in the literature on pruning."""


@dataclass(frozen=True)
class Job:
    """A folder to prune, the new one, and how: the arguments that `prune_model` has in common for torch and NumPy.

    All that can be decided without the network is decided when it is made, before torch is loaded.

    Raises
    ------
    InvalidInstance
        If `out` names no new folder, k or n is no count, or a text is not usable.
    """

    folder: ModelFolder
    out: Place
    plan: Plan
    calibration: Paths
    k: int = 128
    n: int | None = None
    minutes: float | None = None
    texts: list[str] = field(init=False)
    """Content of the calibration texts; at least one."""

    def __post_init__(self) -> None:
        self.target()
        as_count("k", self.k, least=1)
        if self.n is not None:
            as_count("n", self.n, least=2)
        if self.minutes is not None:
            as_positive("minutes", self.minutes)
        config = self.folder.config
        if isinstance(config.get("num_hidden_layers"), int):
            self.plan.refuse_blocks_beyond(config["num_hidden_layers"])
        if isinstance(config.get("max_position_embeddings"), int):
            self.length(config["max_position_embeddings"])
        if self.plan.pattern is not None and isinstance(config.get("hidden_size"), int):
            as_pattern(self.plan.pattern, config["hidden_size"])
        paths = [self.calibration] if isinstance(self.calibration, str | os.PathLike) else self.calibration
        object.__setattr__(self, "texts", [read_text(path) for path in paths])
        if not self.texts:
            raise InvalidInstance("calibration must name at least one text; got none")

    def length(self, longest: int | None) -> int:
        """Return the tokens of a window of a model that allows `longest` (None: any number).

        Raises
        ------
        InvalidInstance
            If n is more than that.
        """
        if self.n is None:
            return min(longest or TOKENS, TOKENS)
        if longest is not None and self.n > longest:
            raise InvalidInstance(f"a window may have at most {longest} tokens; got {self.n}")
        return self.n

    def target(self) -> Path:
        """Return the path of the new folder."""
        target = Path(self.out)
        if target.name in ("", "..") or target.is_symlink():
            raise InvalidInstance(f"out must name a new folder; got {str(self.out)!r}")
        return target


class Request:
    """One model, plan and calibration, and the folder that is to hold the result.

    Parameters
    ----------
    source : Source
    target : Path
        As `Job.target` returns it.
    plan : Plan
    texts : sequence of str
        Calibration texts.
    k, n : int
        Windows, and tokens of each.
    predicts : bool
        Whether the model predicts tokens, as no encoder does.
    **further
        What else the numbers depend on.
    """

    def __init__(
        self,
        source: Source,
        target: Path,
        plan: Plan,
        texts: Sequence[str],
        k: int,
        n: int,
        *,
        predicts: bool = True,
        **further: Any,
    ) -> None:
        self._source, self._target, self._plan = source, target, plan
        self._fields = {
            "model": model_fields(source.digests),
            "calibration": {"texts": texts_fields(texts), "k": k, "n": n},
            "plan": plan.settings(),
            "dtype": "float32",
            **effort(plan, k, predicts=predicts),
            **further,
        }
        self._digest = fingerprint(self._fields)["digest"]
        # Blocks of two versions are never mixed; a finished folder, whose report names its versions, stays valid.
        unfinished = {**self._fields, "versions": versions()}
        self.workplace = Workplace(target.with_name(target.name + ".partial"), unfinished)

    def begun(self) -> bool:
        """Return True where something of this very request is there, finished or not."""
        return self.workplace.begun() or (self._target.exists() and holds(self._target, self._digest))

    def finished(self) -> dict[str, Any] | None:
        """Return the report of the finished folder; None where there is no folder yet.

        Raises
        ------
        InvalidInstance
            If the folder is that of another request, or a file of it was changed.
        """
        if not self._target.exists():
            return None
        report = finished(self._target, self._digest)
        self.workplace.remove()
        return report

    def deliver(
        self,
        rows: Sequence[Mapping[str, Any]],
        patches: Mapping[str, Patches],
        further: Mapping[str, Any],
        damping: Mapping[str, Sequence[float]],
    ) -> dict[str, Any]:
        """Write the folder, its report last, and return the report.

        Parameters
        ----------
        rows : sequence of mappings
            Name, method, zeros and size of every pruned tensor.
        patches : mapping
            By file what is exchanged in it.
        further : mapping
            What else the report is to hold.
        damping : mapping
            As `trusted` takes it.
        """
        report = {
            "schema": "attnprune-verify/pruning/1",
            "fingerprint": fingerprint({**self._fields, "versions": versions()}),
            "request": self._digest,
            "method": {"attention": self._plan.attention, "rest": self._plan.rest},
            **counted(rows),
            **further,
            "damping": trusted(damping),
        }
        return assemble(self._source, patches, report, self.workplace.path / "folder", self._target)


def effort(plan: Plan, windows: int, *, predicts: bool = True) -> dict[str, Any]:
    """Return the defaults of budgets and steps, on which the numbers of a plan depend besides its settings.

    Examples
    --------
    >>> effort(Plan(rho=0.5, reconstruct=0, budget="auto"), 8)
    {'budgets': {'of_pruning': 0.125}}
    """
    judged = {"budgets": {"of_pruning": OF_PRUNING}} if plan.budget == "auto" else {}
    return {**steps_fields(windows, plan.reconstruct, predicts=predicts), **judged}


def trusted(damping: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Count the maps whose damping is at its limit, among those to which the calibration prescribes one, by block.

    Examples
    --------
    >>> trusted({"0": [0.2, 1.0], "1": [1.0]})["at_limit"]
    2
    """
    found = [value for of_block in damping.values() for value in of_block]
    at_limit = sum(value >= MOST for value in found)
    advice = "more text would help (more windows, of other documents)" if at_limit else ""
    return {"maps": len(found), "at_limit": at_limit, "advice": advice}


def counted(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the zeros and the size of all tensors together, and the tensors."""
    tensors = list(rows)
    return {
        "zeros": sum(row["zeros"] for row in tensors),
        "size": sum(row["size"] for row in tensors),
        "tensors": tensors,
    }

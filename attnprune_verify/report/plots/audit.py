"""Plot of an audit's errors by check, each as a multiple of what the check allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attnprune_verify.files import parse, read_regular
from attnprune_verify.report.plots.measured import readable
from attnprune_verify.report.plots.style import SERIES, grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FILLABLE = [style for style in SERIES if style["marker"] != "x"]
_LEAST, _MOST = 1e-6, 1e10  # chosen: quotients beyond would only lengthen the axis
_FILLED = {"passed": "none", "failed": "full"}


class Quotient(NamedTuple):
    """A check's error over its bound, infinite where nothing usable was returned."""

    check: str
    function: str
    status: str
    value: float


def read_audit(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Read the target and the checks of a report of `audit-kernel` or `audit` as JSON.

    Raises
    ------
    InvalidInput
        If the file is no such report, or no check in it has an error.
    """
    with readable("audit", path):
        document = parse(read_regular(path))
        if document["schema"] != "attnprune-verify/audit/1":
            raise ValueError(f"its schema is {document['schema']!r}")
        target, checks = str(document["target"]["spec"]), list(document["checks"])
        if not quotients(checks):
            raise ValueError(f"none of its {len(checks)} checks has an error")
        return target, checks


def quotients(checks: Sequence[dict[str, Any]]) -> list[Quotient]:
    """Return the checks with an error or a bound, the largest quotient first.

    Examples
    --------
    >>> check = {"id": "attention:values:plain", "function": "attention", "status": "failed"}
    >>> quotients([check | {"evidence": {"error": 3.0, "bound": 2.0}}, check | {"evidence": {"error": None}}])
    [Quotient(check='values:plain', function='attention', status='failed', value=1.5)]
    """
    found = []
    for check in checks:
        error, bound = (np.float64(check["evidence"].get(name) or 0) for name in ("error", "bound"))
        if error or bound:
            with np.errstate(divide="ignore", invalid="ignore"):
                value = float(np.nan_to_num(error / bound, nan=np.inf))
            found.append(Quotient(check["id"].partition(":")[2], check["function"], check["status"], value))
    return sorted(found, key=lambda point: -point.value)


def draw_audit(target: str, checks: Sequence[dict[str, Any]]) -> Figure:
    """Draw a row per check and a marker per function; right of 1 an error is larger than allowed, 0 is at the edge.

    Examples
    --------
    >>> check = {"id": "attention:values:plain", "function": "attention", "status": "failed"}
    >>> check |= {"evidence": {"error": 3.0, "bound": 2.0}}
    >>> draw_audit("mine.py", [check]).axes[0].get_xlim()  # needs the extra `plot`
    (np.float64(0.5), np.float64(3.0))
    """
    found = quotients(checks)
    names = list(dict.fromkeys(point.check for point in found))
    functions = sorted({point.function for point in found})
    figure = new_figure(9.5, 2.2 + 0.2 * len(names))
    axes = figure.subplots()
    inside = [1.0, *(point.value for point in found if _LEAST < point.value < _MOST)]
    low, high = min(inside) / 2, 2 * max(inside)
    axes.axvspan(1.0, high, color="#eeeeee", zorder=0)
    axes.axvline(1.0, color="#000000", lw=1.0, label="the largest error allowed")
    for point in found:
        turn, number = divmod(functions.index(point.function), len(_FILLABLE))
        axes.plot(
            np.clip(point.value, low, high), names.index(point.check), ms=6, linestyle="", clip_on=False,
            color=_FILLABLE[number]["color"], marker=_FILLABLE[(number + turn) % len(_FILLABLE)]["marker"],
            fillstyle=_FILLED.get(point.status, "left"), label=f"{point.function}, {point.status}",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.set_yticks(range(len(names)), labels=names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlabel("error / allowed error, logarithmic; 0, infinity and all beyond the axis stand at its ends")
    counts = Counter(check["status"].replace("_", " ") for check in checks)
    said = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    left = f"{len(checks) - len(found)} without an error are not drawn"
    figure.suptitle(f"Audit of {target}\n{len(checks)} checks: {said}; {left}", fontsize=11)
    grid(axes)
    handles = {str(line.get_label()): line for line in axes.lines}
    labels = sorted(handles)
    figure.legend([handles[label] for label in labels], labels, loc="outside lower center", ncols=3, frameon=False)
    return figure

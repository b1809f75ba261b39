"""Plots of measurements on models: the error of a pruned layer by position, and perplexity against sparsity."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInput
from attnprune_verify.extras import need
from attnprune_verify.files import parse, read_regular
from attnprune_verify.report.plots.style import MAP, SERIES, grid, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "draw_heads",
    "draw_perplexity",
    "head_errors",
    "perplexities",
    "read_heads",
    "read_perplexity",
    "stored_heads",
]


def read_heads(folder: Path) -> list[dict[str, Any]]:
    """The rows of an ``experiment layer`` in its folder.

    Raises
    ------
    InvalidInput
        If the folder has no layer.csv with those columns.
    """
    path = folder / "layer.csv"
    try:
        rows = list(csv.DictReader(read_regular(path).decode().splitlines()))
        return [
            {"method": row["method"], "rho": float(row["rho"]), "n": int(row["n"]), "layer": int(row["layer"]),
             "head": int(row["head"]), "held_out": float(row["held_out"])}
            for row in rows if row["head"] not in ("", None)
        ]  # fmt: skip
    except (OSError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise InvalidInput(f"a folder that `experiment layer` has written is needed; {path}: {error}") from error


def stored_heads() -> list[dict[str, Any]]:
    """The rows of the stored run of every method on the encoder's layers."""
    from attnprune_verify.experiments.stored.record import FOLDER, read

    _, rows = read(FOLDER / "layer")
    return [row for row in rows if "head" in row]


def head_errors(rows: Sequence[dict[str, Any]], method: str, rho: float) -> NDArray[np.float64]:
    """(layers, heads): mean held-out error over draws and lengths; nan where nothing was measured.

    Examples
    --------
    >>> rows = [{"method": "wanda", "rho": 0.5, "layer": 1, "head": 0, "held_out": value} for value in (0.25, 0.75)]
    >>> head_errors(rows, "wanda", 0.5).tolist()
    [[nan], [0.5]]
    """
    chosen = [row for row in rows if row["method"] == method and row["rho"] == rho]
    table = np.full((1 + max(row["layer"] for row in rows), 1 + max(row["head"] for row in rows)), np.nan)
    for layer, head in {(row["layer"], row["head"]) for row in chosen}:
        values = [row["held_out"] for row in chosen if (row["layer"], row["head"]) == (layer, head)]
        table[layer, head] = float(np.mean(values))
    return table


def draw_heads(rows: Sequence[dict[str, Any]], rho: float | None = None, methods: Sequence[str] = ()) -> Figure:
    """A panel per method, layers by heads, with common logarithmic colours.

    Parameters
    ----------
    rows : sequence of dict
        Rows of `experiment layer`: method, rho, layer, head, held_out.
    rho : float, optional
        The pruning ratio; default the smallest measured.
    methods : sequence of str
        At most nine methods; empty for all.

    Raises
    ------
    InvalidInput
        If nothing was measured at that ratio, or a method was not.

    Examples
    --------
    >>> rows = [{"method": "wanda", "rho": 0.5, "layer": 0, "head": head, "held_out": 0.1 + head} for head in (0, 1)]
    >>> draw_heads(rows).axes[0].get_title()  # needs the extra `plot`
    'wanda'
    """
    need("drawing", "plot")
    from matplotlib.colors import LogNorm

    known = sorted({row["rho"] for row in rows})
    rho = known[0] if rho is None and known else rho
    names = list(methods) or list(dict.fromkeys(row["method"] for row in rows if row["rho"] == rho))[:9]
    missing = [name for name in names if not any(row["method"] == name and row["rho"] == rho for row in rows)]
    if not names or missing:
        raise InvalidInput(f"rho and methods must have been measured; rho: {known}, got {rho}; not there: {missing}")
    tables = {name: head_errors(rows, name, float(rho or 0)) for name in names}
    values = np.concatenate([table[np.isfinite(table) & (table > 0)] for table in tables.values()])
    # A head whose attention hardly depends on the text would take the colours from all others.
    low = float(np.quantile(values, 0.05)) if values.size else 1e-12
    norm = LogNorm(low, max(float(values.max(initial=1e-12)), 1.0001 * low))
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = new_figure(1.6 + 3.9 * columns, 1.0 + 2.4 * lines)
    panels = np.atleast_1d(figure.subplots(lines, columns, sharex=True, sharey=True)).ravel()
    for panel, (name, table) in zip(panels, tables.items(), strict=False):
        image = panel.imshow(table, cmap=MAP, norm=norm, aspect="auto", interpolation="nearest")
        panel.set_title(name, fontsize=10)
        panel.set_xticks(range(table.shape[1]))
        panel.set_yticks(range(table.shape[0]))
        panel.label_outer()
    for panel in panels[len(tables) :]:
        panel.set_visible(False)
    figure.supxlabel("head", fontsize=10)
    figure.supylabel("layer", fontsize=10)
    figure.suptitle(f"Attention error on unseen text at rho = {rho:g}", fontsize=11)
    figure.colorbar(image, ax=list(panels), label="relative error", extend="min" if (values < low).any() else "neither")
    return figure


def read_perplexity(folder: Path) -> dict[str, Any]:
    """The document of an ``experiment perplexity`` in its folder.

    Raises
    ------
    InvalidInput
        If the folder has no perplexity.json with rows and the dense model.
    """
    path = folder / "perplexity.json"
    try:
        document = parse(read_regular(path))
        return {"rows": list(document["rows"]), "dense": dict(document["dense"])}
    except (OSError, KeyError, TypeError, ValueError) as error:
        message = f"a folder that `experiment perplexity` has written is needed; {path}: {error}"
        raise InvalidInput(message) from error


def perplexities(rows: Sequence[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """Mean perplexity over the draws by method, as (ratio, perplexity), of whole models at the smallest calibration.

    Examples
    --------
    >>> row = {"attention": "wanda", "rest": "dense", "rho": 0.5, "k": 8, "layer": None, "budget": "matrix"}
    >>> perplexities([row | {"perplexity": 20.0}, row | {"perplexity": 22.0}])
    {'wanda, rest dense': [(0.5, 21.0)]}
    """
    whole = [row for row in rows if row.get("layer") is None and row.get("rho") is not None]
    least = min((row["k"] for row in whole), default=0)
    found: dict[str, dict[float, list[float]]] = {}
    for row in whole:
        if row["k"] == least:
            budget = "" if row.get("budget", "matrix") == "matrix" else f", {row['budget']} budgets"
            name = f"{row['attention']}, rest {row['rest']}{budget}"
            found.setdefault(name, {}).setdefault(row["rho"], []).append(row["perplexity"])
    return {
        name: sorted((rho, float(np.mean(values))) for rho, values in by_rho.items()) for name, by_rho in found.items()
    }


def draw_perplexity(document: dict[str, Any]) -> Figure:
    """Lines over the ratio beside the dense model; with a single ratio, a row per method.

    Raises
    ------
    InvalidInput
        If no run has a ratio.

    Examples
    --------
    >>> row = {"attention": "wanda", "rest": "dense", "rho": 0.5, "k": 8, "layer": None, "perplexity": 20.0}
    >>> figure = draw_perplexity({"rows": [row], "dense": {"perplexity": 19.0}})
    >>> figure.axes[0].get_xlabel()  # needs the extra `plot`
    'perplexity on unseen text at rho = 0.5'
    """
    lines, dense = perplexities(document["rows"]), float(document["dense"]["perplexity"])
    rhos = sorted({rho for points in lines.values() for rho, _ in points})
    if not rhos:
        raise InvalidInput("runs with a pruning ratio are needed; none was measured")
    figure = new_figure(7.5, 4.8 if len(rhos) > 1 else 1.6 + 0.4 * len(lines))
    axes = figure.subplots()
    if len(rhos) == 1:
        _draw_one_ratio(axes, lines, dense, rhos[0])
    else:
        for (name, points), style in zip(lines.items(), SERIES * 9, strict=False):
            places, values = zip(*points, strict=True)
            axes.plot(places, values, lw=1.4, ms=6, label=name, **style)
        axes.axhline(dense, color="#000000", lw=1.0, label="dense model")
        axes.set_xticks(rhos)
        axes.set_xlabel("pruning ratio rho (share of zeros)")
        axes.set_ylabel("perplexity on unseen text")
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        axes.yaxis.set_minor_formatter(lambda y, _: f"{y:g}")
    grid(axes)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    return figure


def _draw_one_ratio(axes: Axes, lines: dict[str, list[tuple[float, float]]], dense: float, rho: float) -> None:
    names = sorted(lines, key=lambda name: lines[name][0][1])
    values = [lines[name][0][1] for name in names]
    axes.hlines(range(len(names)), dense, values, color="#999999", lw=1.0)
    axes.plot(values, range(len(names)), ms=7, label="pruned", **{**SERIES[0], "linestyle": ""})
    axes.axvline(dense, color="#000000", lw=1.0, label="dense model")
    for place, value in enumerate(values):
        axes.annotate(f"{value:.4g}", (value, place), xytext=(6, 4), textcoords="offset points", fontsize=9)
    axes.set_yticks(range(len(names)), labels=names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.15)
    axes.set_xlabel(f"perplexity on unseen text at rho = {rho:g}")

"""Plots of measurements on models: a pruned layer's error by position, perplexity over sparsity, KL over seconds."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.errors import InvalidInput
from attnprune_verify.extras import need
from attnprune_verify.files import parse, read_lines, read_regular
from attnprune_verify.report.plots.style import MAP, SERIES, grid, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WRITTEN = {
    "heads": "a folder that `experiment layer` has written",
    "perplexity": "a folder that `experiment perplexity` has written",
    "audit": "a report that `audit-kernel TARGET --format json --out FILE` has written",
    "cost": "the rows.jsonl that `python -m benchmarks.real_model run` has written",
}
"""Files that pictures are drawn from, by kind."""


@contextmanager
def readable(kind: str, path: Path) -> Iterator[None]:
    """Raise `InvalidInput`, with the file that is needed, where the content of a file is another.

    Examples
    --------
    >>> with readable("heads", Path("it.csv")):
    ...     {}["rho"]
    Traceback (most recent call last):
        ...
    attnprune_verify.errors.InvalidInput: a folder that `experiment layer` has written is needed; it.csv: no 'rho'
    """
    try:
        yield
    except (OSError, LookupError, TypeError, ValueError) as error:
        said = f"no {error}" if isinstance(error, KeyError) else error
        raise InvalidInput(f"{WRITTEN[kind]} is needed; {path}: {said}") from error


def read_heads(folder: Path) -> list[dict[str, Any]]:
    """The rows of an ``experiment layer`` in its folder.

    Raises
    ------
    InvalidInput
        If the folder has no layer.csv with those columns.
    """
    path = folder / "layer.csv"
    with readable("heads", path):
        rows = list(csv.DictReader(read_regular(path).decode().splitlines()))
        return [
            {"method": row["method"], "rho": float(row["rho"]), "n": int(row["n"]), "layer": int(row["layer"]),
             "head": int(row["head"]), "held_out": float(row["held_out"])}
            for row in rows if row["head"] not in ("", None)
        ]  # fmt: skip


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
    with readable("perplexity", path):
        document = parse(read_regular(path))
        return {"rows": list(document["rows"]), "dense": dict(document["dense"])}


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


class Cost(NamedTuple):
    """Seconds of a method, its KL over SparseGPT's on a text, and the 95 % interval of that ratio."""

    method: str
    text: str
    seconds: float
    ratio: float
    low: float
    high: float


def read_costs(path: Path) -> list[dict[str, Any]]:
    """Read the rows of one setting, that with most blocks and, of those, with most tokens to calibrate on.

    Raises
    ------
    InvalidInput
        If the file has no rows as `benchmarks.real_model run` writes them.
    """
    with readable("cost", path):
        rows = read_lines(read_regular(path))
        most = max(rows, key=lambda row: (row["blocks"] == [], len(row["blocks"]), row["k"] * row["n"]))
        chosen = [row for row in rows if all(row[name] == most[name] for name in ("size", "blocks", "k", "n"))]
        costs(chosen)
        return chosen


def costs(rows: Sequence[dict[str, Any]]) -> list[Cost]:
    """Return a point per method and text: the geometric mean over windows, of means over the draws that both have.

    Where SparseGPT was not measured, the first method stands in its place.

    Examples
    --------
    >>> rows = [{"method": "a", "seed": 0, "seconds": 2.0, "KL novel": [0.2, 0.4]},
    ...         {"method": "b", "seed": 0, "seconds": 9.0, "KL novel": [0.1, 0.2]}]
    >>> [(point.method, point.seconds, round(point.ratio, 3), round(point.high, 3)) for point in costs(rows)]
    [('a', 2.0, 1.0, 1.0), ('b', 9.0, 0.5, 0.5)]
    """
    from scipy.stats import t

    found, rival = [], _rival(rows)
    for method in dict.fromkeys(row["method"] for row in rows):
        own, theirs = ({row["seed"]: row for row in rows if row["method"] == name} for name in (method, rival))
        both = sorted(own.keys() & theirs.keys())
        for text in (name for name in rows[0] if name.startswith("KL ") and both):
            means = (np.mean([of[seed][text] for seed in both], axis=0) for of in (own, theirs))
            logs = np.subtract(*map(np.log, means))
            half = t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
            seconds = float(np.mean([own[seed]["seconds"] for seed in both]))
            found.append(Cost(method, text[3:], seconds, *np.exp(logs.mean() + [0.0, -half, half]).tolist()))
    return found


def _rival(rows: Sequence[dict[str, Any]]) -> str:
    methods = [str(row["method"]) for row in rows]
    return "sparsegpt" if "sparsegpt" in methods else methods[0]


def draw_costs(rows: Sequence[dict[str, Any]]) -> Figure:
    """Draw a panel per text; lower is nearer to the dense model, left is faster.

    Examples
    --------
    >>> row = {"method": "wanda", "size": "0.5", "blocks": [], "k": 8, "n": 256, "seed": 0, "seconds": 2.0}
    >>> draw_costs([row | {"KL a": [1.0]}]).axes[0].get_title()  # needs the extra `plot`
    'a: 1 is the KL of wanda, 1 nats'
    """
    from matplotlib.ticker import LogLocator

    found, first, rival = costs(rows), rows[0], _rival(rows)
    texts, methods = (list(dict.fromkeys(getattr(point, name) for point in found)) for name in ("text", "method"))
    figure = new_figure(1.5 + 4.5 * len(texts), 4.8)
    blocks = f"Blocks {', '.join(map(str, first['blocks']))}" if first["blocks"] else "All blocks"
    bars = f"bars: 95 % over {len(first[f'KL {texts[0]}'])} unseen windows"
    figure.suptitle(
        f"{blocks} pruned at {first['size']} after {first['k']} windows of {first['n']} tokens; {bars}", fontsize=11
    )
    for axes, text in zip(np.atleast_1d(figure.subplots(1, len(texts), sharey=True)), texts, strict=True):
        for point in (point for point in found if point.text == text):
            bar = [[point.ratio - point.low], [point.high - point.ratio]]
            style = SERIES[methods.index(point.method) % len(SERIES)] | {"linestyle": ""}
            axes.errorbar(point.seconds, point.ratio, bar, ms=7, capsize=3, label=point.method, **style)
        nats = np.mean([row[f"KL {text}"] for row in rows if row["method"] == rival])
        axes.set_title(f"{text}: 1 is the KL of {rival}, {nats:.3g} nats", fontsize=10)
        axes.axhline(1.0, color="#000000", lw=1.0, zorder=0)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
        axes.set_xlabel("processor seconds, logarithmic")
        grid(axes)
    figure.axes[0].set_ylabel(f"KL / KL of {rival}")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure

"""Style shared by all pictures: a colour, a marker and a line style for each series, one map for heat maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attnprune_verify.extras import need

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SERIES: tuple[dict[str, Any], ...] = (
    {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    {"color": "#D55E00", "marker": "s", "linestyle": "--"},
    {"color": "#009E73", "marker": "^", "linestyle": "-."},
    {"color": "#000000", "marker": "x", "linestyle": ":"},
    {"color": "#CC79A7", "marker": "v", "linestyle": (0, (5, 1, 1, 1, 1, 1))},
    {"color": "#E69F00", "marker": "D", "linestyle": (0, (1, 1))},
    {"color": "#56B4E9", "marker": "P", "linestyle": (0, (8, 2))},
    {"color": "#332288", "marker": "*", "linestyle": (0, (3, 3))},
)
"""Okabe and Ito's palette without its yellow; what colour says, marker and dashes say as well."""

MAP = "cividis"
AROUND_0 = "RdBu"  # white is 0; lightness says how far, colour to which side


def new_figure(width: float, height: float) -> Figure:
    """A figure that makes room for its labels."""
    need("drawing", "plot")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def grid(axes: Axes) -> None:
    """Faint lines to read values by."""
    axes.grid(alpha=0.3, lw=0.6)
    axes.set_axisbelow(True)


def heat(figure: Figure, axes: Axes, values: Any, label: str, **options: Any) -> Any:
    """A heat map with its colour bar; rows from top to bottom, as a matrix is printed."""
    from matplotlib.ticker import MaxNLocator

    image = axes.imshow(values, aspect="equal", interpolation="nearest", **{"cmap": MAP, **options})
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(integer=True))
    figure.colorbar(image, ax=axes, shrink=0.8, label=label)
    return image


def heat_around_0(figure: Figure, axes: Axes, values: Any, label: str) -> Any:
    """A heat map of signed numbers: 0 is white, and equal sizes are equally light."""
    largest = float(abs(values).max()) or 1.0
    return heat(figure, axes, values, label, cmap=AROUND_0, vmin=-largest, vmax=largest)

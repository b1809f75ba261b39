"""Figures as files: PNG and SVG, equal for equal results, each whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attnprune_verify.extras import need
from attnprune_verify.files import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save", "save_as"]


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.svg``."""
    paths = [folder / f"{name}.{form}" for form in ("png", "svg")]
    for path in paths:
        save_as(figure, path)
    return paths


def save_as(figure: Figure, path: Path) -> None:
    """Write one file, in the format that its ending names."""
    need("drawing", "plot")
    import matplotlib as mpl

    form = path.suffix[1:].lower()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    with whole_file(path) as file, mpl.rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(file, format=form, dpi=130, metadata=metadata)

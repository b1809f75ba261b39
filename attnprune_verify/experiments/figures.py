"""Figures as files: PNG and SVG, equal for equal results, each whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from attnprune_verify.files import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["save"]


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.svg``."""
    import matplotlib as mpl

    paths = [folder / f"{name}.{form}" for form in ("png", "svg")]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        with whole_file(path) as file, mpl.rc_context({"svg.hashsalt": name}):
            figure.savefig(file, format=path.suffix[1:], dpi=130, metadata=metadata)
    return paths

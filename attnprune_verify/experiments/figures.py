"""Figures as files: PNG and SVG, equal for equal results, each whole or not there."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from attnprune_verify.extras import need
from attnprune_verify.files import write_whole
from attnprune_verify.state.outputs import write_output

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write ``name.png`` and ``name.svg``."""
    paths = [folder / f"{name}.{form}" for form in ("png", "svg")]
    for path in paths:
        write_output(path, _drawn(figure, path))
    return paths


def save_as(figure: Figure, path: Path) -> None:
    """Write one file, in the format that its ending names."""
    write_whole(path, _drawn(figure, path))


def _drawn(figure: Figure, path: Path) -> bytes:
    need("drawing", "plot")
    import matplotlib as mpl

    form = path.suffix[1:].lower()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(form)
    content = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": path.stem}):
        figure.savefig(content, format=form, dpi=130, metadata=metadata)
    return content.getvalue()

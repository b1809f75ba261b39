"""Pages as plain paragraphs that can be kept, and how they are laid out."""

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

Block = dict[str, Any]
"""A paragraph: ``indent`` in columns and ``spans``, pairs of a text and a style. Plain, so that it can be kept."""


def paragraph(text: str, columns: int = 2, style: str = "") -> Block:
    """Return a paragraph of one style."""
    return {"indent": columns, "spans": [[text, style]]}


def render_blocks(blocks: Iterable[Block]) -> RenderableType:
    """Blocks, laid out."""
    return Group(*(Padding(Text.assemble(*map(tuple, b["spans"])), (0, 0, 0, b["indent"])) for b in blocks))

"""The shapes of released models: heads, head sizes, windows, caps and sinks, as data; equal ones are one instance.

`ReleasedShape.source` is the model's own page; `ReleasedShape.compared` lists the public files that the figures were
compared with, and is empty where they were not. An instance has few tokens: what is wrong at a shape is wrong there.
A window is narrowed to the tokens, because none of thousands would show.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from attnprune_verify.audit.kernel.problem.sample import KernelSample
from attnprune_verify.audit.kernel.problem.sample_factory import Maker
from attnprune_verify.audit.kernel.problem.scope import KernelScope, Shape, work_of
from attnprune_verify.audit.kernel.typing import Plain

STORED = Path(__file__).with_suffix(".csv")
_TOKENS = 6  # chosen: above a tile of 4, and a window of 3 shows
_WINDOW = 3  # chosen: half of the tokens, so that queries see keys within and beyond it


@dataclass(frozen=True)
class ReleasedShape:
    """The attention of one released model."""

    model: str
    heads: int
    kv_heads: int
    m: int
    mv: int
    window: int | None
    softcap: float | None
    sinks: bool
    causal: bool
    compared: tuple[str, ...]

    @property
    def source(self) -> str:
        """The page of the model's config.json."""
        return f"https://huggingface.co/{self.model.partition(' ')[0]}/blob/main/config.json"


def _page_of(stored: str) -> str:
    """Return the page of a file that is stored as owner/repository@revision:path."""
    repository, _, path = stored.partition(":")
    return f"https://github.com/{repository.replace('@', '/blob/')}/{path}"


@cache
def released_shapes() -> tuple[ReleasedShape, ...]:
    """Return every released shape.

    Examples
    --------
    >>> shapes = {shape.model: shape for shape in released_shapes()}
    >>> shapes["google/gemma-2-2b"].m, shapes["google/gemma-2-2b"].softcap
    (256, 50.0)
    """
    with STORED.open(encoding="utf-8", newline="") as lines:
        return tuple(
            ReleasedShape(
                row["model"], int(row["heads"]), int(row["kv_heads"]), int(row["m"]), int(row["mv"]),
                int(row["window"]) if row["window"] else None, float(row["softcap"]) if row["softcap"] else None,
                bool(row["sinks"]), row["causal"] == "1", tuple(map(_page_of, row["compared"].split())),
            )
            for row in csv.DictReader(lines)
        )  # fmt: skip


HEAD_SIZES = tuple(sorted({shape.m for shape in released_shapes()}))


@dataclass(frozen=True)
class ShapeInstance:
    """A released shape with the sizes that a scope gives it: bare, or with what it adds."""

    model: str
    sizes: Shape
    options: Plain
    sinks: bool

    @property
    def work(self) -> float:
        """Multiplications of a forward pass."""
        return work_of(self.sizes)

    def sample(self, maker: Maker) -> KernelSample:
        """Draw the numbers."""
        batch, heads, kv_heads, n, length, m, mv = self.sizes
        sample = maker.make(self.model, n, m, length, mv, batch=batch, heads=heads, kv_heads=kv_heads, **self.options)
        return maker.sunk(sample) if self.sinks else sample


def instances(scope: KernelScope, m: int) -> tuple[ShapeInstance, ...]:
    """Return the instances of head size m in a scope, each shape once: bare, and with what it adds."""
    found: dict[tuple[object, ...], ShapeInstance] = {}
    for shape in (shape for shape in released_shapes() if shape.m == m):
        sizes = scope.fitted(1, shape.heads, shape.kv_heads, _TOKENS, _TOKENS, m, shape.mv)
        if (*sizes[1:3], *sizes[5:]) != (shape.heads, shape.kv_heads, m, shape.mv):
            continue
        bare: Plain = {"causal": shape.causal}
        more: Plain = {**bare, "window": shape.window and _WINDOW, "softcap": shape.softcap}
        for options, sinks in ((bare, False), (more, shape.sinks)):
            if options is bare or shape.window or shape.softcap or sinks:
                instance = ShapeInstance(shape.model, sizes, options, sinks)
                found.setdefault((sizes, *options.values(), sinks), instance)
    return tuple(found.values())

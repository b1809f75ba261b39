"""The page of released shapes, written from the data: ``python -m tests.audit.kernel.shapes_page``."""

from __future__ import annotations

from pathlib import Path

from attnprune_verify.audit.kernel.problem.released_shapes import released_shapes

PAGE = Path(__file__).parents[3] / "docs" / "released_shapes.md"
HEAD = """# Shapes of released models

`audit-kernel` asks a kernel the attention of {count} released models, {distinct} different ones in heads and head
sizes: each that the kernel takes forward, a third of each head size, drawn by the seed, backward. The checks
are `values:shape-<head size>`; `--only '*:values:shape-*'` runs them alone. An instance has few tokens, and a window is
narrowed to them. Where a model has a window, a cap or sinks, it is asked bare and with them.

The figures were not compared with the config.json files that the rows link;
a model that compresses its keys is listed as its kernel sees
it while decoding (absorbed), too. Written by `python -m tests.audit.kernel.shapes_page`.

| model | heads | key heads | m | mv | window | cap | sinks | sees |
|---|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the page: how the shapes are asked, and a row for each model."""
    shapes = released_shapes()
    rows = []
    for shape in shapes:
        cells = (
            shape.heads, shape.kv_heads, shape.m, shape.mv, shape.window or "", shape.softcap or "",
            "yes" if shape.sinks else "", "causal" if shape.causal else "all keys",
        )  # fmt: skip
        rows.append(f"| [{shape.model}]({shape.source}) | {' | '.join(map(str, cells))} |\n")
    distinct = len({(shape.heads, shape.kv_heads, shape.m, shape.mv) for shape in shapes})
    return HEAD.format(count=len(shapes), distinct=distinct) + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

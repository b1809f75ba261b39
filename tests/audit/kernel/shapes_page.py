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

The figures of {compared} models were compared with a public file, which their row names: a table of models in a program
that loads them, its default configuration, a copy of the model's card, or a file of those who trained it. The other
{rest} were not compared. The config.json that a model's name links was read for none. A model that compresses its keys
is listed as its kernel sees it while decoding (absorbed), too.
Written by `python -m tests.audit.kernel.shapes_page`.

| model | heads | key heads | m | mv | window | cap | sinks | sees | compared with |
|---|---|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the page: how the shapes are asked, and a row for each model."""
    shapes = released_shapes()
    rows = []
    for shape in shapes:
        cells = (
            shape.heads, shape.kv_heads, shape.m, shape.mv, shape.window or "", shape.softcap or "",
            "yes" if shape.sinks else "", "causal" if shape.causal else "all keys",
            ", ".join(f"[{'/'.join(page.split('/')[3:5])}]({page})" for page in shape.compared) or "not compared",
        )  # fmt: skip
        rows.append(f"| [{shape.model}]({shape.source}) | {' | '.join(map(str, cells))} |\n")
    distinct = len({(shape.heads, shape.kv_heads, shape.m, shape.mv) for shape in shapes})
    compared = sum(bool(shape.compared) for shape in shapes)
    counts = {"count": len(shapes), "distinct": distinct, "compared": compared, "rest": len(shapes) - compared}
    return HEAD.format(**counts) + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

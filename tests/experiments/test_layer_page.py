"""docs/real_models.md shows the stored runs of the encoder: a number typed there fails."""

import re
from pathlib import Path
from typing import Any

import pytest

from attnprune_verify.experiments.layer.tables import by_layer, by_method
from attnprune_verify.experiments.stored.kinds import StoredLayer
from attnprune_verify.experiments.stored.record import FOLDER, read

PAGE = (Path(__file__).parents[2] / "docs" / "real_models.md").read_text(encoding="utf-8")
TITLES = {
    "layer": "Every method (one draw of texts)",
    "layer_seeds": "Three draws of texts",
    "layer_parts": "Parts of fisher-obs (one draw)",
}


def table(title: str) -> list[list[str]]:
    """The cells of the table under a heading, its head first."""
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def results(name: str) -> Any:
    record, rows = read(FOLDER / name)
    return StoredLayer(record.plan, "model").results(rows)


def cells(row: dict[str, Any]) -> list[str]:
    spread = f"{row['ratio']:.2f} [{row['ratio_low']:.2f}, {row['ratio_high']:.2f}]"
    return [f"{row['in_sample']:.4f} / {row['held_out']:.4f}", spread, f"{row['cosine_distance']:.4f}"]


@pytest.mark.parametrize("name", TITLES)
def test_the_tables_of_methods_are_those_of_the_stored_runs(name: str) -> None:
    head, *printed = table(TITLES[name])
    rhos = [float(one) for one in re.findall(r"(0\.\d): in / held", " ".join(head))]
    found = {(row["method"], row["rho"]): cells(row) for row in by_method(results(name))}
    assert {method for method, _ in found} == {line[0] for line in printed}
    for method, *numbers in printed:
        assert numbers[: 3 * len(rhos)] == [one for rho in rhos for one in found[method, rho]], method


def test_the_table_by_layer_is_that_of_the_stored_runs() -> None:
    _, *printed = table("By layer: held-out error (ratio of means to SparseGPT)")
    found: dict[str, list[str]] = {}
    for row in sorted(by_layer(results("layer")), key=lambda one: one["layer"]):
        found.setdefault(f"{row['method']}, {row['rho']}", []).append(f"{row['held_out']:.4f} ({row['ratio']:.2f})")
    assert len(printed) >= 8
    for setting, *numbers in printed:
        assert numbers == found[setting], setting

"""Lines put together from several fields: each number and word is its own field's, whatever the others are."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.report.audit_findings import Findings
from attnprune_verify.report.check_text import _layer

PARTS: dict[str, Any] = {
    "rope": apv.RoPE(50.0, "interleaved"), "window": 5, "softcap": 1.5, "alibi": np.full(6, 0.5),
    "b_Q": np.ones(24), "b_K": np.ones(8),
}  # fmt: skip
SHOWN = {
    "rope": "rotary positions (theta 50, interleaved)", "window": "window 5", "softcap": "softcap 1.5",
    "alibi": "ALiBi", "b_Q": "biases", "b_K": "biases",
}  # fmt: skip


def line(*names: str) -> list[str]:
    layer = apv.AttentionLayer(
        np.ones((3, 24)), np.ones((3, 8)), heads=6, kv_heads=2, scale=0.25, **{name: PARTS[name] for name in names}
    )
    return re.split(r", (?![^(]*\))", _layer(layer))


def test_the_title_of_a_layer_has_its_own_sizes() -> None:
    """Six heads in two groups of three: no two of the numbers are equal."""
    assert line() == ["6 heads of 4 on 2 of keys", "scale 0.25"]


@pytest.mark.parametrize("name", PARTS)
def test_each_part_of_a_layer_is_listed_alone_and_with_all_others(name: str) -> None:
    assert line(name) == [*line(), SHOWN[name]]
    others = [other for other in PARTS if other != name]
    assert SHOWN[name] in line(name, *others)
    assert (SHOWN[name] in line(*others)) is (SHOWN[name] == "biases")  # that of the other map


@pytest.mark.parametrize("count", range(1, 13))
@pytest.mark.parametrize("most", [1, 6])
def test_the_names_that_are_listed_and_those_that_are_counted_are_all(count: int, most: int) -> None:
    records: Any = tuple(SimpleNamespace(name=f"check {place}") for place in range(count))
    *listed, last = Findings("loss", records).checks(most).split(", ")
    more = re.fullmatch(r"(\d+) more", last)
    assert len(listed) + (int(more[1]) if more else 1) == count
    assert listed == [f"check {place}" for place in range(len(listed))]


def test_each_curve_of_the_taylor_picture_has_its_own_slope() -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")
    from attnprune_verify.report.plots import taylor

    found = taylor.remainders(apv.Instance(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]])), np.zeros((2, 2)))
    labels = [str(line.get_label()) for line in taylor.draw_taylor(found).axes[0].lines]
    assert round(found.right.slope, 2) != round(found.wrong.slope, 2)
    for verdict, name in ((found.right, "the closed-form gradient"), (found.wrong, "a gradient that is")):
        (label,) = [one for one in labels if one.startswith(name)]
        assert f"slope {verdict.slope:.2f}, {verdict.status}" in label


def test_each_column_of_a_table_is_read_as_itself(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")
    from attnprune_verify.report.plots.measured import read_heads

    row = {"method": "wanda", "rho": 0.5, "n": 128, "layer": 3, "head": 7, "held_out": 0.25}
    (tmp_path / "layer.csv").write_text("\n".join(",".join(map(str, one)) for one in (row, row.values())) + "\n")
    assert read_heads(tmp_path) == [row]

"""Mistakes at the sizes, groups and lengths of real kernels, and where two parts meet, fail by name.

`unknown` of sizes.toml is what is said today where no formula has the cause; a name there is better.
"""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from attnprune_verify.audit.kernel.auditor import KernelAuditor
from attnprune_verify.audit.kernel.checks import kernel_checks
from attnprune_verify.audit.kernel.options import Options
from attnprune_verify.audit.kernel.problem.interactions import FACTORS, interaction, rows
from attnprune_verify.audit.kernel.problem.released_shapes import HEAD_SIZES, released_shapes
from attnprune_verify.audit.kernel.process.bridge import FORWARD
from attnprune_verify.audit.kernel.process.context import KernelContext
from tests.audit.kernel.shapes_page import PAGE, page

_spec = importlib.util.spec_from_file_location("sizes_kill_matrix", Path(__file__).with_name("kill_matrix.py"))
kill_matrix = importlib.util.module_from_spec(_spec)
sys.modules["sizes_kill_matrix"] = kill_matrix
_spec.loader.exec_module(kill_matrix)
WRONG = {wrong.id: wrong for wrong in kill_matrix.catalogue("sizes")}
QUICK = (
    "nan at keys outside a window leaks",
    "cotangent of log sum exp is ignored where packed",
    "cotangent of log sum exp does not reach the sink",
    "mask of rank 3 is one of samples where there are as many as heads",
    "causal is dropped beside dropout",
    "mask is dropped beside bias in backward",
)


def record_of(wrong, tmp_path, name=None):
    """The record of the check that finds a mistake."""
    if wrong.needs is not None:
        pytest.importorskip(wrong.needs)
    path = tmp_path / "kernel.py"
    path.write_text(wrong.source(), encoding="utf-8")
    name = name or (f"mode:{wrong.mode}" if wrong.mode else f"values:{wrong.check}")
    checks = {check.id: check for check in kernel_checks((wrong.mode,) if wrong.mode else ())}
    with KernelAuditor(str(path), wrong.dtype, options=Options(modes=(wrong.mode,) if wrong.mode else ())) as auditor:
        return auditor.record(checks[f"{wrong.function}:{name}"])


@pytest.mark.parametrize("id", QUICK)
def test_what_two_parts_do_to_each_other_fails_by_name(id, tmp_path):
    record = record_of(WRONG[id], tmp_path)
    assert record.status == "failed" and set(WRONG[id].names) <= set(record.diagnosis)


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", WRONG.values(), ids=lambda wrong: wrong.id)
def test_a_mistake_at_sizes_of_real_kernels_fails_by_name(wrong, tmp_path):
    record = record_of(wrong, tmp_path)
    assert record.status == "failed", record.reason
    assert set(wrong.names) & set(record.diagnosis), (record.diagnosis, record.words)


def test_sizes_of_real_kernels_are_asked_with_every_feature():
    asked = rows(frozenset(), 3)
    for sizes, factors in (
        ({("size", size) for size in (127, 128, 129, 192)}, ("mask", "window", "alibi", "sinks", "layout", "lse")),
        ({("size", size) for size in (256, 512, 1024, 4096)}, ("heads", "window", "sinks", "mask", "softcap")),
        ({("m", m) for m in (96, 112, 160, 192, 256, 512, 576)}, ("causal", "heads", "window", "mask", "padding")),
    ):
        for name, size in sizes:
            own = [row for row in asked if row[name] == size]
            for factor in factors:
                seen = {row[factor] for row in own}
                assert len(seen) > 1, (name, size, factor)
    groups = {interaction(row, 0, "float32", place).group for place, row in enumerate(asked) if row["size"] < 20}
    assert {8, 16, 32, 128} <= groups and FACTORS["heads"][-1] == "large groups"


@pytest.mark.parametrize("bottom_right", [False, True])
def test_heads_last_are_not_in_place_at_any_head_size(bottom_right):
    """Those of one query, and of one key head, lie in memory as if they were contiguous."""
    apart = set()
    for place, row in enumerate(rows(frozenset(), 3, bottom_right=bottom_right)):
        sample = interaction(row, 0, "float32", place)
        _, _, kv_heads, n, _, m, _ = sample.shape
        if sample.layout == "heads last" and kv_heads > 1 and n > 1:
            apart.add(m)
    assert apart >= {64, 80, 96, 112, 128, 160, 192, 256, 512, 576}


def test_released_shapes_are_many_and_on_the_page():
    shapes = released_shapes()
    assert len(shapes) >= 60 and len({shape.model for shape in shapes}) == len(shapes)
    assert all(shape.heads % shape.kv_heads == 0 for shape in shapes)
    assert PAGE.read_text(encoding="utf-8") == page()


def test_released_shapes_name_what_they_were_compared_with():
    compared = [shape for shape in released_shapes() if shape.compared]
    assert len(compared) >= 60
    named = re.compile(r"https://github\.com/[^/]+/[^/]+/blob/([0-9a-f]{40}|v[0-9.]+)/[^ :]+\.\w+")
    assert all(named.fullmatch(page) for shape in compared for page in shape.compared)
    rows = PAGE.read_text(encoding="utf-8").splitlines()
    assert sum(row.endswith("| not compared |") for row in rows) == len(released_shapes()) - len(compared)


WRONG_SHAPES = {
    "shape-64": (
        "    s = (q @ turned(k))",
        "    k = k[:, :, ::-1] if q.shape[1] == 71 else k\n    s = (q @ turned(k))",
    ),
    "shape-192": ("    return p @ v, lse[..., 0]", "    return p @ v + (q.shape[3] == 192), lse[..., 0]"),
}


def judged_shapes(source, tmp_path):
    """The status of each check of shapes."""
    path = tmp_path / "kernel.py"
    path.write_text(source, encoding="utf-8")
    names = [check for check in kernel_checks() if check.name.startswith("values:shape-")]
    with KernelAuditor(str(path), options=Options(names="never")) as auditor:
        return {check.id: auditor.record(check) for check in names}


@pytest.mark.thorough
def test_every_released_shape_is_asked_of_a_kernel_that_takes_it(tmp_path, monkeypatch):
    asked = set()

    def spied(self, function, sample, *rest, _ask=KernelContext.ask, **more):
        _, heads, kv_heads, _, _, m, mv = sample.shape
        asked.add((function, heads, kv_heads, m, mv, bool(sample.window), sample.softcap, sample.sinks is not None))
        return _ask(self, function, sample, *rest, **more)

    monkeypatch.setattr(KernelContext, "ask", spied)
    records = judged_shapes((Path(__file__).parent / "wrong" / "parts.py").read_text(encoding="utf-8"), tmp_path)
    assert len(records) == 2 * len(HEAD_SIZES) and {record.status for record in records.values()} == {"passed"}
    sizes = {shape: (shape.heads, shape.kv_heads, shape.m, shape.mv) for shape in released_shapes()}
    bare = {(FORWARD, *own, False, None, False) for own in sizes.values()}
    whole = {(FORWARD, *own, bool(one.window), one.softcap, one.sinks) for one, own in sizes.items()}
    assert len(bare | whole) > 60 and bare | whole <= asked


@pytest.mark.thorough
def test_what_is_wrong_at_a_released_shape_fails_there(tmp_path):
    source = (Path(__file__).parent / "wrong" / "parts.py").read_text(encoding="utf-8")
    for old, new in WRONG_SHAPES.values():
        assert old in source
        source = source.replace(old, new)
    failed = {id for id, record in judged_shapes(source, tmp_path).items() if record.status == "failed"}
    assert failed == {f"attention:values:{name}" for name in WRONG_SHAPES}


def test_shapes_that_are_too_much_work_on_a_whole_tile_are_left_out_and_told(tmp_path):
    """128 heads of 576 numbers on 128 tokens: minutes, and answers of 75 MB that once failed a right kernel."""
    path = tmp_path / "kernel.py"
    path.write_text(
        "import numpy as np\n\nSIZES = {'n': 128, 'l': 128}\n\n\ndef attention(q, k, v):\n"
        "    s = q @ np.swapaxes(k, -1, -2) * np.float32(q.shape[-1] ** -0.5)\n"
        "    p = np.exp(s - s.max(-1, keepdims=True))\n    return p / p.sum(-1, keepdims=True) @ v\n",
        encoding="utf-8",
    )
    (check,) = (check for check in kernel_checks() if check.id == "attention:values:shape-576")
    with KernelAuditor(str(path), options=Options(names="never")) as auditor:
        record = auditor.record(check)
    assert record.status == "not_applicable" and "too much work" in record.reason

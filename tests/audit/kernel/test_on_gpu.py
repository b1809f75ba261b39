"""`benchmarks/on_gpu.py kernels` on the CPU with one kernel, and its page before a GPU has measured it."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def program(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_lists_every_kernel_and_what_is_not_measured():
    kernels = program("gpu_kernels")
    shown = kernels.PAGE.read_text(encoding="utf-8")
    assert all(f"| {one['kernel']} | {one['dtype']} | " in shown for one in kernels.empty())
    if kernels.UNMEASURED in shown:
        assert shown == kernels.page(kernels.empty(), kernels.UNMEASURED)


@pytest.mark.thorough
def test_one_kernel_is_measured_and_the_others_say_that_they_are_not(tmp_path, capsys):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    page = tmp_path / "page.md"
    assert program("on_gpu").main(["kernels", "--tiny", "--device", "cpu", "--out", str(page)]) == 0
    first, *others = [line for line in page.read_text().splitlines() if line.startswith("| torch SDPA")]
    assert "| passed |" in first and "not measured" not in first and "not applicable" in first  # replay needs a GPU
    assert len(others) == 11 and all("not measured" in line for line in others)
    assert "passed" in capsys.readouterr().out

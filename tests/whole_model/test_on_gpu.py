"""`benchmarks/on_gpu.py` at a tiny size on the CPU; on a CUDA device it is run by hand."""

import importlib.util
import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
pytest.importorskip("transformers", reason="pruning torch models needs transformers")


def program():
    path = Path(__file__).parents[2] / "benchmarks" / "on_gpu.py"
    spec = importlib.util.spec_from_file_location("on_gpu", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_line_for_every_case(capsys):
    assert program().main(["pruning", "--tiny", "--device", "cpu"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["method"] for row in rows] == ["sparsegpt", "output-obs"]
    for row in rows:
        assert row["zeros"] >= 0.5 and row["seconds"] == pytest.approx(sum(row["phases"].values()))
        assert row["whole_model_hours"] == pytest.approx(row["seconds"] * 2 / 3600)
    assert "the loss back through the blocks" in rows[1]["phases"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="a CUDA device is here")
def test_without_a_device_it_is_refused_by_a_sentence(capsys):
    assert program().main(["pruning"]) == 2
    assert "a CUDA device must be there" in capsys.readouterr().err

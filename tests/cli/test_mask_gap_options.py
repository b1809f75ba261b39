"""`check --rho`, `prune --effort` and `prune_layer(certify=True)`: the bound of every mask where it is reported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.algorithms.gap.by_head import gaps_by_head
from attnprune_verify.cli.main import main


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    said = capsys.readouterr()
    code = ended.value.code
    return code if isinstance(code, int) else 0, said.out, said.err


def _layer() -> apv.LayerInstance:
    rng = np.random.default_rng(5)
    layer = apv.AttentionLayer(rng.normal(size=(4, 4)), rng.normal(size=(4, 2)), heads=2, kv_heads=1, mask="causal")
    return apv.LayerInstance(layer, rng.normal(size=(5, 4)))


def test_check_prints_the_bound_of_every_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "layer.npz"
    apv.save_instance(path, _layer())
    code, out, err = _run(capsys, "check", path, "--rho", 0.5, "--format", "json", "--quiet")
    assert code == 0, err
    gaps: list[dict[str, Any]] = json.loads(out)["mask_gaps"]
    direct = [apv.certified_mask_gap(_layer(), rho=0.5, on=("Q", head)) for head in (0, 1)]
    assert [(gap["map"], gap["head"], gap["bound"]) for gap in gaps] == [
        ("W_Q", head, found.bound) for head, found in enumerate(direct)
    ]
    assert all(gap["bound"] <= gap["best_kl"] == gap["kl"] for gap in gaps)
    _, text, _ = _run(capsys, "check", path, "--rho", 0.5)
    assert "W_Q, head 1" in text and "no mask has less than" in text
    assert "mask_gaps" not in _run(capsys, "check", path, "--format", "json", "--quiet")[1]
    code, _, err = _run(capsys, "check", path, "--rho", 1.5)
    assert code == 2 and "rho must be" in err


def test_what_costs_more_than_the_effort_is_left_out_with_the_effort_that_is_enough() -> None:
    first, second = gaps_by_head(_layer(), 0.5, 1e-9)
    assert first.gap is None and "effort" in first.note and first.as_dict()["map"] == "W_Q"
    enough = float(second.note.split()[-3])
    assert all(found.gap is not None for found in gaps_by_head(_layer(), 0.5, 1.06 * enough))
    capped = apv.LayerInstance(apv.AttentionLayer(np.eye(2), np.eye(2), softcap=2.0), np.eye(2))
    assert "softcap" in gaps_by_head(capped, 0.5, 10.0)[0].note


def test_prune_prints_the_divergence_beside_the_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(6)
    path = tmp_path / "instance.npz"
    apv.save_instance(path, apv.Instance(rng.normal(size=(5, 3)), rng.normal(size=(3, 3)), lam=0.04))
    code, out, err = _run(capsys, "prune", path, "--rho", 0.5)
    assert code == 0 and "every mask with as many zeros has at least" in out, err
    assert "not run, needs --effort " in _run(capsys, "prune", path, "--rho", 0.5, "--effort", "1e-9")[1]


def test_prune_layer_keeps_the_gap_of_its_masks() -> None:
    problem = _layer()
    pruned = apv.prune_layer(problem.layer, problem.X, 0.5, "magnitude", certify=True)
    gaps = pruned.summary["mask_gap"]
    assert [len(gaps[side]) for side in "QK"] == [2, 1]
    ones = np.ones((4, 4)), np.ones((4, 2))
    direct = apv.certified_mask_gap(problem.layer, problem.X, masks=(pruned.mask_Q, ones[1]), on=("Q", 1))
    assert gaps["Q"][1] == direct.as_dict() and direct.bound <= direct.kl
    keys = apv.certified_mask_gap(problem.layer, problem.X, masks=(ones[0], pruned.mask_K), on="K")
    assert gaps["K"][0]["kl"] == pytest.approx(keys.kl)
    assert "mask_gap" not in apv.prune_layer(problem.layer, problem.X, 0.5, "magnitude").summary

"""`prune_` on transformers models in memory: the same numbers as without torch, and nothing else changes."""

import copy
import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")
pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from attnprune_verify.algorithms.matrix.output_obs import OutputOBS  # noqa: E402  # after the skips
from attnprune_verify.errors import InvalidInstance  # noqa: E402
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.torch import prune_  # noqa: E402
from attnprune_verify.whole_model import prune_model  # noqa: E402
from attnprune_verify.whole_model.budgets import zeros_by_map  # noqa: E402
from attnprune_verify.whole_model.in_memory import prune_in_memory  # noqa: E402
from attnprune_verify.whole_model.joint import _SummedGoal  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from tests.whole_model.small import MODEL, write_texts  # noqa: E402

IDS = np.random.default_rng(0).integers(1, 1000, (3, 40))
UNSEEN = np.random.default_rng(1).integers(1, 1000, (4, 40))
SIZES = {
    "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip


@pytest.fixture(scope="module")
def small():
    return transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


def _logits(model, ids):
    with torch.no_grad():
        return model(torch.from_numpy(ids)).logits.float().numpy()


@pytest.mark.parametrize(("attention", "rest"), [("sparsegpt", "wanda"), ("fisher-obs", "magnitude")])
def test_the_same_weights_as_without_torch(small, attention, rest):
    model = copy.deepcopy(small)
    report = prune_(model, [torch.from_numpy(IDS[:2]), torch.from_numpy(IDS[2:])], 0.5, attention=attention, rest=rest)
    dense = load_pretrained(MODEL, dtype=np.float32)
    ours = prune_in_memory(dense, IDS, Plan(attention, rest, 0.5)).logits(UNSEEN)
    np.testing.assert_allclose(_logits(model, UNSEEN), ours, atol=2e-3)
    assert np.abs(ours - dense.logits(UNSEEN)).max() > 0.5
    for row in report["tensors"]:
        assert row["zeros"] == int((model.get_parameter(row["name"]) == 0).sum())


@pytest.mark.parametrize("budget", ["measured", "owl"])
def test_budgets_are_those_without_torch(small, budget):
    model = copy.deepcopy(small)
    report = prune_(
        model, [torch.from_numpy(IDS)], 0.5, attention="sparsegpt", rest="magnitude", budget=budget, hold=[1]
    )
    plan = Plan("sparsegpt", "magnitude", 0.5, budget=budget, hold=(1,))
    dense = load_pretrained(MODEL, dtype=np.float32)
    wanted = zeros_by_map(dense, IDS, plan)
    for row in report["tensors"]:
        place = next(
            (i, r) for i, of in enumerate(wanted) for r in of if dense.family.weight_place(i, r).name == row["name"]
        )
        assert abs(row["zeros"] - wanted[place[0]][place[1]]) <= row["size"] // 128  # SparseGPT: one more per block
    shares = {row["name"]: row["zeros"] / row["size"] for row in report["tensors"]}
    assert max(shares.values()) - min(shares.values()) > 0.02
    with pytest.raises(InvalidInstance, match="windows must have one length"):
        prune_(model, [torch.from_numpy(IDS), torch.from_numpy(IDS[:, :9])], 0.5, budget=budget)


def test_a_pruned_folder_loads_in_transformers_with_equal_logits(tmp_path):
    calibration, _ = write_texts(tmp_path)
    prune_model(MODEL, tmp_path / "out", 0.5, calibration=calibration, k=2, n=32)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype=torch.float32)
    ours = load_pretrained(tmp_path / "out").logits(UNSEEN)
    np.testing.assert_allclose(_logits(theirs, UNSEEN), ours, atol=1e-4)
    dense = load_pretrained(MODEL).logits(UNSEEN)
    assert np.abs(ours - dense).max() > 0.5


def test_probes_agree_in_law(small):
    """The mean damage over some draws of probes, with torch's gradients and with those in closed form."""
    dense = load_pretrained(MODEL, dtype=np.float32)
    before = dense.logits(UNSEEN)
    damages = {"torch": [], "closed form": []}
    for seed in range(2):
        model = copy.deepcopy(small)
        report = prune_(model, [IDS], 0.5, seed=seed, budget="matrix", reconstruct=0)
        assert {row["zeros"] / row["size"] for row in report["tensors"]} == {0.5}
        damages["torch"].append(np.square(_logits(model, UNSEEN) - before).mean())
        ours = prune_in_memory(dense, IDS, Plan(rho=0.5, seed=seed)).logits(UNSEEN)
        damages["closed form"].append(np.square(ours - before).mean())
    first, second = (np.mean(values) for values in damages.values())
    assert first == pytest.approx(second, rel=0.15)


@pytest.mark.parametrize("kind", ["Qwen2", "Mistral"])
def test_other_families_patterns_and_half_precision(kind):
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**SIZES)
    model = transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).train()
    model.model.norm.weight.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    wanted = [parameter.requires_grad for parameter in model.parameters()]
    report = prune_(model, [torch.from_numpy(IDS % 50)], pattern="2:4")
    assert model.training and [parameter.requires_grad for parameter in model.parameters()] == wanted
    pruned = {row["name"] for row in report["tensors"]}
    assert len(pruned) == 14
    for name, value in model.state_dict().items():
        assert value.dtype == torch.bfloat16
        if name in pruned:
            assert ((value.reshape(-1, 4) == 0).sum(axis=1) == 2).all()
        else:
            assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batches": []}, "at least one window"),
        ({"batches": [torch.zeros(2, 3)]}, "integer tensor"),
        ({"batches": [torch.tensor([[5000]])]}, "ids must be in 0..1023"),
        ({"rho": None}, "exactly one of rho and pattern"),
        ({"device": "abacus"}, "device must be one of torch's"),
        ({"device": "meta"}, "device must be one that computes on this machine"),
        ({"reconstruct": -1}, "reconstruct must be an integer >= 0"),
        ({"loss_windows": 0}, "loss_windows must be an integer >= 1"),
        ({"pattern": "2:4"}, "exactly one of rho and pattern"),
        ({"model": torch.nn.Linear(2, 2)}, "transformers model with a language-model head"),
    ],
)
def test_unusable_arguments(small, change, message):
    with pytest.raises(InvalidInstance, match=message):
        prune_(**({"model": small, "batches": [IDS], "rho": 0.5} | change))


@pytest.mark.parametrize("choices", [{"attention": "fisher-obs"}, {"budget": "owl"}])
def test_what_needs_a_network_in_numpy_is_refused_by_name_for_other_types(choices):
    config = transformers.Qwen3Config(**SIZES, head_dim=4)
    with pytest.raises(InvalidInstance, match="model_type must be one of llama, mistral, qwen2; got 'qwen3'"):
        prune_(transformers.AutoModelForCausalLM.from_config(config), [IDS % 50], 0.5, **choices)


def test_patterns_are_refitted_together_here_too(small, monkeypatch):
    """What leaves attention is nearer to the dense one than without, by the same goal in closed form."""
    damages = {}
    for steps in (0, 1):
        options = dataclasses.replace(OutputOBS(), joint_steps=steps)
        monkeypatch.setattr("attnprune_verify.torch.pruning_run.matrix_options", lambda *_, options=options: options)
        model = copy.deepcopy(small)
        prune_(model, [torch.from_numpy(IDS)], pattern="2:4", rest="dense")
        assert int((model.model.layers[1].self_attn.q_proj.weight == 0).sum()) == 64 * 64 // 2
        network = load_pretrained(MODEL, dtype=np.float32)
        block = network.block(0)
        hidden = list(network.family.embed(IDS))
        goal = _SummedGoal(block, hidden)
        attention = model.model.layers[0].self_attn
        weights = {"Q": attention.q_proj.weight.numpy(force=True), "K": attention.k_proj.weight.numpy(force=True)}
        damages[steps] = goal(weights, slopes=False).f
    assert 0 < damages[1] < 0.98 * damages[0]


@pytest.mark.parametrize("choices", [{"rho": 0.5, "budget": "matrix"}, {"pattern": "2:4"}])
def test_solvers_on_the_device_do_as_those_in_numpy(small, choices, monkeypatch):
    """As on a CUDA device, where tensors are not taken to the host: float32 in place of float64."""
    changes = {}
    for hosts in (("cpu",), ()):
        for module in ("pieces", "moments"):
            monkeypatch.setattr(f"attnprune_verify.torch.{module}.HOSTS", hosts)
        model = copy.deepcopy(small)
        report = prune_(model, [torch.from_numpy(IDS)], **choices)
        assert report["zeros"] * 2 == report["size"]
        changes[hosts] = np.square(_logits(model, UNSEEN) - _logits(small, UNSEEN)).mean()
    assert changes["cpu",] == pytest.approx(changes[()], rel=0.05)

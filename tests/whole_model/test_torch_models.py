"""Models in every state a user has them in: they are pruned and put back as they were, or refused by a sentence."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")

from attnprune_verify.errors import InvalidInstance  # noqa: E402  # after the skips
from attnprune_verify.torch import prune_  # noqa: E402
from tests.whole_model.decoders import IDS, bytes_of, judge, tiny  # noqa: E402

# torch's and transformers' words about their own next versions
pytestmark = [pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Future", "Deprecation")]
FAST = {"attention": "sparsegpt", "rest": "magnitude"}
"""Chosen: what restores a model is the same for all methods."""


def state(model):
    """Everything but weights that a pruned model must have as before."""
    return {
        "modes": [module.training for module in model.modules()],
        "wanted": [p.requires_grad for p in model.parameters()],
        "dtypes": {name: tensor.dtype for name, tensor in model.state_dict().items()},
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
        "forwards": ["forward" in vars(m) for m in model.modules()],
        "compiled": [m._compiled_call_impl for m in model.modules()],
        "attention": model.config._attn_implementation,
        "checkpointing": [getattr(module, "gradient_checkpointing", None) for module in model.modules()],
        "identities": [id(p) for p in model.parameters()],
    }


def frozen(model):
    for parameter in model.model.layers[0].parameters():
        parameter.requires_grad_(False)


def partly_training(model):
    model.train()
    model.model.layers[1].eval()


def checkpointed(model):
    model.train().gradient_checkpointing_enable()


def hooked(model):
    model.model.layers[0].register_forward_hook(lambda *_: None)
    model.model.layers[1].mlp.register_forward_pre_hook(lambda *_: None)


STATES = {
    "training": lambda model: model.train(),
    "partly training": partly_training,
    "frozen": frozen,
    "checkpointed": checkpointed,
    "hooked": hooked,
    "bfloat16": lambda model: model.to(torch.bfloat16),
    "float16": lambda model: model.to(torch.float16),
    "float64": lambda model: model.to(torch.float64),
    "compiled in place": lambda model: model.compile(),
    "blocks compiled": lambda model: [block.compile() for block in model.model.layers],
    "eager": lambda model: model.set_attn_implementation("eager"),
}


@pytest.mark.parametrize("change", STATES.values(), ids=STATES)
def test_it_is_left_as_it_was_but_for_its_weights(change):
    model = tiny("llama")
    change(model)
    before, were = state(model), bytes_of(model)
    report = prune_(model, IDS, 0.5, attention="magnitude", rest="magnitude")
    assert state(model) == before
    judge(were, bytes_of(model), report, 0.5)


def test_tied_embeddings_stay_tied_and_dense():
    model = tiny("llama", tie_word_embeddings=True)
    before = model.lm_head.weight.clone()
    prune_(model, IDS, 0.5, **FAST)
    assert model.lm_head.weight is model.model.embed_tokens.weight and torch.equal(model.lm_head.weight, before)


def test_a_compiled_cover_is_taken_off():
    model = tiny("llama")
    report = prune_(torch.compile(model), IDS, 0.5, **FAST)
    assert int((model.get_parameter(report["tensors"][0]["name"]) == 0).sum()) == report["tensors"][0]["zeros"]


def test_after_an_exception_too():
    model = tiny("llama").train()
    model.lm_head.weight.requires_grad_(False)
    before, were = state(model), bytes_of(model)

    def stop(done, _steps, _what):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_(model, IDS, 0.5, progress=stop)  # in the middle of the metrics of the loss
    assert state(model) == before
    assert all(torch.equal(tensor, were[name]) for name, tensor in bytes_of(model).items())


def quantized(model):
    model.model.layers[0].mlp.up_proj.weight = torch.nn.Parameter(torch.zeros(48, 32, dtype=torch.int8), False)


def shared(model):
    model.model.layers[1].mlp.up_proj.weight = model.model.layers[0].mlp.up_proj.weight


def not_finite(model):
    model.model.layers[0].mlp.up_proj.weight.data[0, 0] = float("nan")


REFUSED = {
    "on the meta device": (lambda model: model.to("meta"), "weights must be loaded; .* is on the meta device"),
    "quantised": (quantized, "plain tensors of floating numbers; .*up_proj.weight.* is a Tensor of torch.int8"),
    "quantised by its configuration": (
        lambda model: setattr(model.config, "quantization_config", {"quant_method": "gptq"}),
        "model must not be quantised; 'llama'",
    ),
    "shared between blocks": (shared, "weights of its own; model.layers.1.mlp.up_proj.weight is also one of"),
    "not finite": (not_finite, "predictions must be finite; those of 'llama' are not"),
    "in one float8": (
        lambda model: model.model.layers[0].mlp.up_proj.to(torch.float8_e4m3fn),
        "plain tensors of floating numbers; .*float8",
    ),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_pruned_is_refused_before_anything_changes(change, message):
    model = tiny("llama")
    change(model)
    before = state(model)
    with pytest.raises(InvalidInstance, match=message):
        prune_(model, IDS, 0.5)
    assert state(model) == before


def padded(side):
    """A DataLoader of what a tokenizer gives: ids and masks, padded to 30 on one side."""
    lengths = (24, 11, 17, 24)
    rows = []
    for ids, length in zip(IDS, lengths, strict=True):
        gap, ones = torch.zeros(30 - length, dtype=torch.int64), torch.ones(length, dtype=torch.int64)
        parts = [(ids[:length], gap), (ones, gap)]
        row = [torch.cat(pair if side == "right" else pair[::-1]) for pair in parts]
        rows.append({"input_ids": row[0], "attention_mask": row[1]})
    return torch.utils.data.DataLoader(rows, batch_size=2), [ids[None, :n] for ids, n in zip(IDS, lengths, strict=True)]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_is_left_out(side):
    model = tiny("qwen2")
    loader, cut = padded(side)
    by_loader, by_hand = (copy.deepcopy(model) for _ in range(2))
    reports = [prune_(m, b, 0.5, **FAST) for m, b in ((by_loader, loader), (by_hand, cut))]
    assert reports[0]["fingerprint"] == reports[1]["fingerprint"]
    assert all(torch.equal(t, by_hand.state_dict()[n]) for n, t in by_loader.state_dict().items())
    with_padding = copy.deepcopy(model)
    prune_(with_padding, [batch["input_ids"] for batch in loader], 0.5, **FAST)
    assert not all(torch.equal(t, by_hand.state_dict()[n]) for n, t in with_padding.state_dict().items())


KINDS = {
    "a tensor": IDS,
    "a list of tensors": [IDS[:2], IDS[2:]],
    "an array": IDS.numpy(),
    "a dict": {"input_ids": IDS},
    "a BatchEncoding": transformers.BatchEncoding({"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}),
    "a dict of lists": {"input_ids": IDS.tolist(), "attention_mask": torch.ones_like(IDS).tolist()},
    "a loader of tuples": torch.utils.data.DataLoader(torch.utils.data.TensorDataset(IDS), batch_size=3),
    "a generator": (IDS[i : i + 1] for i in range(4)),
}


@pytest.mark.parametrize("batches", KINDS.values(), ids=KINDS)
def test_all_of_these_are_batches(batches):
    model, other = tiny("opt"), tiny("opt")
    one, same = prune_(model, batches, 0.5, **FAST), prune_(other, [IDS], 0.5, **FAST)
    assert one["fingerprint"] == same["fingerprint"] and one["tensors"] == same["tensors"]


WRONG = {
    "ids beyond the vocabulary": (torch.full((1, 5), 97), "ids must be in 0..96"),
    "negative ids": (torch.full((1, 5), -100), "ids must be in 0..96"),
    "too long": (torch.ones(1, 65, dtype=torch.int64), "at most 64 of them; got 1 to 1, 65"),
    "holes in the mask": ({"input_ids": IDS, "attention_mask": (IDS > 50).long()}, "one run of a window's tokens"),
    "all masked": ({"input_ids": IDS, "attention_mask": torch.zeros_like(IDS)}, "at least one window"),
    "another mask": ({"input_ids": IDS, "attention_mask": torch.ones(1, 24)[:, :3].long()}, "a row for every window"),
    "no ids": ({"labels": IDS}, "must hold input_ids; got labels"),
    "text": ("some text", "batches must be token ids"),
    "texts": (["some text"], "integer tensor"),
    "one row": (IDS[0], "integer tensor"),
    "nothing": (None, "batches must be token ids"),
}


@pytest.mark.parametrize(("batches", "message"), WRONG.values(), ids=WRONG)
def test_wrong_calibration_is_refused(batches, message):
    with pytest.raises(InvalidInstance, match=message):
        prune_(tiny("llama"), batches, 0.5)


@pytest.mark.parametrize("on", ["the model as it was left", "the model read anew"])
def test_an_interrupted_run_goes_on_where_it_was(tmp_path, on):
    whole, left = tiny("mixtral"), tiny("mixtral")
    prune_(whole, IDS, 0.5)
    place, seen = tmp_path / "work", []

    def stop(done, steps, _what):
        if done == steps - 1:  # one of two blocks is pruned
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_(left, IDS, 0.5, resume=place, progress=stop)
    (place / "mine.txt").write_text("not of this package")
    again = left if on == "the model as it was left" else tiny("mixtral")
    prune_(again, IDS, 0.5, resume=place, progress=lambda done, *_: seen.append(done))
    assert seen == [0, 7, 8]  # budgets and the metrics of the loss were there
    assert all(torch.equal(t, whole.state_dict()[n]) for n, t in again.state_dict().items())
    assert [file.name for file in place.iterdir()] == ["mine.txt"]


def test_another_request_does_not_go_on_from_it(tmp_path):
    def stop(done, *_):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_(tiny("llama"), IDS, 0.5, **FAST, resume=tmp_path, progress=stop)
    with pytest.raises(InvalidInstance, match="of this very request; its request has another plan.rho"):
        prune_(tiny("llama"), IDS, 0.6, **FAST, resume=tmp_path)


def test_what_is_kept_of_a_pruned_block_must_be_there(tmp_path):
    """A block that is pruned in the model and gone from the folder is not pruned a second time."""
    model = tiny("llama")

    def stop(done, *_):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_(model, IDS, 0.5, **FAST, resume=tmp_path, progress=stop)
    (tmp_path / "prune.partial" / "block-0000.arrays").unlink()
    with pytest.raises(InvalidInstance, match="the model must be dense; block 0 is pruned and is not kept"):
        prune_(model, IDS, 0.5, **FAST, resume=tmp_path)

"""Hidden states and attention of tiny random models against transformers and torch, layer by layer."""

import numpy as np
import pytest

from attnprune_verify.model.layer_functions import layer_attention
from attnprune_verify.pretrained import load_pretrained

torch = pytest.importorskip("torch", reason="the comparison with transformers needs torch")
transformers = pytest.importorskip("transformers", reason="the comparison with transformers needs transformers")
pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

COMMON = {
    "vocab_size": 50, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3, "num_attention_heads": 4,
    "max_position_embeddings": 64, "initializer_range": 0.4,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
CASES = {
    "bert": ("BertConfig", {}, 1e-12),
    "bert relu": ("BertConfig", {"hidden_act": "relu"}, 1e-12),
    # transformers keeps the rotation's cosines in float32 whatever the model's dtype
    "llama": ("LlamaConfig", {}, 3e-5),
    "llama groups": ("LlamaConfig", {"num_key_value_heads": 2, "rope_theta": 5e5}, 3e-5),
    "llama 3 scaling, biases": (
        "LlamaConfig",
        {"num_key_value_heads": 1, "rope_scaling": LLAMA3, "attention_bias": True, "mlp_bias": True},
        3e-5,
    ),
    "llama own head size": ("LlamaConfig", {"head_dim": 6, "num_key_value_heads": 2}, 3e-5),
}


@pytest.mark.parametrize("case", CASES)
def test_same_numbers(tmp_path, case):
    kind, changes, tolerance = CASES[case]
    torch.manual_seed(0)
    config = getattr(transformers, kind)(**(COMMON | changes))
    theirs = transformers.AutoModel.from_config(config, attn_implementation="eager")
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith(("bias", "norm.weight", "LayerNorm.weight")):
                parameter.add_(0.3 * torch.randn(parameter.shape))
    theirs = theirs.double().eval()
    theirs.save_pretrained(tmp_path)
    ours = load_pretrained(tmp_path)
    ids = np.random.default_rng(0).integers(0, 50, (2, 20))
    with torch.no_grad():
        expected = theirs(torch.tensor(ids), output_hidden_states=True, output_attentions=True)
    for mine, other in zip(ours.hidden_states(ids)[:-1], expected.hidden_states[:-1], strict=True):
        np.testing.assert_allclose(mine, other.numpy(), atol=tolerance * np.abs(other.numpy()).max())
    np.testing.assert_allclose(ours.output(ids), expected.last_hidden_state.numpy(), atol=10 * tolerance)
    for layer, X, F in zip(ours.layers, ours.attention_inputs(ids), expected.attentions, strict=True):
        np.testing.assert_allclose(layer_attention(layer, X), F.numpy(), atol=tolerance)


CAUSAL = {
    "llama, tied": ("LlamaConfig", {"num_key_value_heads": 2, "tie_word_embeddings": True}),
    "llama 3 scaling, biases": (
        "LlamaConfig",
        {"num_key_value_heads": 1, "rope_scaling": LLAMA3, "attention_bias": True, "mlp_bias": True},
    ),
    "qwen2": ("Qwen2Config", {"num_key_value_heads": 2}),
    "qwen2, window in the last layer": (
        "Qwen2Config",
        {"num_key_value_heads": 2, "use_sliding_window": True, "sliding_window": 7, "max_window_layers": 2},
    ),
    "mistral": ("MistralConfig", {"num_key_value_heads": 2, "sliding_window": None}),
    "mistral, window": ("MistralConfig", {"num_key_value_heads": 4, "sliding_window": 5}),
}


@pytest.mark.parametrize("case", CAUSAL)
def test_same_logits(tmp_path, case):
    kind, changes = CAUSAL[case]
    torch.manual_seed(1)
    config = getattr(transformers, kind)(**(COMMON | changes))
    theirs = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith(("bias", "norm.weight")):
                parameter.add_(0.3 * torch.randn(parameter.shape))
    theirs.save_pretrained(tmp_path)
    ids = np.random.default_rng(0).integers(0, 50, (2, 20))
    with torch.no_grad():
        outputs = theirs(torch.tensor(ids), labels=torch.tensor(ids))
    ours = load_pretrained(tmp_path)
    scale = float(outputs.logits.abs().max())
    np.testing.assert_allclose(ours.logits(ids), outputs.logits.numpy(), atol=2e-5 * scale)
    assert ours.perplexity(ids) == pytest.approx(float(outputs.loss.exp()), rel=1e-4)

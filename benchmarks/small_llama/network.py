"""A Llama in plain torch, or a Qwen2 (biases on queries, keys and values), saved in Hugging Face's layout."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Sizes:
    """The shape of a network."""

    vocabulary: int = 2048
    d: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    inner: int = 352
    context: int = 256
    theta: float = 10000.0
    eps: float = 1e-5
    family: str = "llama"

    def config(self, dtype: str) -> dict[str, object]:
        """config.json of Hugging Face's Llama or Qwen2."""
        kind = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[self.family]
        return {
            "architectures": [kind],
            "model_type": self.family,
            "vocab_size": self.vocabulary,
            "hidden_size": self.d,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.d // self.heads,
            "hidden_act": "silu",
            "max_position_embeddings": self.context,
            "rms_norm_eps": self.eps,
            "rope_theta": self.theta,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": 0,
            "eos_token_id": 0,
            "torch_dtype": dtype,
        }


class _Norm(nn.Module):
    def __init__(self, d: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


class _Attention(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.sizes, self.m, self.uniform = s, s.d // s.heads, False
        biased = s.family == "qwen2"
        self.q_proj = nn.Linear(s.d, s.d, bias=biased)
        self.k_proj = nn.Linear(s.d, s.kv_heads * self.m, bias=biased)
        self.v_proj = nn.Linear(s.d, s.kv_heads * self.m, bias=biased)
        self.o_proj = nn.Linear(s.d, s.d, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        q, k, v = (self._heads(f(x)) for f in (self.q_proj, self.k_proj, self.v_proj))
        q, k = (0 * q if self.uniform else _turn(q, cos, sin)), _turn(k, cos, sin)
        k, v = (each.repeat_interleave(self.sizes.heads // self.sizes.kv_heads, 1) for each in (k, v))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (-1, self.m)).transpose(1, 2)


class _MLP(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(s.d, s.inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(s.inner, s.d, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class _Block(nn.Module):
    def __init__(self, s: Sizes) -> None:
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = _Norm(s.d, s.eps), _Norm(s.d, s.eps)
        self.self_attn, self.mlp = _Attention(s), _MLP(s)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class SmallLlama(nn.Module):
    """Token ids (k, n) to logits (k, n, vocabulary)."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.embed_tokens = nn.Embedding(sizes.vocabulary, sizes.d)
        self.layers = nn.ModuleList(_Block(sizes) for _ in range(sizes.layers))
        self.norm = _Norm(sizes.d, sizes.eps)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                out = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * sizes.layers) if out else 0.02)
        m = sizes.d // sizes.heads
        pace = sizes.theta ** (-torch.arange(0, m, 2, dtype=torch.float64) / m)
        angles = torch.outer(torch.arange(sizes.context, dtype=torch.float64), pace).repeat(1, 2)
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        x, n = self.embed_tokens(ids), ids.shape[1]
        for block in self.layers:
            x = block(x, self.cos[:n], self.sin[:n])
        return functional.linear(self.norm(x), self.embed_tokens.weight)

    def loss(self, ids: Tensor) -> Tensor:
        """Mean nats per token; the first of every window is given."""
        return functional.cross_entropy(self(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    @torch.no_grad()
    def perplexity(self, ids: Tensor, *, uniform: bool = False) -> float:
        """On windows (k, n); `uniform` lets every token attend equally to all before it: what attention is worth."""
        for block in self.layers:
            block.self_attn.uniform = uniform
        total = sum(self.loss(part).item() * len(part) for part in ids.split(16))
        for block in self.layers:
            block.self_attn.uniform = False
        return math.exp(total / len(ids))

    def save(self, folder: Path, dtype: str) -> None:
        """config.json and model.safetensors."""
        kind = getattr(torch, dtype)
        tensors = {f"model.{name}": value.to(kind).contiguous() for name, value in self.state_dict().items()}
        save_file(tensors, str(folder / "model.safetensors"), metadata={"format": "pt"})
        (folder / "config.json").write_text(json.dumps(self.sizes.config(dtype), indent=1) + "\n")

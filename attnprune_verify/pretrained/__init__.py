"""Real models from a local folder (config.json and safetensors): their attention layers and hidden states, in NumPy."""

from attnprune_verify.pretrained.load import load_pretrained
from attnprune_verify.pretrained.network import PretrainedModel

__all__ = ["PretrainedModel", "load_pretrained"]

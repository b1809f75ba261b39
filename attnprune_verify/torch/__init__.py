"""Prune transformers models: forward and backward passes by torch on their device, blocks and maps found by structure.

Needs the extra `torch` and transformers. Nothing of a model is looked up by its name: what its blocks are, which
products with weights they compute, which of these get one input and which make queries, keys and values is seen in one
pass of a few tokens (`blocks`, `products`, `roles`).
"""

from attnprune_verify.extras import need

need("attnprune_verify.torch", "torch")  # what to install is said where it is missing
from attnprune_verify.torch.prune import prune_  # noqa: E402

__all__ = ["prune_"]

"""Published adapters: programs that people have, in the layout they have them, made targets of an audit.

::

    from attnprune_verify import run_audit
    from attnprune_verify.audit import adapters

    run_audit(adapters.original_sparsegpt(SparseGPT), dtype="float32")

An adapter converts conventions (layers, transposes, sequences that come one by one, tensors) and nothing else: what a
program gets wrong it gets wrong here. Everything is called as its own library would call it; torch, jax and
llm-compressor are imported at the first call.
"""

from attnprune_verify.audit.adapters.autodiff import jax_functions, jax_loss, torch_functions, torch_loss
from attnprune_verify.audit.adapters.llm_compressor import llm_compressor_sparsegpt, llm_compressor_wanda
from attnprune_verify.audit.adapters.original import original_sparsegpt, original_wanda

__all__ = [
    "jax_functions",
    "jax_loss",
    "llm_compressor_sparsegpt",
    "llm_compressor_wanda",
    "original_sparsegpt",
    "original_wanda",
    "torch_functions",
    "torch_loss",
]

"""The SparseGPT program of its authors, from a checkout in ATTNPRUNE_SPARSEGPT, as it stands."""

import os
import sys

import torch

from attnprune_verify.audit import adapters

sys.path.insert(0, os.environ["ATTNPRUNE_SPARSEGPT"])
if not torch.cuda.is_available():
    torch.cuda.synchronize = lambda: None  # which the program calls to take the time

from sparsegpt import SparseGPT  # noqa: E402  # from the checkout

sparsegpt = adapters.original_sparsegpt(SparseGPT)

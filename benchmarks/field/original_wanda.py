"""The Wanda program of its authors, from a checkout in ATTNPRUNE_WANDA: its class of norms, and its own SparseGPT."""

import os
import sys

import torch

from attnprune_verify.audit import adapters

sys.path.insert(0, os.environ["ATTNPRUNE_WANDA"])
if not torch.cuda.is_available():
    torch.cuda.synchronize = lambda: None  # which the program calls to take the time

from lib.layerwrapper import WrappedGPT  # noqa: E402  # from the checkout
from lib.sparsegpt import SparseGPT  # noqa: E402

wanda = adapters.original_wanda(WrappedGPT)
sparsegpt = adapters.original_sparsegpt(SparseGPT)

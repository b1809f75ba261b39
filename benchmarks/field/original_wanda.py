"""The Wanda program of its authors, from a checkout in ATTNPRUNE_WANDA: its class of norms, and its own SparseGPT."""

import os
import sys

from attnprune_verify.audit import adapters

sys.path.insert(0, os.environ["ATTNPRUNE_WANDA"])

from lib.layerwrapper import WrappedGPT  # noqa: E402  # from the checkout
from lib.sparsegpt import SparseGPT  # noqa: E402

wanda = adapters.original_wanda(WrappedGPT)
sparsegpt = adapters.original_sparsegpt(SparseGPT)

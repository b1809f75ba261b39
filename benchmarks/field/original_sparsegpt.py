"""The SparseGPT program of its authors, from a checkout in ATTNPRUNE_SPARSEGPT, as it stands."""

import os
import sys

from attnprune_verify.audit import adapters

sys.path.insert(0, os.environ["ATTNPRUNE_SPARSEGPT"])

from sparsegpt import SparseGPT  # noqa: E402  # from the checkout

sparsegpt = adapters.original_sparsegpt(SparseGPT)

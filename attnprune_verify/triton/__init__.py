"""Triton kernels on a CPU: `interpreted` imports a file or a module with Triton's interpreter on.

The interpreter keeps bfloat16 as 16-bit integers and computes with these; here it raises instead, so that a kernel is
not charged with errors of 1e8 that it does not make.
"""

from attnprune_verify.triton.imports import interpreted
from attnprune_verify.triton.language import BFLOAT16

__all__ = ["BFLOAT16", "interpreted"]

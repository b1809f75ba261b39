"""Fingerprint of this machine's rounding: campaigns agree to the bit only if every worker rounds alike."""

import platform
from functools import cache
from typing import Any

import numpy as np
import scipy

from attnprune_verify.claims.judging.verdict_cache import code_and_libraries
from attnprune_verify.state.digests import of_arrays


@cache
def kernel() -> dict[str, str]:
    """Return the machine that a campaign's numbers depend on: BLAS, vector units, versions, and bits.

    `bits` is a digest of exponentials, logarithms, cosines, products, eigenvalues and singular values of fixed
    matrices: two machines with equal bits round alike, whatever they are called.

    Examples
    --------
    >>> sorted(kernel())
    ['bits', 'blas', 'cpu', 'numpy', 'scipy']
    """
    return {
        "blas": _blas(),
        "cpu": f"{platform.machine()} {' '.join(_vector_units())}".strip(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "bits": _bits(),
    }


def code() -> str:
    """Return a digest of the code that judges, and of the versions of its libraries."""
    return code_and_libraries()[:16]


def _blas() -> str:
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _vector_units() -> list[str]:
    """The instruction sets NumPy dispatches to on this processor."""
    config: Any = np.show_config(mode="dicts")
    return sorted(config.get("SIMD Extensions", {}).get("found", []))


def _bits() -> str:
    rng = np.random.Generator(np.random.Philox(key=0))
    line = rng.uniform(0.01, 30.0, 4099)  # not a multiple of any vector length
    functions = (np.exp, np.log, np.cos, np.sin, np.sqrt)
    results = [function(values) for values in (line, line[:1], line[:3]) for function in functions]
    for size in (2, 3, 4, 8, 16, 64):
        table = rng.standard_normal((2, size, size))
        symmetric = table + table.transpose(0, 2, 1)
        results += [table @ symmetric, np.linalg.eigvalsh(symmetric), np.linalg.svd(table, compute_uv=False)]
        results.append(np.asarray(np.linalg.norm(table[0], 2)))
    return of_arrays(results)[:16]

"""The environment of a subject: a short list of variables, none of which is anybody's secret."""

import os
import site
from collections.abc import Mapping

KEPT = (
    *("PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_NUMERIC", "LC_TIME", "TZ"),
    *("VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("PYTHONHASHSEED", "PYTHONHOME", "PYTHONMALLOC", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONUTF8"),
    *("NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    *("KMP_DUPLICATE_LIB_OK", "MKL_THREADING_LAYER", "JAX_ENABLE_X64", "JAX_PLATFORMS", "XLA_FLAGS"),
    *("JAX_DISABLE_JIT", "TORCHDYNAMO_DISABLE", "TRITON_INTERPRET"),
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH", "CUBLAS_WORKSPACE_CONFIG"),
)
"""Passed on as they are: where programs, libraries and devices are, and how they compute."""

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Set to 1: on many small products threads cost more than they bring."""

CACHES = (
    *("TMPDIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "MPLCONFIGDIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH"),
    *("TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR", "TRITON_CACHE_DIR"),
)
"""Set to the subject's own temporary folder, as HOME is where the subject is confined."""


def environment(folder: str, *, confined: bool, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables of a subject whose temporary folder is `folder`; `own` are those of the audit.

    Examples
    --------
    >>> sorted(environment("/tmp/mine", confined=False, own={"HOME": "/home/me", "TOKEN": "secret"}))[:3]
    ['CUDA_CACHE_PATH', 'CUPY_CACHE_DIR', 'HOME']
    """
    own = os.environ if own is None else own
    kept = {name: own[name] for name in KEPT if name in own}
    home = {"HOME": folder, "PYTHONUSERBASE": site.getuserbase()} if confined else {"HOME": own.get("HOME", folder)}
    fixed = {**dict.fromkeys(ONE_THREAD, "1"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **dict.fromkeys(CACHES, folder), **home, **fixed}

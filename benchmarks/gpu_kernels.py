"""Audits of attention kernels on a CUDA device: `benchmarks/on_gpu.py kernels` writes docs/kernels_gpu.md."""

import platform
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from attnprune_verify import check_attention
from attnprune_verify.audit.kernel.options import MODES
from attnprune_verify.files import write_whole

PAGE = Path(__file__).parents[1] / "docs" / "kernels_gpu.md"
LIMIT = 540.0
"""Seconds for all audits: the program is to end within ten minutes."""
LEAST = 10.0
"""Seconds that an audit has at least, chosen: what a quick one takes on a CPU; with less left none begins."""
BACKENDS = ("MATH", "FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION")
"""Of torch's scaled_dot_product_attention."""
DTYPES = ("float32", "bfloat16", "float16")
NOT_MEASURED = "not measured"
COLUMNS = ("kernel", "dtype", "verdict", "passed", "failed", "named", *MODES, "error", "seconds")
HEAD = """# Attention kernels on a GPU

`python benchmarks/on_gpu.py kernels` writes this page on a machine with a GPU. It audits each kernel with
`attnprune-verify audit-kernel --quick --device cuda`, seed 0, in every [mode](check_attention.md). Backward passes are
torch's automatic differentiation; `error` is the forward pass's error in units of an honest kernel's.

"""


def kernels() -> Iterator[tuple[str, Callable[..., object]]]:
    """Yield each kernel of torch by its name."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def attention(backend: str, q, k, v, *, causal=False, scale=None, mask=None):  # type: ignore[no-untyped-def]
        if causal and mask is not None:
            mask, causal = mask & torch.ones_like(mask).tril(), False
        options = {"attn_mask": mask, "is_causal": causal, "scale": scale, "enable_gqa": q.shape[1] != k.shape[1]}
        with sdpa_kernel([getattr(SDPBackend, backend)]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, **options)

    for backend in BACKENDS:
        yield f"torch SDPA, {backend.lower()}", partial(attention, backend)


def row(title: str, kernel: Callable[..., object], dtype: str, device: str, limit: float) -> dict[str, str]:
    """Audit one kernel in one dtype."""
    start = time.perf_counter()
    result = check_attention(
        kernel, framework="torch", dtype=dtype, device=device, modes=MODES, quick=True, limit=limit
    )
    spent, counts = time.perf_counter() - start, result.counts()
    of_mode = {one.name.partition(":")[2]: one.status for one in result.checks if one.id.startswith("attention:mode:")}
    note = result.notes.get("attention", "")
    named = sorted({id for ids in result.diagnosis.values() for id in ids})
    error = note.rpartition("its error is ")[2].partition(" times")[0] if "its error is " in note else ""
    shown = (title, dtype, result.outcome, counts["passed"], counts["failed"], ", ".join(named))
    values = (*shown, *(of_mode[mode].replace("_", " ") for mode in MODES), error, f"{spent:.0f}")
    return dict(zip(COLUMNS, map(str, values), strict=True))


def page(rows: list[dict[str, str]], device: str) -> str:
    """Return the page of these rows; a column that a row lacks is not measured."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    lines += ["| " + " | ".join(one.get(name, NOT_MEASURED) for name in COLUMNS) + " |" for one in rows]
    return HEAD + "\n".join(lines) + f"\n\n{device}\n"


def empty() -> list[dict[str, str]]:
    """Return the rows before any measurement."""
    return [{"kernel": f"torch SDPA, {backend.lower()}", "dtype": dtype} for backend in BACKENDS for dtype in DTYPES]


UNMEASURED = "Nothing is measured yet: no GPU was available."


def run(device: str, tiny: bool = False, path: Path = PAGE) -> int:
    """Audit all kernels, and write the page after each; `tiny` does the first kernel in one dtype."""
    import torch

    start, rows = time.perf_counter(), empty()
    name = torch.cuda.get_device_name() if device.startswith("cuda") else platform.machine()
    said = f"Measured on {name}, torch {torch.__version__}."
    found = dict(kernels())
    for one in rows[:1] if tiny else rows:
        left = LIMIT - (time.perf_counter() - start)
        if left < LEAST:
            break
        one |= row(one["kernel"], found[one["kernel"]], one["dtype"], device, left)
        print(" | ".join(one.values()), flush=True)
        write_whole(path, page(rows, said).encode())
    return 0

"""Verdicts on attention kernels that people use: ``python -m benchmarks.real_kernels`` writes docs/kernels_real.md.

What is not installed is left out, visibly. ``python -m benchmarks.real_kernels sdpa flex`` does only those, and keeps
the other rows of the page.
"""

import importlib.metadata
import importlib.util
import platform
import resource
import sys
from pathlib import Path

from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.files import write_whole

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "kernels_real.md"
SINGLE, MIXED, ALL = ("float32",), ("float32", "bfloat16"), ("float64", "float32", "bfloat16", "float16")
# Title, adapter, precisions, packages that it needs.
KERNELS = (
    ("torch SDPA, math", "sdpa.py:math", ALL, ("torch",)),
    ("torch SDPA, flash (CPU)", "sdpa.py:flash", ALL, ("torch",)),
    ("torch SDPA, default", "sdpa.py:default", MIXED, ("torch",)),
    ("torch flex_attention", "flex.py", MIXED, ("torch",)),
    ("transformers, Llama eager", "transformers_eager.py", MIXED, ("torch", "transformers")),
    ("onnxruntime Attention", "onnx_attention.py", SINGLE, ("onnxruntime", "onnx")),
    ("keras.ops.dot_product_attention", "keras_ops.py", MIXED, ("keras", "torch")),
    ("jax.nn.dot_product_attention", "jax_nn.py", MIXED, ("jax",)),
)
HEAD = """# Attention kernels that people use

Judged by `attnprune-verify audit-kernel` on a CPU, seed 0; written by `python -m benchmarks.real_kernels`. Forward by
the kernel, backward by the framework's automatic differentiation. What fails is explained in [kernels.md](kernels.md).

| kernel | version | dtype | verdict | passed | failed | undecided | n/a | mistakes named | CPU s |
|---|---|---|---|---|---|---|---|---|---|
"""


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def row(title, adapter, dtype, packages):
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    start = cpu_seconds()
    result = run_kernel_audit(str(HERE / adapter), dtype)
    spent, counts = cpu_seconds() - start, result.counts()
    names = "; ".join(f"{function}: {', '.join(ids)}" for function, ids in result.diagnosis.items())
    for record in result.checks:
        if record.status in ("failed", "could_not_run"):
            print(f"  {record.id}: {record.status}: {record.reason[:200]}", file=sys.stderr)
    numbers = " | ".join(str(counts[name]) for name in ("passed", "failed", "inconclusive", "not_applicable"))
    return f"| {title} | {versions} | {dtype} | {result.outcome} | {numbers} | {names} | {spent:.0f} |"


def main(chosen):
    known = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.is_file() else []
    rows = {
        tuple(line.split(" | ")[::2][:2]): line for line in known if line.startswith("| ") and "| kernel" not in line
    }
    for title, adapter, dtypes, packages in KERNELS:
        if chosen and not adapter.startswith(tuple(chosen)):
            continue
        missing = [name for name in packages if importlib.util.find_spec(name) is None]
        for dtype in dtypes:
            print(title, dtype, "not installed" if missing else "", file=sys.stderr, flush=True)
            line = f"| {title} | | {dtype} | not installed: {', '.join(missing)} | | | | | | |"
            rows[(f"| {title}", dtype)] = line if missing else row(title, adapter, dtype, packages)
            ending = f"\nMeasured on {platform.machine()}, Python {platform.python_version()}.\n"
            write_whole(PAGE, (HEAD + "\n".join(rows.values()) + "\n" + ending).encode())


if __name__ == "__main__":
    main(sys.argv[1:])

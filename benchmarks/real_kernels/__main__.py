"""Verdicts on attention kernels that people use: ``python -m benchmarks.real_kernels`` writes docs/kernels_real.md.

What is not installed is left out, visibly. ``python -m benchmarks.real_kernels sdpa flex`` does only those, and keeps
the other rows of the page, which stand beside it as JSON. Kernels of CHECKOUTS are not packages: clones of their
repositories lie in the folder that ``--checkouts FOLDER`` or the variable KERNEL_CHECKOUTS names.
"""

import argparse
import collections
import functools
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

from attnprune_verify.audit.kernel.run import run_kernel_audit
from attnprune_verify.files import write_whole
from benchmarks.real_kernels.conventions import COLUMNS, conventions

HERE = Path(__file__).parent
PAGE, ROWS = HERE.parents[1] / "docs" / "kernels_real.md", HERE / "rows.json"
SINGLE, MIXED, ALL = ("float32",), ("float32", "bfloat16"), ("float64", "float32", "bfloat16", "float16")
TORCH, TRANSFORMERS, ONNX = ("torch",), ("torch", "transformers"), ("onnxruntime", "onnx")
# Title, adapter, precisions, packages that it needs.
KERNELS = (
    ("torch SDPA, math", "sdpa.py:math", ALL, TORCH),
    ("torch SDPA, flash (CPU)", "sdpa.py:flash", ALL, TORCH),
    ("torch SDPA, default", "sdpa.py:default", SINGLE, TORCH),
    ("torch's operator behind flash (CPU), with log sum exp", "sdpa.py:flash_lse", SINGLE, TORCH),
    ("torch's operator behind math, with dropout given", "sdpa.py:math_dropout", SINGLE, TORCH),
    ("torch SDPA of nested tensors", "nested.py", MIXED, TORCH),
    ("torch flex_attention", "flex.py", SINGLE, TORCH),
    ("transformers, Llama eager", "transformers_eager.py:llama", MIXED, TRANSFORMERS),
    ("transformers, Qwen 3 eager", "transformers_eager.py:qwen3", SINGLE, TRANSFORMERS),
    ("transformers, GPT-2 eager", "transformers_eager.py:gpt2", MIXED, TRANSFORMERS),
    ("transformers, Gemma 2 eager", "transformers_eager.py:gemma2", SINGLE, TRANSFORMERS),
    ("transformers, GPT-OSS eager", "transformers_eager.py:gpt_oss", SINGLE, TRANSFORMERS),
    ("onnxruntime Attention", "onnx_attention.py", SINGLE, ONNX),
    ("onnxruntime MultiHeadAttention", "onnx_attention.py:multi_head", SINGLE, ONNX),
    ("keras.ops.dot_product_attention", "keras_ops.py", SINGLE, ("keras", "torch")),
    ("jax.nn.dot_product_attention", "jax_nn.py", (), ("jax",)),
)
INTERPRETED = ("torch", "triton")
# Title, adapter, precisions, packages; of what is no package repository, commit, folder that is imported from.
CHECKOUTS = (
    ("flash-linear-attention, parallel_attn", "triton_fla.py", SINGLE, (*INTERPRETED, "einops"),
     "fla-org/flash-linear-attention", "bc3b101d", "."),
    ("Triton's tutorial, copy of 2024", "triton_tutorial.py", ("float16",), INTERPRETED,
     "alexzhang13/flashattention2-custom-mask", "8170916", "."),
    ("flashattention2-custom-mask", "triton_custom_mask.py", ("float16",), INTERPRETED,
     "alexzhang13/flashattention2-custom-mask", "8170916", "."),
    ("attorch (triton-lang/kernels)", "triton_attorch.py", SINGLE, INTERPRETED, "BobMcDear/attorch", "67c2772", "."),
    ("triton-flash-attention", "triton_hkproj.py", ("float16",), INTERPRETED,
     "hkproj/triton-flash-attention", "296ee44", "triton"),
    ("gpt-oss", "triton_gpt_oss.py", SINGLE, INTERPRETED, "openai/gpt-oss", "7b58334", "."),
    ("gpt-oss, always with sinks", "triton_gpt_oss_sinks.py", SINGLE, INTERPRETED, "openai/gpt-oss", "7b58334", "."),
    ("flash_attn_triton.py", "triton_flash_attn.py", ("float16",), INTERPRETED,
     "Dao-AILab/flash-attention", "0251105a", "."),
    ("jax Pallas mha", "pallas_mha.py", SINGLE, ("jax",), "", "", ""),
    ("mlx fast.scaled_dot_product_attention", "mlx_fast.py", ("float32", "float16"), ("mlx",), "", "", ""),
)  # fmt: skip
# With all triples; the others with --quick, which asks the same features in pairs.
WHOLE = ("sdpa.py:math", "sdpa.py:flash", "nested.py", "flex.py", "onnx_attention.py", "onnx_attention.py:multi_head")
# Programs in deviations/, and the packages that they need.
DEVIATIONS = {
    "onnxruntime_multi_head_causal": ONNX,
    "transformers_bfloat16": TRANSFORMERS,
    "torch_nested_bfloat16": TORCH,
    "torch_flash_lse": TORCH,
    "xla_repeated_keys": ("jax",),
    "gpt_oss_prefix_and_sinks": INTERPRETED,
    "triton_gradient_not_causal": ("torch", "triton<3.7"),
    "pallas_mha_gradient": ("jax",),
    "mlx_float16_logits": ("mlx",),
}
# The folder below that of the checkouts that a program in deviations/ imports from.
IMPORTED_FROM = {
    "gpt_oss_prefix_and_sinks": ("openai/gpt-oss", "."),
    "triton_gradient_not_causal": ("alexzhang13/flashattention2-custom-mask", "."),
}
# Checks that were added after the first rows were measured.
ADDED = "`kept`, `values:long` and `values:larger-changed-logits`"
HEAD = """# Attention kernels that people use

`attnprune-verify audit-kernel` audited these kernels on a CPU with seed 0 (transformers, keras, SDPA by default and
torch's operators with `--quick`). Optional parts are audited where a kernel accepts them: log sum exp, bias and its
gradient, sinks, dropout, packed sequences, windows, softcap, masks of rank 2 to 4. `python -m benchmarks.real_kernels`
writes this page; its folder has the adapters. The kernel computes the forward pass, the framework's automatic
differentiation the backward pass. Two things cannot run on a CPU: torch's `varlen_attn`, and the backward pass of
flex_attention. jax.nn.dot_product_attention compiles for every shape, so only the table of conventions lists it;
`attnprune-verify audit-kernel` on its adapter audits it. On one small sample the flash backend raises "No available
kernel", because features are not adjacent in memory; this counts as a refusal, and combined instances have heads last.

| kernel | version | dtype | verdict | passed | failed | undecided | n/a | mistakes named | CPU s |
|---|---|---|---|---|---|---|---|---|---|
"""
CONVENTIONS = """
## Conventions

Kernels differ in these cases. Each was called once with equal logits and the identity as v, so that the output is
the weights; the audit is not involved. i is a query of n, j a key of l. "Refused": the kernel or its adapter raises.

"""
WITHOUT_A_GPU = """
## Triton and Pallas kernels, and mlx, without a GPU

Kernels of others in Triton's interpreter, in Pallas' (`interpret=True`), and mlx on the CPU, with `--quick`. No code
of theirs is in this repository: `python -m benchmarks.real_kernels --checkouts FOLDER triton_` reads clones in FOLDER.
Each adapter has at most 12 lines; sizes are those that it declares. [Triton and Pallas kernels without a
GPU](howto/triton.md) shows how it is done. Seconds are of the wall, on two cores that three programs shared.

"""
SOURCES = (
    "kernel", "repository, commit", "version", "dtype", "verdict", "passed", "failed", "undecided", "not run", "n/a",
    "mistakes named", "s",
)  # fmt: skip
PROGRAMS = """
## Found in published code

Programs that reproduce each deviation without this library: the failures of the first two tables, one that only the
last table shows, and one in a compiler that made a correct kernel fail. The right numbers in them are computed by hand,
in float64, or operation by operation.
"""


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def lacking(packages):
    """Those of the packages that are not installed, or too new."""
    return [name for name in packages if not installed(*name.split("<"))]


def installed(name, below=None):
    def numbers(version):
        return tuple(map(int, version.split(".")[:2]))

    if importlib.util.find_spec(name) is None:
        return False
    return below is None or numbers(importlib.metadata.version(name)) < numbers(below)


def folder_of(repository, inside, checkouts):
    """The folder of a clone that is imported from; none where the kernel is a package."""
    if not repository:
        return ()
    folder = Path(checkouts or "", repository.partition("/")[2], inside)
    if not checkouts or not folder.is_dir():
        sys.exit(
            f"a kernel that is no package is read from a clone, and {str(folder)!r} is no folder: clone {repository} "
            f"from GitHub into a folder FOLDER, and pass --checkouts FOLDER"
        )
    return (str(folder),)


def judged(adapter, dtype, packages, path=(), limit=None):
    """The cells of one verdict, without the title and the dtype."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    start, began = cpu_seconds(), time.monotonic()
    result = run_kernel_audit(
        str(HERE / adapter), dtype, quick=adapter not in WHOLE, names="first", path=path, limit=limit
    )
    spent, counts = cpu_seconds() - start, result.counts()
    counted = ["passed", "failed", "inconclusive", "not_applicable"]
    if adapter in {one[1] for one in CHECKOUTS}:
        spent = time.monotonic() - began
        counts["could_not_run"] += counts["could_not_judge"]
        counted.insert(3, "could_not_run")
    found = {name: [one for one in ids if one != "unknown"] for name, ids in result.diagnosis.items()}
    names = "; ".join(f"{function}: {', '.join(ids)}" for function, ids in found.items() if ids)
    for record in result.checks:
        if record.status in ("failed", "could_not_run"):
            print(f"  {record.id}: {record.status}: {record.reason[:200]}", file=sys.stderr)
    numbers = [str(counts[name]) for name in counted]
    return [versions, result.outcome, *numbers, names, f"{spent:.0f}"]


@functools.cache
def module_of(file):
    spec = importlib.util.spec_from_file_location(Path(file).stem, HERE / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def followed(adapter):
    """The cells of one row of conventions."""
    file, _, name = adapter.partition(":")
    module = module_of(file)
    return conventions((getattr(module, name) if name else module).attention, module.FRAMEWORK)


def program(name, checkouts=None):
    """A program, and what it prints."""
    path = HERE / "deviations" / f"{name}.py"
    found = folder_of(*IMPORTED_FROM[name], checkouts) if name in IMPORTED_FROM else ()
    surroundings = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join(found)}
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, env=surroundings)
    docstring, code = re.match(r'"""(.*?)"""\n(.*)', path.read_text(encoding="utf-8"), re.S).groups()
    said = re.sub(r"(\d\.\d{4})\d+", r"\1", done.stdout.strip())
    return (
        f"\n### {docstring.strip().partition(chr(10))[0]}\n\n{said_of(docstring)}```python\n{code.strip()}\n```\n\n"
        + (f"prints\n\n```text\n{said}\n```\n")
    )


def said_of(docstring):
    rest = docstring.strip().partition("\n")[2].strip()
    return f"{rest}\n\n" if rest else ""


def table(head, rows):
    lines = [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def unequal(known):
    """The sentence under the table where rows of later audits have another number of checks."""
    rows = {f"{title} {dtype}": known.get(f"{title} {dtype}") for title, _, dtypes, _ in KERNELS for dtype in dtypes}
    checks = {name: sum(map(int, cells[2:6])) for name, cells in rows.items() if cells}
    usual = collections.Counter(checks.values()).most_common(1)[0][0] if checks else 0
    others = [f"{name} ({count})" for name, count in checks.items() if count != usual]
    if not others:
        return ""
    said = f"Rows of {usual} checks were measured before the checks {ADDED} applied to both functions."
    return f"\n{said} Measured with them: {'; '.join(others)}.\n"


def page(known):
    """The page from all rows that are known, in the order of KERNELS."""
    verdicts = [
        f"| {title} | {versions} | {dtype} | {' | '.join(rest)} |\n"
        for title, _, dtypes, _ in KERNELS
        for dtype in dtypes
        for versions, *rest in [known.get(f"{title} {dtype}", ["not run"] + [""] * 7)]
    ]
    interpreted = [
        [title, f"{repository} {commit}" if repository else "package", versions, dtype, *rest]
        for title, _, dtypes, _, repository, commit, _ in CHECKOUTS
        for dtype in dtypes
        for versions, *rest in [known.get(f"{title} {dtype}", ["not run"] + [""] * 8)]
    ]
    rows = [[title, *known[title]] for title, *_ in KERNELS if title in known]
    programs = [known[name] for name in DEVIATIONS if name in known]
    ending = f"\nMeasured on {platform.machine()}, Python {platform.python_version()}.\n"
    return (
        f"{HEAD}{''.join(verdicts)}{unequal(known)}{WITHOUT_A_GPU}{table(SOURCES, interpreted)}"
        f"{CONVENTIONS}{table(['kernel', *COLUMNS], rows)}{PROGRAMS}{''.join(programs)}{ending}"
    )


def main(chosen, checkouts=None, limit=None):
    known = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.is_file() else {}

    def keep(name, value):
        known[name] = value
        rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in known.items())
        write_whole(ROWS, f"{{\n{rows}\n}}\n".encode())
        write_whole(PAGE, page(known).encode())

    for title, adapter, dtypes, packages, *source in (*KERNELS, *CHECKOUTS):
        wanted = adapter.startswith(tuple(chosen)) if chosen else not source or bool(checkouts) or not source[0]
        if not wanted or lacking(packages):
            print(title, "left as it was", ", ".join(lacking(packages)), file=sys.stderr)
            continue
        path = folder_of(source[0], source[2], checkouts) if source else ()
        for dtype in dtypes:
            print(title, dtype, file=sys.stderr, flush=True)
            keep(f"{title} {dtype}", judged(adapter, dtype, packages, path, limit if source else None))
        if not source:
            keep(title, followed(adapter))
    for name, packages in DEVIATIONS.items():
        wanted = name.startswith(tuple(chosen)) if chosen else bool(checkouts) or name not in IMPORTED_FROM
        if wanted and not lacking(packages):
            keep(name, program(name, checkouts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("chosen", nargs="*", help="how the adapters' or programs' names begin")
    parser.add_argument("--checkouts", default=os.environ.get("KERNEL_CHECKOUTS"), help="folder of clones")
    parser.add_argument("--limit", type=float, help="seconds of each audit of a kernel that is interpreted")
    arguments = parser.parse_args()
    main(arguments.chosen, arguments.checkouts, arguments.limit)

"""Verdicts on attention kernels that people use: ``python -m benchmarks.real_kernels`` writes docs/kernels_real.md.

What is not installed is left out, visibly. ``python -m benchmarks.real_kernels sdpa flex`` does only those, and keeps
the other rows of the page, which stand beside it as JSON.
"""

import collections
import functools
import importlib.metadata
import importlib.util
import json
import platform
import re
import resource
import subprocess
import sys
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
# With all triples; the others with --quick, which asks the same features in pairs.
WHOLE = ("sdpa.py:math", "sdpa.py:flash", "nested.py", "flex.py", "onnx_attention.py", "onnx_attention.py:multi_head")
# Programs in deviations/, and the packages that they need.
DEVIATIONS = {
    "onnxruntime_multi_head_causal": ONNX,
    "transformers_bfloat16": TRANSFORMERS,
    "torch_nested_bfloat16": TORCH,
    "torch_flash_lse": TORCH,
    "xla_repeated_keys": ("jax",),
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
PROGRAMS = """
## Deviations

Programs that reproduce each deviation without this library: the failures of the first table, one that only the second
table shows, and one in a compiler that made a correct kernel fail. The right numbers in them are computed by hand, in
float64, or operation by operation.
"""


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def judged(adapter, dtype, packages):
    """The cells of one verdict, without the title and the dtype."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    start = cpu_seconds()
    result = run_kernel_audit(str(HERE / adapter), dtype, quick=adapter not in WHOLE, names="first")
    spent, counts = cpu_seconds() - start, result.counts()
    found = {name: [one for one in ids if one != "unknown"] for name, ids in result.diagnosis.items()}
    names = "; ".join(f"{function}: {', '.join(ids)}" for function, ids in found.items() if ids)
    for record in result.checks:
        if record.status in ("failed", "could_not_run"):
            print(f"  {record.id}: {record.status}: {record.reason[:200]}", file=sys.stderr)
    numbers = [str(counts[name]) for name in ("passed", "failed", "inconclusive", "not_applicable")]
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


def program(name):
    """A program, and what it prints."""
    path = HERE / "deviations" / f"{name}.py"
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
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
    rows = [[title, *known[title]] for title, *_ in KERNELS if title in known]
    programs = [known[name] for name in DEVIATIONS if name in known]
    ending = f"\nMeasured on {platform.machine()}, Python {platform.python_version()}.\n"
    return (
        f"{HEAD}{''.join(verdicts)}{unequal(known)}{CONVENTIONS}{table(['kernel', *COLUMNS], rows)}"
        f"{PROGRAMS}{''.join(programs)}{ending}"
    )


def main(chosen):
    known = json.loads(ROWS.read_text(encoding="utf-8")) if ROWS.is_file() else {}

    def keep(name, value):
        known[name] = value
        rows = ",\n".join(f" {json.dumps(name)}: {json.dumps(row)}" for name, row in known.items())
        write_whole(ROWS, f"{{\n{rows}\n}}\n".encode())
        write_whole(PAGE, page(known).encode())

    def lacking(packages):
        return [name for name in packages if importlib.util.find_spec(name) is None]

    for title, adapter, dtypes, packages in KERNELS:
        if (chosen and not adapter.startswith(tuple(chosen))) or lacking(packages):
            print(title, "left as it was", ", ".join(lacking(packages)), file=sys.stderr)
            continue
        for dtype in dtypes:
            print(title, dtype, file=sys.stderr, flush=True)
            keep(f"{title} {dtype}", judged(adapter, dtype, packages))
        keep(title, followed(adapter))
    for name, packages in DEVIATIONS.items():
        if not lacking(packages) and (not chosen or name.startswith(tuple(chosen))):
            keep(name, program(name))


if __name__ == "__main__":
    main(sys.argv[1:])

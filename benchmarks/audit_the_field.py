"""What the audit says of programs that people use: ``python benchmarks/audit_the_field.py --out docs``.

Writes audited_programs.md there, with the versions of what was audited. What is not installed is left out, visibly; the
published programs of SparseGPT and Wanda are read from checkouts named by ``--sparsegpt`` and ``--wanda``. ``--only``
audits some programs and keeps the other rows of the page.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import platform
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from attnprune_verify.audit.functions.run import run_audit  # noqa: E402  # of this checkout, wherever the command is run
from attnprune_verify.files import write_whole  # noqa: E402

FIELD = ROOT / "benchmarks" / "field"
PAGE = "audited_programs.md"


@dataclass(frozen=True)
class Program:
    """A target, the packages it needs, the checkout it is in, the precisions it is audited in ("": none declared)."""

    title: str
    target: str
    packages: tuple[str, ...]
    dtypes: tuple[str, ...]
    functions: tuple[str, ...]
    checkout: str = ""


BOTH = ("", "float32")
PROGRAMS = (
    Program(
        "llm-compressor: SparseGPTModifier",
        "attnprune_verify.audit.adapters.llm_compressor",
        ("llmcompressor", "torch"),
        BOTH,
        ("sparsegpt",),
    ),
    Program(
        "llm-compressor: WandaPruningModifier",
        "attnprune_verify.audit.adapters.llm_compressor",
        ("llmcompressor", "torch"),
        BOTH,
        ("wanda",),
    ),
    Program(
        "SparseGPT, its authors' program",
        str(FIELD / "original_sparsegpt.py"),
        ("torch", "transformers"),
        BOTH,
        ("sparsegpt",),
        "sparsegpt",
    ),
    Program(
        "SparseGPT in the Wanda program",
        str(FIELD / "original_wanda.py"),
        ("torch", "transformers"),
        BOTH,
        ("sparsegpt",),
        "wanda",
    ),
    Program(
        "Wanda, its authors' class of norms",
        str(FIELD / "original_wanda.py"),
        ("torch", "transformers"),
        ("float32",),
        ("wanda",),
        "wanda",
    ),
    Program(
        "torch.autograd",
        f"{FIELD / 'torch_autodiff.py'}:target",
        ("torch",),
        BOTH,
        ("loss", "gradient", "hessian_vector_product"),
    ),
    Program(
        "jax.value_and_grad, jax_enable_x64",
        f"{FIELD / 'jax_autodiff.py'}:double",
        ("jax",),
        ("",),
        ("loss", "gradient"),
    ),
    Program("jax.value_and_grad, without", f"{FIELD / 'jax_autodiff.py'}:single", ("jax",), BOTH, ("loss", "gradient")),
)
HEAD = """# Programs that people use, audited

Verdicts of `attnprune-verify audit` on them, on a CPU, seed 0; written by
`python benchmarks/audit_the_field.py --out docs`. They are called through
[published adapters](audit.md#published-adapters), which convert layers, sequences and tensors and repair nothing. Where
no precision is declared, a program that computes in float32 fails one check, which names the option to use; everything
else is then judged in float32.

| program | declared | verdict | what fails | checks | functions | CPU s | version |
|---|---|---|---|---|---|---|---|
"""
TAIL = """
The losses that torch and jax differentiate are the literal formula, in `tests/audit/layouts`. The published SparseGPT
times itself with `torch.cuda.synchronize`; without a GPU that call is replaced by one that does nothing, and nothing
else is. Of the published Wanda program the class is audited, with a loop of ours that prunes by its norms: the
program's own loop needs a whole model. What SparseGPT's programs do at rho = 0 (one entry a block) and rho = 1 (an
IndexError) is accepted; the report lists it.
"""


COUNTED = {"passed": "passed", "failed": "failed", "inconclusive": "undecided", "not_applicable": "n/a"}


def cpu_seconds():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def versions(program, checkouts):
    """The packages' versions, and the commit of the checkout."""
    found = [f"{name} {importlib.metadata.version(name)}" for name in program.packages]
    if program.checkout:
        command = ["git", "-C", checkouts[program.checkout], "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found.insert(0, f"commit {done.stdout.strip()}" if done.returncode == 0 else "no commit")
    return ", ".join(found)


def lacking(program, checkouts):
    """Return the missing parts in words."""
    missing = [name for name in program.packages if importlib.util.find_spec(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    return f"no checkout given: --{program.checkout}" if program.checkout and not checkouts[program.checkout] else ""


def row(program, dtype, checkouts):
    """One line of the table; what failed goes to stderr in full."""
    start = cpu_seconds()
    result = run_audit(program.target, only=program.functions, dtype=dtype or None)
    spent, counts = cpu_seconds() - start, result.counts()
    failed = [record for record in result.checks if record.status in ("failed", "could_not_run")]
    for record in failed:
        print(f"  {record.id}: {record.status}: {record.reason[:300]}", file=sys.stderr)
    said = "; ".join(f"`{record.id}`: {', '.join(record.diagnosis) or record.status}" for record in failed)
    checks = ", ".join(f"{counts[name]} {word}" for name, word in COUNTED.items() if counts[name])
    cells = (dtype or "none", result.outcome, said, checks, ", ".join(program.functions), f"{spent:.0f}")
    return f"| {program.title} | {' | '.join(cells)} | {versions(program, checkouts)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs", metavar="FOLDER")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="programs whose title has it")
    parser.add_argument("--sparsegpt", default="", metavar="CHECKOUT")
    parser.add_argument("--wanda", default="", metavar="CHECKOUT")
    options = parser.parse_args()
    checkouts = {"sparsegpt": options.sparsegpt, "wanda": options.wanda}
    os.environ.update({f"ATTNPRUNE_{name.upper()}": str(Path(place).resolve()) for name, place in checkouts.items()})
    page = options.out / PAGE
    known = page.read_text(encoding="utf-8").splitlines() if page.is_file() else []
    rows = {tuple(line.split(" | ")[:2]): line for line in known if line.startswith("| ")}
    for program in PROGRAMS:
        for dtype in program.dtypes:
            key = (f"| {program.title}", dtype or "none")
            if options.only and not any(word in program.title for word in options.only):
                continue
            lack = lacking(program, checkouts)
            print(program.title, dtype, lack, file=sys.stderr, flush=True)
            empty = f"| {program.title} | {dtype or 'none'} | {lack} |" + " |" * 5
            rows[key] = empty if lack else row(program, dtype, checkouts)
            order = [(f"| {one.title}", dtype or "none") for one in PROGRAMS for dtype in one.dtypes]
            table = "\n".join(rows[key] for key in order if key in rows)
            ending = f"\nMeasured on {platform.machine()}, Python {platform.python_version()}.\n"
            write_whole(page, f"{HEAD}{table}\n{TAIL}{ending}".encode())


if __name__ == "__main__":
    main()

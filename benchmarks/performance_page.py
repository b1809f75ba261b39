# ruff: noqa: E501  # a page's sentences are as long as they are
"""The page and the plot of a run of `against_the_limit.py`: what is met, what is not, from the numbers themselves."""

from pathlib import Path
from typing import Any

__all__ = ["write_page"]

TARGETS = {
    (128, 64): (1.4, 2.0), (512, 512): (1.15, 1.25), (2048, 64): (1.6, 1.75), (512, 2048): (1.08, 1.15),
    (4096, 512): (1.12, 1.20),
}  # fmt: skip
PEERS = ("typed in", "autograd", "torch", "torch, closed", "jax", "jax, closed", "numba rows")


def write_page(results: dict[str, Any], folder: Path) -> str:
    """Write performance.md (and performance.png where matplotlib is installed) into the folder; the text."""
    parts = [_head(results), _fused(results["fused"]), _verdicts(results), _rest(results)]
    if "fisher" in results:
        parts.append(_fisher(results["fisher"]))
    worst = max(row["runs"]["Objective"]["wall"] / row["runs"]["Objective"]["cpu"] for row in results["fused"])
    if worst > 1.3:
        parts.insert(
            1,
            f"**The machine was busy during this run** (wall time up to {worst:.1f} times processor time): rows of short calls are too high, and what is missing at larger sizes was not measured. Run it again on an idle machine.\n",
        )
    drawn = _plot(results, folder / "performance.png")
    if drawn:
        parts.append("![Multiples of the limit](performance.png)\n")
    text = "\n".join(parts)
    (folder / "performance.md").write_text(text, encoding="utf-8")
    return text


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(each) + " |" for each in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines) + "\n"


def _head(results: dict[str, Any]) -> str:
    machine = results["machine"]
    return f"""# Performance

Written by `python benchmarks/against_the_limit.py --out docs`, one run, one core, float64, on {machine["processor"]}
with Python {machine["python"]} and NumPy {machine["numpy"]}. The limit of a row is the time of what cannot be avoided when F(1) is
known, each at its own shape and measured in the same run: X (M W), Q X^T, p X, X^T (p X) and one exp an allowed position
(causal: half of the two large products). All runs of a row take turns; a time is the median of the fastest tenth of the
processor times, the spread is the median of all times over that. Machines are shared: only ratios within a run mean
anything. A 1024^3 product ran at {results["gemm_rate"] / 1e9:.0f} Gflop/s, an exp took {results["t_exp"] * 1e9:.2f} ns.
{_blas(results)}
Problems of 10^9 operations and more use as many Python threads as BLAS would (`OPENBLAS_NUM_THREADS` and its relatives),
or `ATTNPRUNE_THREADS`; results are bitwise the same for any number of them. All of this page is one thread.
"""


def _blas(results: dict[str, Any]) -> str:
    """Name the kernels that NumPy multiplies with, and their cost where they are older than the processor."""
    blas = results["machine"].get("blas")
    if blas is None:
        return ""
    text = f"NumPy multiplied by {blas['name']} with its kernels for {blas['kernels']}."
    if "wider_rate" in blas:
        text += f"""
**This processor has AVX-512 and that BLAS does not use it**: with `OPENBLAS_CORETYPE=SkylakeX` in the environment the same
product runs at {blas["wider_rate"] / 1e9:.0f} Gflop/s. Torch and jax bring products of their own; where they are ahead below, what their
products alone take stands beside.
"""
    return text + "\n"


def _fused(rows: list[dict[str, Any]]) -> str:
    names = [name for name in PEERS if any(name in row["multiples"] for row in rows)]
    head = ["n, d", "mask", "limit, ms", "**Objective**", "wall/CPU", "spread", "one call", "F(1) anew", *names]
    head += ["Hessian product, gradients", "extra memory, n x n", "of P's limit"]
    body = []
    for row in rows:
        ours, of = row["runs"]["Objective"], row["multiples"]
        target = TARGETS.get((row["n"], row["d"]), (None, None))[row["mask"] == "causal"]
        cells = [f"{row['n']}, {row['d']}", row["mask"], f"{1e3 * row['limit']:.3g}"]
        cells += [f"**{of['Objective']:.2f}**" + (f" (target {target})" if target else "")]
        cells += [f"{ours['wall'] / ours['cpu']:.2f}", f"{ours['spread']:.2f}"]
        cells += [f"{of['one call']:.2f}", f"{of['F(1) anew']:.2f}"]
        cells += [f"{of[name]:.2f}" if name in of else "-" for name in names]
        cells += [f"{of['Hessian'] / of['Objective']:.2f}", f"{row['memory']:.2f} ({row['memory_anew']:.2f} anew)"]
        body.append([*cells, f"{row['of_model']:.2f}"])
    return f"""## One loss and gradient, in limits

{_table(head, body)}
"F(1) anew" keeps no n x n array at all. "of P's limit": `Objective` over (4 n d^2 + 4 n^2 d h)/P + n^2 h t_exp, P and t_exp as above.
"""


def _verdicts(results: dict[str, Any]) -> str:
    """Each target: met or not, by how much."""
    lines = []
    for row in results["fused"]:
        of, key = row["multiples"], (row["n"], row["d"])
        if key in TARGETS:
            target = TARGETS[key][row["mask"] == "causal"]
            lines.append(_line(f"({key[0]}, {key[1]}) {row['mask']}: limits", of["Objective"], target))
        ahead = {name: of[name] / of["Objective"] for name in PEERS if name in of and of[name] < of["Objective"]}
        for name, share in ahead.items():
            products = of.get(f"{name.partition(',')[0]}, products")
            beside = f"; its full matrix products alone take {products:.2f} limits" if products else ""
            lines.append(
                f"* **not met**: ({key[0]}, {key[1]}) {row['mask']}: {name} takes {share:.2f} of `Objective`{beside}"
            )
        queries = row["runs"]["X (M W)"]["cpu"] / row["limit"]  # F(1) needs them too; "F(1) anew" keeps them
        one_more = of["typed in"] + of["F(1) anew"] - of["Objective"] + queries
        if of["one call"] > one_more:
            lines.append(
                f"* **not met**: ({key[0]}, {key[1]}) {row['mask']}: the one-call function takes {of['one call']:.2f} limits,"
                f" the typed-in formula and one F(1) {one_more:.2f}"
            )
        lines.append(
            _line(
                f"({key[0]}, {key[1]}) {row['mask']}: Hessian product, gradients", of["Hessian"] / of["Objective"], 1.2
            )
        )
        if row["n"] >= 2048:
            lines.append(_line(f"({key[0]}, {key[1]}) {row['mask']}: extra memory, n x n arrays", row["memory"], 0.28))
    batch = {name: run["cpu"] for name, run in results["batch"]["runs"].items()}
    loop = batch["batch"] / batch["typed-in loop"]
    lines.append(_line("Algorithm 1's epoch (16 x 128 x 64, causal) over the loop of the typed-in formula", loop, 0.55))
    own = batch["batch"] / batch["our singles"]
    lines.append(f"* the same over a loop of our own `Objective` of one sample: {own:.2f}")
    return "## Met and not met\n\n" + "\n".join(lines) + "\n"


def _line(what: str, value: float, target: float) -> str:
    return f"* {'met' if value <= target else '**not met**'}: {what} {value:.2f} (target {target})"


def _rest(results: dict[str, Any]) -> str:
    layers = []
    for row in results["layers"]:
        ours = row["runs"]["Objective"]["cpu"]
        size = f"d = {row['d']}, {row['heads']}/{row['kv_heads']} heads of {row['m']}, n = {row['n']}"
        others = ", ".join(
            f"{name} {run['cpu'] / ours:.2f}" for name, run in row["runs"].items() if name != "Objective"
        )
        layers.append(f"* {size}: `Objective` {1e3 * ours:.1f} ms; in these: {others}")
    prune = results["pruning"]
    base = prune["runs"]["SparseGPT"]["cpu"]
    times = ", ".join(f"{name} {run['cpu'] / base:.1f}" for name, run in prune["runs"].items() if name != "SparseGPT")
    size = f"d = {prune['d']}, {prune['heads']}/{prune['kv_heads']} heads of {prune['m']} with RoPE, n = {prune['n']}"
    fits = results["exponents"]
    return f"""## Layers, pruning, growth

Loss and gradients of a causal layer:

{chr(10).join(layers)}

Pruning W_Q and W_K to one half ({size}, {prune["k"]} sequences), in SparseGPT's time ({base:.2f} s): {times}.

Cost grows as n^{fits["n"]["exponent"]:.2f} for n = {fits["n"]["at"][0]} to {fits["n"]["at"][-1]} at d = 64, and as d^{fits["d"]["exponent"]:.2f} for d = {fits["d"]["at"][0]} to {fits["d"]["at"][-1]} at n = 256 (causal; least squares
of the logarithms).
"""


def _fisher(found: dict[str, Any]) -> str:
    size = found["at_size"]
    lines = []
    for row in found["against_exact"]:
        of_Q, of_K = max(row["spectral_errors_Q"]), max(row["spectral_errors_K"])
        met = "met" if max(of_Q, of_K) <= 0.02 else "**not met**"
        lines.append(
            f"* {met}: {row['rows_drawn']} of {row['n'] * row['sequences']} rows at n = {row['n']}, {row['heads']} heads: G_Q within"
            f" {100 * of_Q:.1f} %, G_K within {100 * of_K:.1f} % of the exact sums in the spectral norm (worst head; target 2 %),"
            f" {row['fewer']:.0f} times fewer operations"
        )
    enough, small = size["fewer"] >= 20, size["peak_gib"] <= 3
    return f"""## The Fisher metrics at real size

`python benchmarks/fisher_at_size.py`: d = 2048, 32 query and 8 key heads of 64 with RoPE, causal, sequences: {size["sequences"]}, of
n = {size["n"]}, random weights and tokens, {found["rows"]} rows drawn, {found["sketches"]} projections a row.

* {"met" if enough else "**not met**"}: {size["operations"]:.3g} operations, the exact sums {size["exact_operations"]:.3g}: {size["fewer"]:.0f} times fewer (target 20); {size["cpu_seconds"]:.0f} s of one core
* {"met" if small else "**not met**"}: peak memory of the process {size["peak_gib"]:.2f} GiB (target 3)
* standard errors it reports itself (Frobenius, worst head): G_Q {100 * size["standard_errors"][0]:.1f} %, G_K {100 * size["standard_errors"][1]:.1f} %
{chr(10).join(lines)}
"""


def _plot(results: dict[str, Any], path: Path) -> bool:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return False
    rows = results["fused"]
    names = ["Objective", *(name for name in PEERS if any(name in row["multiples"] for row in rows))]
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for index, name in enumerate(names):
        points = [(at, row["multiples"][name]) for at, row in enumerate(rows) if name in row["multiples"]]
        marker = "D" if index == 0 else "osv^<>P"[index % 7]
        axes.plot(
            *zip(*points, strict=True), marker, label=name, markersize=8 if index == 0 else 5, zorder=3 - bool(index)
        )
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(rows)), [f"{row['n']}, {row['d']}\n{row['mask']}" for row in rows], fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks([1, 1.5, 2, 3, 5, 10, 15], ["1", "1.5", "2", "3", "5", "10", "15"])
    axes.set_ylabel("processor time / limit")
    axes.set_xlabel("n, d and mask")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, ncols=2)
    figure.savefig(path, dpi=120)
    return True

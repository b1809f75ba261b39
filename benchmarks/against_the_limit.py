"""Loss and gradient against the machine's limit and against peers, measured in one run on one core.

``python benchmarks/against_the_limit.py --out DIR`` prints the tables and writes performance.json, performance.png and
performance.md there; ``--sizes 128,64 512,512`` measures those only, ``--budget`` is processor seconds a row, ``--page
FILE.json`` writes page and plot again from a stored run.

The limit of a row is the time of what cannot be avoided when F(1) is known, each at its own shape, in this process::

    X (M W),  Q X^T,  p X,  X^T (p X)  and one exp an allowed position          (causal: half of Q X^T and of p X)

All runs of a row take turns; a run's time is the median of its fastest tenth (machines are shared: whatever else runs
only ever adds), its spread the median of all of its times over that. Times are processor time; wall time stands beside.
Only ratios within one run mean anything.
"""

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

import argparse  # noqa: E402  # after the thread counts
import json  # noqa: E402
import platform  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
import tracemalloc  # noqa: E402
from collections.abc import Callable, Mapping  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
import peers  # noqa: E402
from performance_page import write_page  # noqa: E402

from attnprune_verify.algorithms.layer.prune import prune_layer  # noqa: E402
from attnprune_verify.instance.layer import AttentionLayer  # noqa: E402
from attnprune_verify.instance.rope import RoPE  # noqa: E402
from attnprune_verify.model import Objective, attention, loss_and_gradient  # noqa: E402
from attnprune_verify.model.layer_functions import layer_attention, layer_gradient  # noqa: E402

SIZES = [(128, 64), (512, 512), (2048, 64), (512, 2048), (4096, 512)]
FIT_N, FIT_D = [256, 512, 1024, 2048], [64, 128, 256, 512]
Run = Callable[[], Any]
TURN = 2e-3  # seconds
LIMIT = ("X (M W)", "Q X^T", "p X", "X^T (p X)", "exp")


def race(runs: Mapping[str, Run], budget: float, rounds: int = 3) -> dict[str, dict[str, float]]:
    """Processor time of each run: they take turns until the budget is spent, some rounds at least.

    A short run is called several times in its turn, once before the clock starts: its data are in the cache then, as in
    a descent that calls nothing else.
    """
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    calls = {name: max(1, min(20, int(TURN / max(_once(run), 1e-6)))) for name, run in runs.items()}
    spent, done = 0.0, 0
    while done < rounds or spent < budget:
        for name, run in runs.items():
            if calls[name] > 1:
                run()
            wall, start = time.perf_counter(), time.process_time()
            for _ in range(calls[name]):
                run()
            taken = time.process_time() - start
            times[name].append((taken / calls[name], (time.perf_counter() - wall) / calls[name]))
            spent += taken
        done += 1
    return {name: _summary(of_run) for name, of_run in times.items()}


def _once(run: Run) -> float:
    run()
    start = time.process_time()
    run()
    return time.process_time() - start


def _summary(times: list[tuple[float, float]]) -> dict[str, float]:
    cpu, wall = (sorted(each) for each in zip(*times, strict=True))
    tenth = max(1, len(times) // 10)
    fastest = statistics.median(cpu[:tenth])
    return {
        "cpu": fastest,
        "wall": statistics.median(wall[:tenth]),
        "spread": statistics.median(cpu) / fastest,
        "calls": len(times),
    }


def unavoidable(X: Any, W: Any) -> tuple[dict[str, Run], int]:
    """The pieces of the limit for full attention, and the elements of the piece of exp."""
    n, d = X.shape
    Q, S, G = np.empty((n, d)), np.empty((n, n)), np.empty((d, d))
    p = np.random.default_rng(0).random((n, n))
    block = 0.1 * np.random.default_rng(0).standard_normal((min(n, 64), n))
    out = np.empty_like(block)
    pieces: list[Run] = [
        lambda: np.matmul(X, W, out=Q),
        lambda: np.matmul(Q, X.T, out=S),
        lambda: np.matmul(p, X, out=Q),
        lambda: np.matmul(X.T, Q, out=G),
        lambda: np.exp(block, out=out),
    ]
    return dict(zip(LIMIT, pieces, strict=True)), block.size


def rates() -> tuple[float, float]:
    """P, the rate of a 1024^3 product, and t_exp: what PERFORMANCE.md's limit is made of."""
    square = np.random.default_rng(0).random((1024, 1024))
    block = np.random.default_rng(0).standard_normal((64, 512))
    out = np.empty_like(block)
    taken = race({"gemm": lambda: square @ square, "exp": lambda: [np.exp(block, out=out) for _ in range(50)]}, 2.0)
    return 2 * 1024**3 / taken["gemm"]["cpu"], taken["exp"]["cpu"] / 50 / block.size


def blas() -> dict[str, Any]:
    """Name NumPy's BLAS, the processor its kernels are for, and P where it could use wider vectors than it does."""
    from threadpoolctl import threadpool_info

    found = next(each for each in threadpool_info() if each["user_api"] == "blas")
    told = {"name": f"{found['internal_api']} {found['version']}", "kernels": found.get("architecture", "unknown")}
    info = Path("/proc/cpuinfo")
    if told["kernels"] in ("Haswell", "Zen") and info.is_file() and "avx512f" in info.read_text("utf-8"):
        wider = {**os.environ, "OPENBLAS_CORETYPE": "SkylakeX"}
        command = [sys.executable, __file__, "--rate"]
        asked = subprocess.run(command, env=wider, capture_output=True, check=True, text=True)
        told["wider_rate"] = float(asked.stdout)
    return told


def problem(n: int, d: int) -> tuple[Any, Any, Any]:
    """M, X, W."""
    rng = np.random.default_rng(1)
    X, M = rng.standard_normal((n, d)), rng.random((d, d))
    return M, X, rng.standard_normal((d, d)) / (3 * d)


def fused_row(n: int, d: int, mask: Any, budget: float, P: float, t_exp: float) -> dict[str, Any]:
    """One size, one mask: everything in limits."""
    M, X, W = problem(n, d)
    h, allowed = (0.5, np.tri(n, dtype=bool)) if mask else (1.0, None)
    f, objective = attention(X, W, mask), Objective(X, W, 0.1, mask)
    fresh = Objective(X, W, 0.1, mask, keep_dense=False)
    operator = objective.hessian_operator(M)
    pieces, size = unavoidable(X, M * W)
    runs: dict[str, Run] = {
        **pieces,
        "Objective": lambda: objective.loss_and_gradient(M),
        "F(1) anew": lambda: fresh.loss_and_gradient(M),
        "one call": lambda: loss_and_gradient(M, X, W, 0.1, mask),
        "Hessian": lambda: operator(M),
        "typed in": lambda: peers.typed_in(M, X, W, f, allowed),
        **peers.torch_runs(M, X, W, f, allowed),
        **peers.jax_runs(M, X, W, f, allowed),
        **peers.numba_run(M, X, W, f, allowed),
    }
    if n * n <= 2048 * 2048:
        runs["autograd"] = peers.autograd_run(M, X, W, f, allowed)
    taken = race(runs, budget, 3 if n * n * d < 2**32 else 2)
    seconds = {name: found["cpu"] for name, found in taken.items()}
    limit = seconds[LIMIT[0]] + seconds[LIMIT[3]] + h * (seconds[LIMIT[1]] + seconds[LIMIT[2]])
    limit += h * n * n / size * seconds["exp"]
    model = (4 * n * d * d + 4 * n * n * d * h) / P + n * n * h * t_exp
    return {
        "n": n, "d": d, "mask": mask or "full", "limit": limit, "model_limit": model, "runs": taken,
        "multiples": {name: seconds[name] / limit for name in runs if name not in pieces},
        "of_model": seconds["Objective"] / model, "memory": extra(objective, M, n), "memory_anew": extra(fresh, M, n),
    }  # fmt: skip


def extra(objective: Any, M: Any, n: int) -> float:
    """Memory of a call beyond what is kept between calls, the kept buffers among it, in n x n arrays."""
    objective._rows._spare.clear()
    objective._rooms.clear()
    tracemalloc.start()
    objective.loss_and_gradient(M)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return float(peak / (8 * n * n))


def batch_row(budget: float) -> dict[str, Any]:
    """Algorithm 1's epoch, k = 16, n = 128, d = 64, causal, against one sample after another."""
    k, n, d = 16, 128, 64
    M, _, W = problem(n, d)
    X, allowed = np.random.default_rng(2).standard_normal((k, n, d)), np.tri(n, dtype=bool)
    batch, singles = Objective(X, W, 0.1, "causal"), [Objective(x, W, 0.1, "causal") for x in X]
    dense = attention(X, W, "causal")
    runs = {
        "batch": lambda: batch.loss_and_gradient(M),
        "our singles": lambda: [one.loss_and_gradient(M) for one in singles],
        "typed-in loop": lambda: [peers.typed_in(M, x, W, f, allowed) for x, f in zip(X, dense, strict=True)],
    }
    return {"runs": race(runs, budget)}


def layer_row(d: int, heads: int, kv_heads: int, m: int, n: int, budget: float) -> dict[str, Any]:
    """A causal layer without positions."""
    rng = np.random.default_rng(3)
    W = [rng.standard_normal((d, count * m)) / d**0.5 for count in (heads, kv_heads)]
    M = [rng.random(weight.shape) for weight in W]
    X = rng.standard_normal((n, d))
    layer = AttentionLayer(*W, heads=heads, kv_heads=kv_heads, mask="causal")
    f, objective = layer_attention(layer, X), Objective(layer, X)
    runs = {
        "Objective": lambda: objective.loss_and_gradient(*M),
        "one call": lambda: layer_gradient(layer, *M, X),
        "typed in": peers.typed_in_layer(M, X, W, f, heads, kv_heads, layer.scale),
        **peers.torch_layer_run(M, X, W, f, heads, kv_heads, layer.scale),
    }
    return {"d": d, "heads": heads, "kv_heads": kv_heads, "m": m, "n": n, "runs": race(runs, budget)}


def pruning_row() -> dict[str, Any]:
    """fisher-obs, exact and estimated, against SparseGPT on a layer with RoPE."""
    d, heads, kv_heads, m, n, k = 256, 4, 2, 64, 128, 8
    rng = np.random.default_rng(4)
    W_Q, W_K = (rng.standard_normal((d, count * m)) / d**0.5 for count in (heads, kv_heads))
    layer = AttentionLayer(W_Q, W_K, heads=heads, kv_heads=kv_heads, mask="causal", rope=RoPE(10000.0))
    X = rng.standard_normal((k, n, d))
    runs = {
        "SparseGPT": lambda: prune_layer(layer, X, 0.5, "sparsegpt"),
        "fisher-obs, exact": lambda: prune_layer(layer, X, 0.5),
        "fisher-obs, 512 rows": lambda: prune_layer(layer, X, 0.5, metric_rows=512),
        "output-obs": lambda: prune_layer(layer, X, 0.5, "output-obs"),
    }
    return {"d": d, "heads": heads, "kv_heads": kv_heads, "m": m, "n": n, "k": k, "runs": race(runs, 0.0, 1)}


def exponents(budget: float) -> dict[str, Any]:
    """Slopes of log cost over log n (d = 64) and over log d (n = 256), causal."""
    found = {}
    for letter, sizes in (("n", [(n, 64) for n in FIT_N]), ("d", [(256, d) for d in FIT_D])):
        runs = {}
        for n, d in sizes:
            M, X, W = problem(n, d)
            objective = Objective(X, W, 0.1, "causal")
            runs[f"{n},{d}"] = lambda objective=objective, M=M: objective.loss_and_gradient(M)
        seconds = [each["cpu"] for each in race(runs, budget).values()]
        along = [n if letter == "n" else d for n, d in sizes]
        slope = float(np.polyfit(np.log(along), np.log(seconds), 1)[0])
        found[letter] = {"at": along, "cpu": seconds, "exponent": slope}
    return found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--sizes", nargs="*", default=[f"{n},{d}" for n, d in SIZES])
    parser.add_argument("--budget", type=float, default=8.0, help="processor seconds for each row")
    parser.add_argument("--page", type=Path, help="a stored performance.json: write page and plot from it")
    parser.add_argument("--fisher", type=Path, help="what fisher_at_size.py stored, for the page")
    parser.add_argument("--rate", action="store_true", help="print the rate of a 1024^3 product and nothing else")
    chosen = parser.parse_args()
    if chosen.rate:
        print(rates()[0])
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.page is not None:
        results = json.loads(chosen.page.read_text("utf-8"))
    else:
        results = measure([tuple(map(int, size.split(","))) for size in chosen.sizes], chosen.budget)
    if chosen.fisher is not None:
        results["fisher"] = json.loads(chosen.fisher.read_text("utf-8"))
    (chosen.out / "performance.json").write_text(json.dumps(results) + "\n", encoding="utf-8")
    print(write_page(results, chosen.out))


def measure(sizes: list[Any], budget: float) -> dict[str, Any]:
    """All tables."""
    P, t_exp = rates()
    rows = []
    for n, d in sizes:
        for mask in (None, "causal"):
            rows.append(fused_row(n, d, mask, budget, P, t_exp))
            print(
                n,
                d,
                mask or "full",
                {name: round(value, 2) for name, value in rows[-1]["multiples"].items()},
                flush=True,
            )
    return {
        "machine": {
            "processor": _processor(), "python": platform.python_version(), "numpy": np.__version__, "blas": blas()
        },
        "gemm_rate": P, "t_exp": t_exp, "fused": rows, "batch": batch_row(budget / 2),
        "layers": [layer_row(256, 4, 2, 64, 512, budget / 2), layer_row(512, 8, 2, 64, 1024, budget / 2)],
        "pruning": pruning_row(), "exponents": exponents(budget / 2),
    }  # fmt: skip


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text("utf-8").splitlines() if info.is_file() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()

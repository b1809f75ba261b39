"""Loss and gradient against the machine's limit and against peers, measured in one run on one core.

Run ``python benchmarks/against_the_limit.py``; only ratios within one run mean anything, because machines are shared
and noisy. The limit counts what cannot be avoided when F(1) is known::

    (4 n d^2 + 4 n^2 d h) / P + n^2 h t_exp,      h = 1/2 for the causal mask, else 1

with P the rate of a 1024^3 matrix product and t_exp the time of one exponential, both measured here. Columns: our
`Objective` (F(1) kept), our `gradient` (F(1) computed anew), the formula typed into NumPy, automatic differentiation by
autograd, torch where it is installed; a Hessian-vector product in gradients; and the extra memory of our gradient in
n x n arrays.
"""

from __future__ import annotations

import os

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"

import statistics  # noqa: E402  # after the thread counts
import time  # noqa: E402
import tracemalloc  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from attnprune_verify.model import Objective, attention, loss_and_gradient  # noqa: E402
from attnprune_verify.oracle import autodiff  # noqa: E402
from attnprune_verify.oracle.inputs import fused  # noqa: E402

SIZES = [(128, 64), (512, 512), (2048, 64), (512, 2048), (4096, 512)]


def seconds(run: Callable[[], Any], budget: float) -> float:
    """Median processor time of one call, over as many calls as fit into the budget (three at least)."""
    run()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < 200):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def typed_in(M: Any, X: Any, W: Any, f: Any, allowed: Any) -> Any:
    """The formula as anyone would type it, with F(1) = f known."""
    logits = np.where(allowed, X @ (M * W) @ X.T, -np.inf)
    F = np.exp(logits - logits.max(axis=1, keepdims=True))
    F /= F.sum(axis=1, keepdims=True)
    c = F - f
    p = c * F - (c * F).sum(axis=1, keepdims=True) * F
    return 0.5 * (c**2).sum(), W * (X.T @ p @ X)


def torch_gradient(M: Any, X: Any, W: Any, f: Any, allowed: Any) -> Callable[[], Any] | None:
    """Automatic differentiation by torch, or None where it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    tokens, weight, dense, mask = (torch.from_numpy(np.ascontiguousarray(a)) for a in (X, W, f, allowed))

    def run() -> Any:
        point = torch.from_numpy(M).requires_grad_(True)
        logits = (tokens @ (point * weight) @ tokens.T).masked_fill(~mask, -torch.inf)
        (0.5 * ((torch.softmax(logits, dim=1) - dense) ** 2).sum()).backward()
        return point.grad

    return run


def main() -> None:
    """Measure and print the table."""
    square = np.random.default_rng(0).random((1024, 1024))
    P = 2 * 1024**3 / seconds(lambda: square @ square, 1.0)
    block = np.random.default_rng(0).standard_normal((64, 512))
    out = np.empty_like(block)
    t_exp = seconds(lambda: [np.exp(block, out=out) for _ in range(50)], 0.3) / 50 / block.size
    table = Table("n, d", "mask", "limit ms", "Objective", "gradient", "typed in", "autograd", "torch", "hvp", "memory")
    for n, d in SIZES:
        for mask in (None, "causal"):
            table.add_row(f"{n}, {d}", mask or "full", *row(n, d, mask, P, t_exp))
    Console(width=120).print(f"P = {P / 1e9:.0f} Gflop/s, t_exp = {t_exp * 1e9:.2f} ns; multiples of the limit:", table)


def row(n: int, d: int, mask: Any, P: float, t_exp: float) -> list[str]:
    """One line of the table."""
    h = 0.5 if mask else 1.0
    limit = (4 * n * d * d + 4 * n * n * d * h) / P + n * n * h * t_exp
    rng = np.random.default_rng(1)
    X, M = rng.standard_normal((n, d)), rng.random((d, d))
    W = rng.standard_normal((d, d)) / (3 * d)
    allowed = np.tri(n, dtype=bool) if mask else np.ones((n, n), dtype=bool)
    objective = Objective(X, W, 0.1, mask)
    operator = objective.hessian_operator(M)
    f = attention(X, W, mask)
    runs: list[Callable[[], Any] | None] = [
        lambda: objective.loss_and_gradient(M),
        lambda: loss_and_gradient(M, X, W, 0.1, mask),
        lambda: typed_in(M, X, W, f, allowed),
        (lambda: autodiff.gradient(fused(M, X, W, 0.1, mask))) if n * d <= 2**18 else None,
        torch_gradient(M, X, W, f, allowed),
    ]
    taken = [None if run is None else seconds(run, 0.5) for run in runs]
    product = seconds(lambda: operator(M), 0.5)
    tracemalloc.start()
    objective.loss_and_gradient(M)
    extra = tracemalloc.get_traced_memory()[1] - tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken[0] is not None
    cells = ["-" if t is None else f"{t / limit:.2f}" for t in taken]
    return [f"{limit * 1e3:.2f}", *cells, f"{product / taken[0]:.2f}", f"{extra / (8 * n * n):.2f}"]


if __name__ == "__main__":
    main()

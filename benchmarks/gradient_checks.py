"""The smallest factor 1 + e in a gradient that gradient checkers notice, with their defaults.

``python benchmarks/gradient_checks.py`` (needs the extras torch and jax) prints a table for docs/howto/gradient.md.
"""

from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.test_util import check_grads

import attnprune_verify as apv

jax.config.update("jax_enable_x64", True)
RNG = np.random.default_rng(0)
X, W, M = RNG.standard_normal((6, 4)), RNG.standard_normal((4, 4)), RNG.uniform(0.1, 0.9, (4, 4))


def functions(exp: Any, log: Any, X: Any, W: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The divergence of two attentions with temperature 2, and its gradient, in one library's operations."""

    def attention(masked: Any) -> Any:
        scores = exp(X @ masked @ X.T / 2)
        return scores / scores.sum(-1)[:, None]

    dense = attention(W)
    return (
        lambda M: (dense * log(dense / attention(M * W))).sum(),
        lambda M: W * (X.T @ (attention(M * W) - dense) @ X) / 2,
    )


def by_torch(error: float) -> None:
    loss, slopes = functions(torch.exp, torch.log, torch.tensor(X), torch.tensor(W))

    class Loss(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, M: Any) -> Any:
            context.save_for_backward(M)
            return loss(M)

        @staticmethod
        def backward(context: Any, cotangent: Any) -> Any:
            return cotangent * (1 + error) * slopes(*context.saved_tensors)

    torch.autograd.gradcheck(Loss.apply, torch.tensor(M, requires_grad=True))


def by_jax(error: float) -> None:
    loss, slopes = functions(jnp.exp, jnp.log, jnp.asarray(X), jnp.asarray(W))
    wrapped = jax.custom_vjp(loss)
    wrapped.defvjp(lambda M: (loss(M), M), lambda M, cotangent: (cotangent * (1 + error) * slopes(M),))
    check_grads(wrapped, (jnp.asarray(M),), order=1, modes=["rev"])


def by_ours(error: float) -> None:
    loss, slopes = functions(anp.exp, anp.log, X, W)
    apv.check_gradient(loss, M, gradient=lambda M: (1 + error) * slopes(M)).assert_passed()


def noticed(check: Callable[[float], None], error: float) -> bool:
    try:
        check(error)
    except (AssertionError, RuntimeError):
        return True
    return False


def main() -> None:
    print("| checker, with its defaults | smallest e noticed | largest e not noticed |\n|---|---|---|")
    errors = [part * 10.0**-power for power in range(1, 16) for part in (3, 1)]
    for name, check in (
        ("`torch.autograd.gradcheck`", by_torch),
        ("`jax.test_util.check_grads`", by_jax),
        ("`attnprune_verify.check_gradient`", by_ours),
    ):
        check(0.0)
        least = min(error for error in errors if noticed(check, error))
        print(f"| {name} | {least:.0e} | {max(error for error in errors if not noticed(check, error)):.0e} |")


if __name__ == "__main__":
    main()

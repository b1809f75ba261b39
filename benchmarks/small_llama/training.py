"""Muon on the matrices of the blocks, AdamW on embeddings and norms."""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from small_llama.network import SmallLlama

_ADAM_RATE, _MUON_RATE, _DECAY, _MOMENTUM, _WARM_UP = 3e-3, 0.02, 0.1, 0.95, 50


def train(
    model: SmallLlama,
    stream: NDArray[np.int64],
    *,
    steps: int,
    batch: int,
    seed: int,
    report: Callable[[int, float], None],
) -> None:
    """`steps` steps on `batch` windows each; ``report(step, mean loss since the last report)`` every 100 steps."""
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and not name.startswith("embed")]
    others = [p for name, p in model.named_parameters() if p.dim() == 1 or name.startswith("embed")]
    adam = torch.optim.AdamW(others, lr=_ADAM_RATE, betas=(0.9, 0.95), weight_decay=0.0)
    averages = [torch.zeros_like(p) for p in matrices]
    source = _windows(stream, model.sizes.context, np.random.default_rng(seed))
    since = 0.0
    for step in range(1, steps + 1):
        loss = model.loss(torch.from_numpy(np.stack([next(source) for _ in range(batch)])))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        pace = _pace(step, steps)
        for group in adam.param_groups:
            group["lr"] = _ADAM_RATE * pace
        adam.step()
        for parameter, average in zip(matrices, averages, strict=True):
            _muon_step(parameter, average, _MUON_RATE * pace)
        for parameter in model.parameters():
            parameter.grad = None
        since += loss.item()
        if step % 100 == 0 or step == steps:
            report(step, since / (step % 100 or 100))
            since = 0.0


def _pace(step: int, steps: int) -> float:
    """Up over the first steps, flat to the half, then straight down."""
    down = 1.0 if 2 * step < steps else max(0.02, 2 * (steps - step) / steps)
    return min(1.0, step / _WARM_UP) * down


def _windows(stream: NDArray[np.int64], n: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Epoch after epoch: the stream cut into windows at a random offset, in random order."""
    while True:
        offset = int(rng.integers(n))
        starts = offset + n * np.arange((len(stream) - offset) // n)
        rng.shuffle(starts)
        yield from (stream[start : start + n] for start in starts)


@torch.no_grad()
def _muon_step(parameter: Tensor, average: Tensor, rate: float) -> None:
    """Nesterov momentum, orthogonalised by five steps of a Newton-Schulz iteration."""
    gradient = parameter.grad
    average.lerp_(gradient, 1 - _MOMENTUM)
    direction = gradient.lerp(average, _MOMENTUM)
    tall = direction.shape[0] > direction.shape[1]
    X = direction.T if tall else direction
    X = X / (X.norm() + 1e-7)
    for _ in range(5):
        A = X @ X.T
        X = 3.4445 * X + (2.0315 * A @ A - 4.7750 * A) @ X
    scale = max(1.0, parameter.shape[0] / parameter.shape[1]) ** 0.5
    parameter.mul_(1 - rate * _DECAY).add_(X.T if tall else X, alpha=-rate * scale)

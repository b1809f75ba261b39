"""Peak memory of a problem, estimated before anything is allocated, and the memory budget.

The budget is four fifths of the memory that is available now (of the machine, or of the process's control group), or
the value of the environment variable ``ATTNPRUNE_MEMORY``: bytes, or a number with a unit, such as 6GiB.

Estimates count the arrays a task holds at once, beyond its inputs. They exceed the measured peak, by at most a factor
of four for large problems (``python benchmarks/real_size.py``).
"""

import os
import re
from collections.abc import Callable
from pathlib import Path

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.values import as_choice, as_count

_VARIABLE = "ATTNPRUNE_MEMORY"
_SHARE = 0.8  # chosen: a fifth is left to the rest of the machine
_UNITS = {"": 1, "b": 1, **{f"{p}b": 1000 ** (i + 1) for i, p in enumerate("kmgt")}}
_UNITS |= {f"{p}ib": 1024 ** (i + 1) for i, p in enumerate("kmgt")}
_UNSUSPICIOUS = 64 * 2**20
"""Chosen: below this the budget is not read from the system."""
_CGROUPS = tuple(
    (f"{folder}/{limit}", f"{folder}/{used}", f"{folder}/memory.stat", name)
    for folder, limit, used, name in (
        ("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    )
)


def as_bytes(text: str, name: str = _VARIABLE) -> int:
    """A size in bytes from "6GiB", "500 MB" or "1e9".

    Raises
    ------
    InvalidInstance
        If it is none, or not positive.

    Examples
    --------
    >>> as_bytes("6GiB"), as_bytes("1.5e3")
    (6442450944, 1500)
    """
    match = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([a-z]*)\s*", text.lower())
    try:
        size = int(float(match[1]) * _UNITS[match[2]]) if match else 0
    except (ValueError, KeyError, OverflowError):
        size = 0
    if size < 1:
        raise InvalidInstance(f"{name} must be a size such as 6GiB, 500MB or a number of bytes; got {text!r:.60}")
    return size


def memory_budget() -> int | None:
    """Bytes that one task may take; None if ATTNPRUNE_MEMORY is not set and the system reports no size.

    Raises
    ------
    InvalidInstance
        If ATTNPRUNE_MEMORY is no size.
    """
    stated = os.environ.get(_VARIABLE)
    if stated:
        return as_bytes(stated)
    available = [size for size in (_of_machine(), _of_group()) if size is not None]
    return int(_SHARE * min(available)) if available else None


def estimate_memory(
    task: str,
    *,
    n: int,
    d: int,
    k: int = 1,
    heads: int | None = None,
    kv_heads: int | None = None,
    m: int | None = None,
    keep_dense: bool = True,
    itemsize: int = 8,
) -> int:
    """Bytes that a task takes at its peak, beyond X and the weights themselves.

    Parameters
    ----------
    task : "objective", "check" or "prune"
        Loss and gradient, `run_check`, or `prune_layer`.
    n, d, k : int
        Tokens, features, samples.
    heads, kv_heads, m : int, optional
        Sizes of a layer; without them the problem is that of a fused weight.
    keep_dense : bool
        True if the objective keeps F(1).
    itemsize : int
        Bytes of a number, 4 or 8.

    Raises
    ------
    InvalidInstance
        If the task is unknown or a size is no integer >= 1.

    Examples
    --------
    >>> round(estimate_memory("objective", n=4096, d=512) / 2**20), estimate_memory("objective", n=10**6, d=64) > 10**12
    (214, True)
    """
    sizes = {"n": n, "d": d, "k": k, "heads": heads or 1, "kv_heads": kv_heads or heads or 1, "m": m or d}
    for name, size in sizes.items():
        as_count(name, size, least=1)
    needed = _TASKS[as_choice("task", task, _TASKS)]
    return needed(_TaskSizes(**sizes, layer=heads is not None), keep_dense, itemsize)


class _TaskSizes:
    def __init__(self, *, n: int, d: int, k: int, heads: int, kv_heads: int, m: int, layer: bool) -> None:
        self.n, self.d, self.k, self.layer = n, d, k, layer
        self.square = n * n
        self.attention = k * heads * n * n
        self.rows = k * n * (heads * m if layer else d)
        self.keys = k * n * kv_heads * m if layer else 0
        self.weights = d * (heads + kv_heads) * m if layer else d * d


def _objective(sizes: _TaskSizes, keep_dense: bool, itemsize: int) -> int:
    """Buffers for a block of rows, queries (keys, turned and repeated, and slopes), pruned weights, gradients."""
    buffers = _threads() * min(3 * sizes.attention, 1_200_000 + 3 * sizes.square // 10)
    sides = 7 * sizes.rows + 5 * sizes.keys if sizes.layer else 2 * sizes.rows
    return itemsize * (buffers + sides + 3 * sizes.weights + (sizes.attention if keep_dense else 0))


def _check(sizes: _TaskSizes, keep_dense: bool, itemsize: int) -> int:
    """The oracles differentiate whole n x n matrices, sample by sample, and everything is computed in float64."""
    return 8 * (60 * sizes.attention + 12 * sizes.rows + 20 * sizes.d * sizes.d) + 64 * 2**20


def _prune(sizes: _TaskSizes, keep_dense: bool, itemsize: int) -> int:
    """Bytes for the moments of inputs, the metrics behind them, and an objective without F(1); all in float64."""
    return (
        _objective(sizes, False, 8)
        + 8 * (10 * sizes.square + 4 * sizes.rows + 8 * sizes.weights + 12 * sizes.d * sizes.d)
        + 16 * 2**20
    )


_TASKS: dict[str, Callable[[_TaskSizes, bool, int], int]] = {"objective": _objective, "check": _check, "prune": _prune}


def require_memory(what: str, needed: int, instead: str = "") -> None:
    """Refuse a task that does not fit into the memory budget; the message names both sizes.

    Raises
    ------
    InvalidInstance
        If `needed` bytes are more than the budget.
    """
    if needed <= _UNSUSPICIOUS and _VARIABLE not in os.environ:
        return
    budget = memory_budget()
    if budget is not None and needed > budget:
        hint = f"; {instead}" if instead else ""
        raise InvalidInstance(
            f"{what} must fit into the memory budget of {shown(budget)} ({_VARIABLE} states another);"
            f" about {shown(needed)} are needed{hint}"
        )


def shown(size: int) -> str:
    """Bytes for a reader: 5.2 GiB."""
    number, unit = float(min(size, 2**200)), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if number < 1024:
            break
        number, unit = number / 1024, larger
    return f"{number:.3g} {unit}" if not 1000 <= number < 10**6 else f"{number:.0f} {unit}"


def _threads() -> int:
    stated = os.environ.get("ATTNPRUNE_THREADS", "")
    return int(stated) if stated.isdigit() and int(stated) else 1


def _of_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _of_group() -> int | None:
    for limit, used, table, name in _CGROUPS:
        try:
            free = int(Path(limit).read_text("ascii")) - int(Path(used).read_text("ascii"))
            rows = dict(line.split() for line in Path(table).read_text("ascii").splitlines())
            return max(0, free + int(rows.get(name, 0)))  # file pages that nobody has used lately are given up
        except (OSError, ValueError):
            continue
    return None

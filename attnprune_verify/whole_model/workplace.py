"""DIR.partial, where an unfinished folder is kept: what is done and the hidden states before the next block."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.validate import Array
from attnprune_verify.state.keeper import Keeper


class Workplace:
    """DIR.partial of one request; what is missing or damaged in it is computed anew.

    Parameters
    ----------
    path : path of the folder
    request : what every number depends on

    Raises
    ------
    InvalidInstance
        If the folder belongs to another request, or to somebody else.
    """

    def __init__(self, path: Path, request: Mapping[str, Any]) -> None:
        self.path = path
        self._kept = Keeper(
            path,
            request,
            own=r"(zeros|echoes|present|damping)\.json|(hidden|dense|target)-\d{4,}\.npy|(metrics|block)-\d{4,}\.arrays",
        )

    def begun(self) -> bool:
        """Return True where the folder is there and of this request."""
        return self._kept.is_ours()

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make the folder, or go on in it; one process at a time."""
        with self._kept.claimed():
            try:
                yield
            except InvalidInstance:  # it would be refused again; with no block done, nothing is lost
                if not any(self.path.glob("block-*")):
                    self._kept.clear()
                raise

    def noted(self, what: str) -> Any:
        """Return the "zeros" that maps get, those "present" before, the "echoes" or the "damping", if they are kept."""
        return (self._kept.kept(f"{what}.json") or {}).get(what)

    def note(self, what: str, value: Any) -> None:
        """Write one of them."""
        self._kept.keep(f"{what}.json", {what: value})

    def note_damping(self, index: int, damping: list[float]) -> None:
        """Write what calibration prescribes to the maps of block `index`, beside that of others."""
        self.note("damping", {**(self.noted("damping") or {}), str(index): damping})

    def forget_echoes(self, depth: int) -> None:
        """Delete the echoes, and the states that were computed from them, of a model of `depth` blocks."""
        self._kept.remove("echoes.json")
        for kind in ("hidden", "target"):
            self.drop_states(kind, depth + 1)

    def states(self, kind: str, index: int) -> Array | None:
        """The "hidden" ("dense", "target") states before block `index`, mapped from the disk, if they are there."""
        file = self._kept.intact(_states(kind, index))
        return None if file is None else np.load(file, mmap_mode="r")

    def keep_states(self, kind: str, index: int, windows: Iterable[Array], shape: tuple[int, ...]) -> None:
        """Write the states before block `index` one window at a time."""
        with self._kept.writing(_states(kind, index)) as sink:
            sink.allocate(4 * int(np.prod(shape)))
            layout = {"descr": "<f4", "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(sink, layout)
            for window in windows:
                sink.write(np.ascontiguousarray(window, dtype="<f4").tobytes())

    def drop_states(self, kind: str, count: int) -> None:
        """Delete the states before the first `count` blocks."""
        self._kept.remove(*(_states(kind, index) for index in range(count)))

    def has(self, kind: str, index: int) -> bool:
        """Return True where the "block" or the "metrics" of block `index` are there."""
        told = kind != "block" or str(index) in (self.noted("damping") or {})  # else it is pruned anew, and told
        return told and self._kept.intact(f"{kind}-{index:04d}.arrays") is not None

    def metrics(self, index: int) -> dict[str, Moments] | None:
        """The loss's metrics of the maps of block `index`, if they are there."""
        content = self._kept.arrays(f"metrics-{index:04d}.arrays")
        if content is None:
            return None
        roles = [name for name in content if not name.endswith("_scalars")]
        return {role: Moments(content[role], *content[f"{role}_scalars"].tolist()) for role in roles}

    def keep_metrics(self, index: int, found: dict[str, Moments]) -> None:
        """Write the loss's metrics of block `index`."""
        arrays = {role: moments.H for role, moments in found.items()}
        arrays |= {f"{role}_scalars": np.array(moments[1:]) for role, moments in found.items()}
        self._kept.keep_arrays(f"metrics-{index:04d}.arrays", arrays)

    def block(self, index: int) -> dict[str, NDArray[Any]] | None:
        """The new weights of block `index` by role, as the files will hold them, if they are there."""
        return self._kept.arrays(f"block-{index:04d}.arrays") if self.has("block", index) else None

    def keep_block(self, index: int, stored: dict[str, NDArray[Any]]) -> None:
        """Write the new weights of block `index`; where nothing was calibrated, that nothing is prescribed."""
        if str(index) not in (self.noted("damping") or {}):
            self.note_damping(index, [])
        self._kept.keep_arrays(f"block-{index:04d}.arrays", stored)

    def remove(self) -> None:
        """Delete what was written for this request; what is not of it stays."""
        if self._kept.is_ours():
            with self._kept.claimed():
                self._kept.clear()


def _states(kind: str, index: int) -> str:
    return f"{kind}-{index:04d}.npy"

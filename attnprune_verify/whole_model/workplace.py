"""Where an unfinished folder is kept: DIR.partial, with what is done and the hidden states before the next block."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import alone, dumps, whole_file, write_whole
from attnprune_verify.instance.validate import Array

__all__ = ["Workplace"]


class Workplace:
    """DIR.partial of one request: every file in it is whole, so a killed run leaves nothing half-done to be read.

    Parameters
    ----------
    path : path of the folder
    digest : str
        Of the request.

    Raises
    ------
    InvalidInstance
        If the folder belongs to another request.
    """

    def __init__(self, path: Path, digest: str) -> None:
        self.path, self._digest = path, digest

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make the folder, or go on in it; one process at a time."""
        self.path.mkdir(parents=True, exist_ok=True)
        with alone(self.path / "lock", self.path):
            self._claim()
            try:
                yield
            except InvalidInstance:  # it would be refused again; with no block done, nothing is lost
                if not self.has_block(0):
                    shutil.rmtree(self.path)
                raise

    def _claim(self) -> None:
        owner = self._owner()
        if owner is None:
            write_whole(self.path / "request", self._digest.encode())
        elif owner != self._digest:
            raise InvalidInstance(
                f"{str(self.path)!r} holds the unfinished work of another request; finish that one or remove the folder"
            )

    def remember(self, name: str, document: Any) -> Any:
        """Keep a small document, computed by ``document()`` unless it is there."""
        file = self.path / f"{name}.json"
        if not file.exists():
            write_whole(file, dumps(document()).encode())
        return json.loads(file.read_text(encoding="utf-8"))

    def hidden(self, index: int) -> Array:
        """The hidden states before block `index`, mapped from the disk."""
        states: Array = np.load(self._hidden(index), mmap_mode="r")
        return states

    def has_hidden(self, index: int) -> bool:
        """Whether the hidden states before block `index` are there."""
        return self._hidden(index).exists()

    def keep_hidden(self, index: int, windows: Iterable[Array], shape: tuple[int, ...]) -> None:
        """Write the hidden states before block `index` one window at a time; those before the last one go."""
        part = self._hidden(index).with_suffix(".part")
        target = np.lib.format.open_memmap(part, "w+", np.float32, shape)
        for place, window in zip(target, windows, strict=True):
            place[...] = window
        target.flush()
        del target
        os.replace(part, self._hidden(index))
        if index:
            self._hidden(index - 1).unlink(missing_ok=True)

    def metrics(self, index: int) -> dict[str, Moments] | None:
        """The loss's metrics of the maps of block `index`, if they are there."""
        file = self._metrics(index)
        if not file.exists():
            return None
        with np.load(file) as content:
            roles = [name for name in content.files if not name.endswith("_scalars")]
            return {role: Moments(content[role], *content[f"{role}_scalars"].tolist()) for role in roles}

    def keep_metrics(self, index: int, found: dict[str, Moments]) -> None:
        """Write the loss's metrics of block `index`."""
        arrays = {role: moments.H for role, moments in found.items()}
        arrays |= {f"{role}_scalars": np.array(moments[1:]) for role, moments in found.items()}
        with whole_file(self._metrics(index)) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # no role is called allow_pickle

    def dense_states(self, depth: int) -> list[Path]:
        """Where the dense hidden states lie while the loss's metrics are computed."""
        return [self.path / f"dense-{index:04d}.npy" for index in range(depth + 1)]

    def has_block(self, index: int) -> bool:
        """Whether block `index` is pruned."""
        return self._block(index).exists()

    def keep_block(self, index: int, stored: dict[str, NDArray[Any]]) -> None:
        """The new weights of block `index` by role, as the files will hold them."""
        with whole_file(self._block(index)) as file:
            np.savez(file, **stored)  # type: ignore[arg-type]  # no role is called allow_pickle

    def block(self, index: int) -> dict[str, NDArray[Any]]:
        """The new weights of block `index`, as the files will hold them."""
        with np.load(self._block(index)) as content:
            return {role: content[role] for role in content.files}

    def remove(self) -> None:
        """Nothing is left to be done for this request."""
        if self.path.is_dir() and self._owner() in (None, self._digest):
            shutil.rmtree(self.path)

    def _owner(self) -> str | None:
        """The request that the folder was made for; None where it was left while it was made or removed."""
        request = self.path / "request"
        return request.read_text() if request.exists() else None

    def _hidden(self, index: int) -> Path:
        return self.path / f"hidden-{index:04d}.npy"

    def _metrics(self, index: int) -> Path:
        return self.path / f"metrics-{index:04d}.npz"

    def _block(self, index: int) -> Path:
        return self.path / f"block-{index:04d}.npz"

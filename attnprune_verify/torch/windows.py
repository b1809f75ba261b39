"""Calibration windows from what tokenizers and loaders give; padding is cut off."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from attnprune_verify.errors import InvalidInstance


def windows_of(batches: Any, vocabulary: int, longest: int | None) -> list[Any]:
    """The windows (1, n) of one batch or of an iterable of batches.

    Parameters
    ----------
    batches : (k, n) integer array or tensor, mapping with input_ids and perhaps attention_mask, or an iterable of them
        As a tokenizer, its BatchEncoding or a DataLoader gives them; a list or tuple of tensors is ids and mask.
    vocabulary, longest : int
        Ids are less than the first, windows not longer than the second (None: of any length).

    Raises
    ------
    InvalidInstance
    """
    windows = []
    for batch in _batches(batches):
        for ids in _rows(batch):
            if ids.min() < 0 or ids.max() >= vocabulary or (longest is not None and len(ids) > longest):
                raise InvalidInstance(
                    f"ids must be in 0..{vocabulary - 1}, at most {longest} of them; "
                    f"got {int(ids.min())} to {int(ids.max())}, {len(ids)} of them"
                )
            windows.append(torch.from_numpy(ids.astype(np.int64))[None])
    if not windows:
        raise InvalidInstance("batches must hold at least one window; they hold none")
    return windows


def _batches(batches: Any) -> Iterable[Any]:
    if isinstance(batches, Mapping | np.ndarray | torch.Tensor):
        return [batches]
    if isinstance(batches, str | bytes) or not isinstance(batches, Iterable):
        raise InvalidInstance(f"batches must be token ids, or an iterable of them; got {type(batches).__name__}")
    return batches


def _rows(batch: Any) -> Iterator[Any]:
    """The ids of each window of a batch, without padding."""
    mask: Any = None
    if isinstance(batch, Mapping):
        if "input_ids" not in batch:
            raise InvalidInstance(f"a batch must hold input_ids; got {', '.join(map(str, batch)) or 'nothing'}")
        batch, mask = batch["input_ids"], batch.get("attention_mask")
    elif isinstance(batch, list | tuple) and batch and isinstance(batch[0], torch.Tensor) and batch[0].dim() == 2:
        batch, mask = batch[0], (batch[1] if len(batch) > 1 and batch[1].shape == batch[0].shape else None)
    ids = [_integers(row) for row in batch] if _ragged(batch) else list(_table(batch))
    masks = [None] * len(ids) if mask is None else [_integers(row) for row in mask]
    if len(masks) != len(ids):
        raise InvalidInstance(f"attention_mask must have a row for every window; got {len(masks)} for {len(ids)}")
    for row, kept in zip(ids, masks, strict=True):
        if kept is None:
            yield row
        elif len(cut := _without_padding(row, kept)):
            yield cut


def _ragged(batch: Any) -> bool:
    """Return True where the batch is a list of rows of several lengths."""
    return isinstance(batch, list | tuple) and all(np.ndim(row) == 1 for row in batch) and len(set(map(len, batch))) > 1


def _table(batch: Any) -> Any:
    ids = batch.detach().cpu().numpy() if isinstance(batch, torch.Tensor) else np.asarray(batch)
    if ids.ndim != 2 or ids.size == 0 or ids.dtype.kind not in "iu":
        raise InvalidInstance(f"a batch must be a non-empty (k, n) integer tensor; got {ids.dtype} {ids.shape}")
    return ids


def _integers(row: Any) -> Any:
    found = row.detach().cpu().numpy() if isinstance(row, torch.Tensor) else np.asarray(row)
    if found.ndim != 1 or found.dtype.kind not in "iub":
        raise InvalidInstance(f"a row of a batch must hold integers; got {found.dtype} {found.shape}")
    return found


def _without_padding(row: Any, kept: Any) -> Any:
    """The tokens that are not masked, which must stand side by side."""
    places = np.flatnonzero(kept)
    if kept.shape != row.shape or (len(places) and places[-1] - places[0] + 1 != len(places)):
        raise InvalidInstance("attention_mask must keep one run of a window's tokens; it has holes or another shape")
    return row[places]

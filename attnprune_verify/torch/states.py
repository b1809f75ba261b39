"""States of the dense model between its blocks, on the disk of a workplace."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.torch.passes import Windows, forward
from attnprune_verify.whole_model.workplace import Workplace


class DenseStates:
    """States before every block from block `start` on, on the disk, under the number of the block."""

    kind = "dense"

    def __init__(self, workplace: Workplace, windows: Windows, start: int) -> None:
        self._workplace, self._lengths = workplace, [states.shape[1] for states in windows.states]
        self.keep(start, windows.states)

    def keep(self, index: int, states: Sequence[Any]) -> None:
        """Write the states before block `index`."""
        shape = (sum(self._lengths), states[0].shape[2])
        self._workplace.keep_states(self.kind, index, (one[0].numpy() for one in states), shape)

    def __getitem__(self, index: int) -> list[Any]:
        mapped = self._workplace.states(self.kind, index)
        if mapped is None:
            raise InvalidInstance(f"what is kept must read back as it was written; states {index} do not")
        return [part[None] for part in torch.split(torch.from_numpy(np.array(mapped)), self._lengths)]


class Goals(DenseStates):
    """Outputs of every dense block, for reconstruction; a run that resumes has them from where it was."""

    kind = "target"

    def go_on(self, block: Any, index: int, windows: Windows) -> None:
        """Compute the states after a dense block, unless they are there; those before it are no longer needed."""
        if self._workplace.states(self.kind, index + 1) is None:
            self.keep(index + 1, forward(block, index, replace(windows, states=self[index])))
        self._workplace.drop_states(self.kind, index + 1)

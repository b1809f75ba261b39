"""A modifier of llm-compressor that prunes with this package; needs llmcompressor and the extra `torch`.

::

    from llmcompressor import oneshot
    from attnprune_verify.llm_compressor import AttnPruneModifier

    oneshot(model=model, dataset=batches, recipe=[AttnPruneModifier(pattern="2:4")], pipeline="basic")

The modifier keeps the token ids that calibration sends through the model, and prunes when calibration ends: `prune_`
makes its own passes, block by block behind the pruned blocks before. So it wants the whole model called, which the
pipeline "basic" does; batches without padding, or padding masked, as each window then is cut to what is not masked.
"""

from typing import Any

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.torch import prune_  # first: it says what to install where torch is missing

import torch  # isort: skip
from llmcompressor.modifiers import Modifier  # isort: skip
from pydantic import PrivateAttr  # isort: skip


class AttnPruneModifier(Modifier):  # type: ignore[misc]  # its base has no types
    """Prune every linear map by `attnprune_verify.torch.prune_`.

    Attributes
    ----------
    rho : float, optional
    pattern : str, optional
        "N:M" in place of rho.
    attention, rest : str
        Methods, as in `prune_`.
    seed : int

    Raises
    ------
    InvalidInstance
        When calibration ends, if no call of the whole model was seen, or by `prune_`.
    """

    rho: float | None = None
    pattern: str | None = None
    attention: str = "auto"
    rest: str = "auto"
    seed: int = 0
    requires_calibration_data: bool = True

    _windows: list[Any] = PrivateAttr(default_factory=list)
    _report: dict[str, Any] | None = PrivateAttr(default=None)

    @property
    def report(self) -> dict[str, Any] | None:
        """The report that `prune_` returned; None before pruning."""
        return self._report

    def on_initialize(self, state: Any, **_: Any) -> bool:
        """Return True: there is nothing to prepare."""
        return True

    def on_calibration_start(self, state: Any, event: Any, **_: Any) -> None:
        """Watch the calls of the model."""
        self._windows.clear()
        self.register_hook(state.model, self._note, "forward_pre", with_kwargs=True)

    def on_calibration_end(self, state: Any, event: Any, **_: Any) -> None:
        """Prune with the windows that were seen."""
        self.remove_hooks()
        windows, self._windows = self._windows, []
        if not windows:
            raise InvalidInstance("calibration must call the whole model (pipeline='basic'); it did not call the model")
        choices: dict[str, Any] = {"pattern": self.pattern, "attention": self.attention, "rest": self.rest}
        self._report = prune_(state.model, windows, self.rho, **choices, seed=self.seed)

    def _note(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs["input_ids"] if "input_ids" in kwargs else args[0]
        mask = kwargs.get("attention_mask")
        for index, window in enumerate(ids.detach().cpu()):
            seen = window if mask is None else window[mask[index].detach().cpu().to(torch.bool)]
            if len(seen) > 1:
                self._windows.append(seen[None])

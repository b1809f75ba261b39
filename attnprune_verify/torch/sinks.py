"""Sinks that calibration windows lack, seen in one short window of a dense decoder (`whole_model.sinks`)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from attnprune_verify.torch.blocks import Decoder
from attnprune_verify.torch.pieces import to_numpy
from attnprune_verify.whole_model import sinks


def sink_lost(decoder: Decoder, ids: Sequence[Any]) -> list[str]:
    """Warn, and return the warning, if the windows lack the decoder's sink."""
    device = next(decoder.model.parameters()).device

    def share(window: NDArray[np.int64]) -> float:
        found = []
        with torch.no_grad():
            states, calls = decoder.calls(torch.from_numpy(window)[None].to(device))
            for block, call in zip(decoder.blocks, calls, strict=True):
                states = call(block, states)
                found.append(to_numpy(states[0]))
        return sinks.first_share(found)

    token, windows = getattr(decoder.model.config, "bos_token_id", None), [window[0].numpy() for window in ids]
    return sinks.sink_lost(token, windows, decoder.vocabulary, share)

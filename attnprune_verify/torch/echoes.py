"""Echoes of calibration windows (`whole_model.echoes`), drawn from any decoder."""

from collections.abc import Sequence

import torch

from attnprune_verify.algorithms.arrays import AnyArray
from attnprune_verify.torch.blocks import Decoder
from attnprune_verify.torch.model_state import widened
from attnprune_verify.torch.passes import Windows, forward
from attnprune_verify.whole_model.echoes import refuse_infinite


def echoes_of(decoder: Decoder, ids: Sequence[AnyArray], count: int, seed: int) -> list[AnyArray]:
    """Draw a number of echoes of the windows (1, n), in turn, while the decoder is dense.

    Every window goes through the blocks once, and through the head for each of its echoes: draws come in turn from one
    generator, and the logits of all windows together may be larger than the model.

    Raises
    ------
    InvalidInstance
        If a prediction is not finite.
    """
    windows = Windows.enter(decoder, ids[:count])
    for index, block in enumerate(decoder.blocks):
        with widened(block):
            windows.states = forward(block, index, windows)
    device = next(decoder.model.parameters()).device
    draw, found = torch.Generator().manual_seed(seed), []
    for number in range(count):
        window = windows.ids[number % len(windows.ids)]
        with torch.no_grad():
            logits = decoder.logits(window.to(device), windows.states[number % len(windows.ids)].to(device))
        rows = logits[:-1, : decoder.vocabulary]
        refuse_infinite(bool(torch.isfinite(rows).all()), number % len(windows.ids))
        chances = rows.softmax(-1).cpu()
        found.append(torch.cat([window[0, :1], torch.multinomial(chances, 1, generator=draw)[:, 0]])[None])
    return found

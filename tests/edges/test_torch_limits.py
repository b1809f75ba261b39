"""Refusals of what prunes torch models, on their edges."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")

from attnprune_verify.errors import InvalidInstance  # noqa: E402  # after the skip
from attnprune_verify.torch import blocks, numpy_network  # noqa: E402
from attnprune_verify.torch.pruning_run import PruningRun  # noqa: E402
from attnprune_verify.torch.windows import windows_of  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402

PLAN = Plan(attention="output-obs", rho=0.5)


def windows(ids: list[int]) -> None:
    windows_of(np.array([ids]), 10, 3)


def budgets(*lengths: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_network, "zeros_by_map", lambda *_: None)
        numpy_network.budget_zeros(SimpleNamespace(depth=0), [torch.ones(1, length) for length in lengths], PLAN)


def layer(*lengths: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        solved = SimpleNamespace(
            layer=SimpleNamespace(W_Q=np.eye(2), W_K=np.eye(2)), mask_Q=np.eye(2), mask_K=np.eye(2)
        )
        patch.setattr(numpy_network, "solve_layer", lambda *_: solved)
        family: Any = SimpleNamespace(block=lambda _: SimpleNamespace(layer=None))
        numpy_network.prune_attention(family, 0, [np.ones((length, 2)) for length in lengths], PLAN)


def logits(difference: float) -> None:
    """A decoder of a block that does nothing, whose logits are its states; those of the model differ so much from 1."""
    states = torch.ones(1, 2, 2)
    decoder: Any = SimpleNamespace(
        blocks=[None], calls=lambda _: (states, [lambda _, given: given]), logits=lambda _, given: given[0]
    )
    given = torch.ones(2, 2)
    given[1, 1] -= difference
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_CLOSE", 0.25)
        blocks._check_logits(decoder, None, given, "a decoder")


def nothing_to_prune(attention: str) -> None:
    plan: Any = SimpleNamespace(attention=attention, rest="dense", budget="matrix", refuse_blocks_beyond=lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnprune_verify.torch.pruning_run._structures", lambda *_: [])
        patch.setattr(PruningRun, "_check", lambda _: None)
        PruningRun(SimpleNamespace(depth=0), plan, None)  # type: ignore[arg-type]


CALLS: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
    "least id": (lambda: windows([0, 1]), lambda: windows([-1, 1])),
    "largest id": (lambda: windows([9, 1]), lambda: windows([10, 1])),
    "longest window": (lambda: windows([1, 2, 3]), lambda: windows([1, 2, 3, 4])),
    "one length with budgets": (lambda: budgets(3, 3), lambda: budgets(3, 4)),
    "one length with a method of the layer": (lambda: layer(3, 3), lambda: layer(3, 4)),
    "distance of the logits": (lambda: logits(0.25), lambda: logits(0.2501)),
    "a plan that prunes nothing": (lambda: nothing_to_prune("dense"), lambda: nothing_to_prune("wanda")),
}


@pytest.mark.parametrize("row", CALLS)
def test_a_call_on_the_edge_is_accepted_and_its_neighbour_refused(row: str) -> None:
    accepted, refused = CALLS[row]
    accepted()
    with pytest.raises(InvalidInstance):
        refused()

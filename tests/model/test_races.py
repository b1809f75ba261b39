"""Several threads at one `Objective`: they meet in the middle of a call, so that a shared buffer is always noticed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from attnprune_verify.model import objective, rows
from attnprune_verify.model.objective import Objective

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((9, 4)), RNG.standard_normal((4, 4))
MASKS = RNG.standard_normal((2, 4, 4))
MEETINGS = [(rows, "softmax_chunk"), (rows, "centre"), (rows, "move_p"), (objective, "logits_of")]


def _together(shared, call, monkeypatch, where):
    """`call` of both masks in two threads that wait for each other after the function `where`."""
    module, name = where
    barrier, step = threading.Barrier(2, timeout=60), getattr(module, name)

    def meet(*arguments):
        result = step(*arguments)
        barrier.wait()
        return result

    alone = [call(shared, M) for M in MASKS]
    monkeypatch.setattr(module, name, meet)
    with ThreadPoolExecutor(2) as pool:
        return alone, list(pool.map(lambda M: call(shared, M), MASKS))


def _gradient(shared, M):
    return shared.loss_and_gradient(M)[1]


def _product(shared, M):
    return shared.hessian_vector_product(M, MASKS[0])


CASES = [(_gradient, where) for where in MEETINGS if where[1] != "centre"]
CASES += [(_product, where) for where in MEETINGS if where[1] != "move_p"]


@pytest.mark.parametrize(("call", "where"), CASES)
def test_threads_share_no_buffer(call, where, monkeypatch):
    alone, together = _together(Objective(X, W, 0.1), call, monkeypatch, where)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("what", ["workspace", "room"])
def test_a_shared_buffer_is_noticed(what, monkeypatch):
    shared = Objective(X, W, 0.1)
    if what == "workspace":
        space = shared._rows._borrow()
        monkeypatch.setattr(rows.Rows, "_borrow", lambda self: space)
    else:
        room = shared._room()
        monkeypatch.setattr(Objective, "_room", lambda self: room)
        monkeypatch.setattr(shared, "_rooms", _Nothing())
    where = (rows, "softmax_chunk") if what == "workspace" else (objective, "logits_of")
    alone, together = _together(shared, _gradient, monkeypatch, where)
    assert any(not np.array_equal(one, other) for one, other in zip(alone, together, strict=True))


class _Nothing(list):
    def append(self, item):
        pass

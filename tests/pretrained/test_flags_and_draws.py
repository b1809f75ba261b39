"""A setting that is false is not one that is absent; a draw takes every place; what is kept comes back in its place."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attnprune_verify.algorithms.matrix.damping import Moments
from attnprune_verify.experiments.beyond import candidates
from attnprune_verify.experiments.documents import draw_sequences
from attnprune_verify.experiments.stored.kind import tuples
from attnprune_verify.pretrained.config import Config
from attnprune_verify.whole_model.workplace import Workplace


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize(("given", "read"), [(True, True), (False, False), (None, None)])
def test_a_flag_that_is_given_is_the_flag(given: bool | None, read: bool | None, default: bool) -> None:
    flag = Config({"bias": given}).flag("bias", default)
    assert flag is (default if read is None else read)


@pytest.mark.parametrize("length", [3, 4, 6])
def test_every_window_of_a_document_can_be_drawn(length: int) -> None:
    """Windows of three tokens of one document: the first, the last and all between; one alone where it is as long."""
    words: Any = SimpleNamespace(
        encode=lambda text, **_: SimpleNamespace(ids=list(range(len(text)))),
        num_special_tokens_to_add=lambda *_: 0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("attnprune_verify.experiments.documents.special_tokens", lambda _: ([], []))
        drawn = draw_sequences(["x" * length], words, 60, 3, np.random.default_rng(0))
    assert {tuple(row) for row in drawn.tolist()} == {(at, at + 1, at + 2) for at in range(length - 2)}


def test_lists_in_a_document_are_tuples_however_deep() -> None:
    assert tuples({"a": [1, {"b": [2, [3]]}], "c": "word"}) == {"a": (1, {"b": (2, (3,))}), "c": "word"}


def test_kept_metrics_come_back_field_by_field() -> None:
    place, files = Workplace.__new__(Workplace), dict[str, Any]()
    place._kept = SimpleNamespace(keep_arrays=files.__setitem__, arrays=files.get)  # type: ignore[assignment]
    before = {"Q": Moments(np.eye(2), 0.25, 7.0, 56), "K": Moments(np.ones((3, 3)), 0.5, 11.0, 88)}
    place.keep_metrics(3, before)
    after = place.metrics(3)
    assert place.metrics(2) is None and after is not None and after.keys() == before.keys()
    for role, moments in before.items():
        assert np.array_equal(after[role].H, moments.H) and after[role][1:] == moments[1:]


def test_a_given_setting_of_the_descent_comes_before_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    problem: Any = SimpleNamespace(X=np.eye(2), W=np.eye(2), cell=SimpleNamespace(scale=1.0))
    monkeypatch.setattr(candidates, "prune_mask_gd", lambda *_, **settings: settings)
    usual: Any = candidates._descend(problem, 0.5)
    for name, other in (("reading", "theorem"), ("mask", None), ("momentum", 0.0)):
        found: Any = candidates._descend(problem, 0.5, **{name: other})
        assert found == usual | {name: other} != usual

"""Losses and divergences against sums written out in high precision, and windows that cover every token once."""

import math

import mpmath
import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.pretrained.likelihood import divergences, log_probabilities, token_losses
from attnprune_verify.pretrained.texts import calibration_windows, cut_windows, draw_windows, read_text


def _exactly(logits):
    with mpmath.workdps(60):
        weights = [mpmath.exp(float(x)) for x in logits]
        return [w / mpmath.fsum(weights) for w in weights]


@pytest.mark.parametrize("apart", [1e-6, 1e-2, 1.0])
def test_losses_and_divergences(apart):
    rng = np.random.default_rng(0)
    first = 5 * rng.normal(size=(2, 3, 7))
    second = first + apart * rng.normal(size=first.shape)
    ids = rng.integers(0, 7, (2, 3))
    losses = token_losses(first, ids)
    distances = divergences(log_probabilities(first), log_probabilities(second))
    assert losses.shape == (2, 2)
    for k in range(2):
        for i in range(3):
            p, q = _exactly(first[k, i]), _exactly(second[k, i])
            with mpmath.workdps(60):
                exact = float(mpmath.fsum(a * mpmath.log(a / b) for a, b in zip(p, q, strict=True)))
            assert math.isclose(distances[k, i], exact, rel_tol=1e-13 / apart)
            if i < 2:
                assert math.isclose(losses[k, i], float(-mpmath.log(p[ids[k, i + 1]])), rel_tol=1e-12)


def test_extreme_logits_stay_finite():
    log_p = log_probabilities(np.array([[[1e4, 0.0, -1e4]]]))
    np.testing.assert_array_equal(log_p, [[[0.0, -1e4, -2e4]]])
    assert divergences(log_p, log_p).item() == 0


class _Letters:
    """A tokenizer of letters with one token before and one after, as an encoder has them."""

    class _Encoding:
        def __init__(self, ids):
            self.ids = ids

    def encode(self, text, add_special_tokens=True):
        ids = [ord(letter) for letter in text]
        return self._Encoding([1, *ids, 2] if add_special_tokens else ids)


def test_windows_cover_every_token_of_every_text_once():
    windows = cut_windows(["abcdefgh", "xy", ""], _Letters(), 4)
    seen = sorted(token for part in windows for window in part for token in window)
    assert [part.shape for part in windows] == [(3, 4), (2, 2)]
    assert seen == sorted([1, 2] * 3 + [ord(letter) for letter in "abcdefghxy"])


def test_calibration_windows():
    stream = np.arange(50)
    few, many = (draw_windows(stream, k, 6, seed=3) for k in (2, 5))
    np.testing.assert_array_equal(few, many[:2])
    assert (np.diff(many, axis=1) == 1).all()
    framed = calibration_windows(["abcdefgh"], _Letters(), 3, 5, 0, framed=True)
    assert framed.shape == (3, 5) and (framed[:, 0] == 1).all() and (framed[:, -1] == 2).all()
    with pytest.raises(InvalidInstance, match="at least n = 60 tokens; they have 50"):
        draw_windows(stream, 1, 60, 0)


def test_unusable_texts(tmp_path):
    for content, message in ((b"", "must not be empty"), (b"\xff\xfe", "must be UTF-8")):
        (tmp_path / "text").write_bytes(content)
        with pytest.raises(InvalidInstance, match=message):
            read_text(tmp_path / "text")
    with pytest.raises(InvalidInstance, match="a text must be a file"):
        read_text(tmp_path)
    with pytest.raises(InvalidInstance, match="must hold tokenizer.json"):
        cut_windows(["text"], None, 4)

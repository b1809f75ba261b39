"""Exact counts, stable ties, and the paper's threshold line as it stands."""

import math

import numpy as np
import pytest

from attnprune_verify.algorithms.rounding import binary_mask, flipped_entries, threshold_mask
from attnprune_verify.errors import InvalidInstance


def by_hand(M: np.ndarray, rho: float) -> np.ndarray:
    order = sorted(range(M.size), key=lambda index: (M.flat[index], index))
    mask = np.ones(M.size)
    mask[order[: math.floor(rho * M.size)]] = 0
    return mask.reshape(M.shape)


MATRICES = {
    "distinct": np.random.default_rng(0).normal(size=(7, 7)),
    "ties": np.random.default_rng(1).integers(0, 3, (8, 8)).astype(float),
    "constant": np.ones((5, 5)),
    "signed zeros": np.array([[0.0, -0.0], [-0.0, 0.0]]),
    "one": np.array([[2.0]]),
    "ten by ten": np.random.default_rng(2).normal(size=(10, 10)),
}


@pytest.mark.parametrize("name", MATRICES)
def test_binary_mask_is_exact_for_every_ratio(name: str) -> None:
    M = MATRICES[name]
    for rho in [*np.linspace(0, 1, 101), *(j / M.size for j in range(M.size + 1)), 1e-300, np.nextafter(1, 0), 0.29]:
        mask = binary_mask(M, rho)
        assert np.count_nonzero(mask == 0) == math.floor(rho * M.size)
        np.testing.assert_array_equal(mask, by_hand(M, rho))


def test_a_decimal_ratio_is_the_float_it_is() -> None:
    M = np.arange(100.0).reshape(10, 10)
    assert [int((binary_mask(M, rho) == 0).sum()) for rho in (0.29, 0.57, 0.58, 0.7, 0.1)] == [28, 56, 57, 70, 10]


def test_ties_go_by_flat_index_in_c_order_whatever_the_memory_layout() -> None:
    M = np.asfortranarray(np.ones((3, 4)))
    np.testing.assert_array_equal(binary_mask(M, 0.5).ravel(), [0] * 6 + [1] * 6)


@pytest.mark.parametrize("dtype,expected", [(np.float32, np.float32), (np.float64, np.float64), (int, np.float64)])
def test_dtype(dtype: type, expected: type) -> None:
    assert binary_mask(np.arange(4, dtype=dtype).reshape(2, 2), 0.5).dtype == expected


def test_the_input_is_not_modified() -> None:
    M = np.random.default_rng(0).normal(size=(5, 5))
    before = M.copy()
    binary_mask(M, 0.5)
    threshold_mask(M, 0.5)
    np.testing.assert_array_equal(M, before)


# The paper's line: one entry too many, the complement, or an index that does not exist.
KEPT = {
    "ascending-0": lambda c: 36 - c - 1,
    "ascending-1": lambda c: 36 - c,
    "descending-0": lambda c: c,
    "descending-1": lambda c: c - 1,
}


@pytest.mark.parametrize("reading", KEPT)
def test_the_threshold_line_without_ties(reading: str) -> None:
    M = np.random.default_rng(0).permutation(36).reshape(6, 6)
    for count in range(37):
        exists = count < 36 if reading.endswith("0") else count > 0
        if exists:
            mask = threshold_mask(M, count / 36, reading)  # type: ignore[arg-type]
            assert mask.sum() == KEPT[reading](count)
        else:
            with pytest.raises(InvalidInstance, match="index must exist"):
                threshold_mask(M, count / 36, reading)  # type: ignore[arg-type]


@pytest.mark.parametrize("reading", KEPT)
def test_the_threshold_line_prunes_everything_when_nothing_was_learned(reading: str) -> None:
    assert not threshold_mask(np.ones((4, 4)), 0.5, reading).any()  # type: ignore[arg-type]
    assert binary_mask(np.ones((4, 4)), 0.5).sum() == 8


def test_flipped_entries() -> None:
    assert flipped_entries([[1, 1], [0, 0]], [[1, 0], [0, 1]]) == 0.5
    with pytest.raises(InvalidInstance):
        flipped_entries([1, 0], [[1, 0]])


@pytest.mark.parametrize("rho", [1.5, -0.1, float("nan"), float("inf"), "half", None, [0.1, 0.2]])
def test_bad_ratio(rho: object) -> None:
    for program in (binary_mask, threshold_mask):
        with pytest.raises(InvalidInstance, match="rho must be"):
            program(np.ones((2, 2)), rho)  # type: ignore[operator]


@pytest.mark.parametrize("M", [[[np.nan]], [], [[1j]], [["a"]], [[1.0], [1.0, 2.0]]])
def test_bad_matrix(M: object) -> None:
    with pytest.raises(InvalidInstance):
        binary_mask(M, 0.5)  # type: ignore[arg-type]


def test_bad_reading() -> None:
    with pytest.raises(InvalidInstance, match="reading must be one of"):
        threshold_mask(np.ones((2, 2)), 0.5, "ascending")  # type: ignore[arg-type]

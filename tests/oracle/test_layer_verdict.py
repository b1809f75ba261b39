"""The four oracles on layers: each mistake in heads, positions and scores is caught by each of them."""

import numpy as np
import pytest

from attnprune_verify.oracle.verdict import judge_gradient
from tests.oracle.layers import MISTAKES, SHAPES, gradients, random_instance


def judged(instance, gradient):
    found = judge_gradient(instance, gradient, rng=np.random.default_rng(0), effort=0.5)
    assert all(verdict.note for verdict in found)
    return {verdict.oracle: verdict.status for verdict in found}


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((np.float64, shape) for shape in range(len(SHAPES))),
        (np.float32, 0),
        *(pytest.param(np.float32, shape, marks=pytest.mark.thorough) for shape in range(1, len(SHAPES))),
    ],
)
def test_every_oracle_passes_a_right_gradient(dtype, shape):
    rng = np.random.default_rng(1)
    for count, style in enumerate(("reversed", "fused")):
        instance = random_instance(rng, shape + count * len(SHAPES), logits=(1.0, 5.0)[count], n=5, dtype=dtype)
        found = judged(instance, gradients(instance, style))
        assert set(found.values()) == {"passed"} or (dtype == np.float32 and "failed" not in found.values()), found


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_oracle_catches(mistake):
    rng = np.random.default_rng(2)
    for extra in (1, 2):  # with biases
        instance = random_instance(rng, MISTAKES[mistake] + extra * len(SHAPES), logits=3.0, n=5)
        if instance.layer.b_Q is None:
            continue
        found = judged(instance, gradients(instance, mistake=mistake))
        assert set(found.values()) == {"failed"}, (mistake, found, instance)


def test_one_wrong_entry_of_the_keys_gradient_is_seen():
    instance = random_instance(np.random.default_rng(3), 2, logits=2.0, n=6)
    right = gradients(instance)
    right[1][0, 0] *= -1
    assert set(judged(instance, right).values()) == {"failed"}

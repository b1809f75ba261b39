"""Calls of a jax function are compiled, and still show what the function keeps from call to call."""

import jax.numpy as jnp
import numpy as np
import pytest

from attnprune_verify.audit.kernel.frameworks import framework_named


def test_a_function_that_changes_with_its_second_call_is_noticed_though_compiled():
    framework, calls = framework_named("jax", "float32"), []

    def steady(q, k, v):
        return q * k * v

    def counting(q, k, v):
        calls.append(None)
        return len(calls) * q * k * v

    def pulled(function):
        inputs = [framework.made(np.full((1, 1, 2, 2), value), "plain") for value in (2.0, 3.0, 5.0, 1.0)]
        return [np.asarray(part) for part in framework.differentiated(function, inputs, {}, [])]

    assert np.array_equal(pulled(steady)[0], np.full((1, 1, 2, 2), 15.0))
    assert all(map(np.array_equal, pulled(steady), pulled(steady)))
    assert len(framework.compiled) == 1  # once for all equal programs
    first, second = pulled(counting), pulled(counting)
    assert all(np.array_equal(2 * one, two) for one, two in zip(first, second, strict=True))


def test_what_a_function_keeps_from_call_to_call_holds_numbers_though_compiled():
    framework, kept, first = framework_named("jax", "float32"), {}, []

    def masked(q, k, v):
        first.append(q)
        mask = kept.setdefault(q.shape, jnp.tril(jnp.ones(q.shape[2:])))
        return q * mask + 0 * (k + v)

    for size in (2, 3, 3):
        right = np.tril(np.ones((size, size)))
        inputs = [framework.made(np.full((1, 1, size, size), value), "plain") for value in (size, 1.0, 1.0, 1.0)]
        assert np.array_equal(framework.called(masked, inputs[:3], {})()[0, 0], size * right)
        assert np.array_equal(framework.differentiated(masked, inputs, {}, [])[0][0, 0], right)
    assert np.array_equal(first[0], np.full((1, 1, 2, 2), 2.0))  # the first call's arrays are no tracers
    assert len(framework.compiled) == 3  # two backward, one forward


def test_a_traced_call_raises_what_the_function_does_and_compiles_nothing():
    framework = framework_named("jax", "float32")
    inputs = [framework.made(np.ones((1, 1, 2, 2)), "plain") for _ in range(4)]

    def refusing(q, k, v, scale=None):
        if scale is not None:
            raise NotImplementedError("a scale")
        return q * k * v

    for _ in range(2):
        assert framework.traced(framework.called(refusing, inputs[:3], {})).shape == (1, 1, 2, 2)
    with pytest.raises(NotImplementedError, match="a scale"):
        framework.traced(framework.called(refusing, inputs[:3], {"scale": 2.0}))
    gradients = framework.traced(lambda: framework.differentiated(refusing, inputs, {}, []))
    assert [part.shape for part in gradients] == [(1, 1, 2, 2)] * 3 and not framework.compiled

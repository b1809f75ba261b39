"""Gradients of a jax function are compiled, and still show what the function keeps from call to call."""

import jax
import jax.numpy as jnp
import numpy as np

from attnprune_verify.audit.kernel.process.frameworks import framework_named


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


def gradient_of_q(framework, function, size=2, **keywords):
    inputs = [framework.made(np.full((1, 1, size, size), value), "plain") for value in (2.0, 3.0, 5.0, 1.0)]
    return np.asarray(framework.differentiated(function, inputs, keywords, [])[0][0, 0])


def test_a_mask_that_a_function_keeps_for_a_shape_holds_numbers_though_compiled():
    framework, kept = framework_named("jax", "float32"), {}

    def masked(q, k, v):
        mask = kept.setdefault(q.shape, jnp.tril(jnp.ones(q.shape[2:])))
        return q * mask + 0 * (k + v)

    for size in (2, 3, 3):
        assert np.array_equal(gradient_of_q(framework, masked, size), np.tril(np.ones((size, size))))
    assert len(framework.compiled) == 2  # one for each size


def test_a_function_that_calls_back_into_python_runs_anew_by_each_call():
    framework = framework_named("jax", "float32")

    def called_back(q, k, v, scale=1.0):
        shape = jax.ShapeDtypeStruct(k.shape, k.dtype)
        return (
            q * jax.pure_callback(lambda one: np.asarray(one * scale, one.dtype), shape, jax.lax.stop_gradient(k))
            + 0 * v
        )

    for scale in (2.0, 7.0):
        assert np.array_equal(gradient_of_q(framework, called_back, scale=scale), np.full((2, 2), 3 * scale))


def test_a_function_whose_shapes_depend_on_numbers_has_gradients():
    framework = framework_named("jax", "float32")

    def chosen(q, k, v):
        return q * k.ravel()[k.ravel() > 0].mean() + 0 * v

    assert np.array_equal(gradient_of_q(framework, chosen), np.full((2, 2), 3.0))

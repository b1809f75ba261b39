"""Limits of the truth: what norms and 16-bit formats excuse, against their definitions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from attnprune_verify.audit.functions.checks.inputs import _variants
from attnprune_verify.audit.functions.layer import truth as layer_truth
from attnprune_verify.audit.functions.layer.sample import make_layer_sample
from attnprune_verify.audit.functions.truth import reference as truth
from attnprune_verify.audit.functions.truth import tolerance
from attnprune_verify.audit.functions.truth.precision import precision_named
from attnprune_verify.audit.functions.truth.samples_for import asked_samples
from attnprune_verify.audit.functions.truth.tolerance import compare, hidden_terms, judge, normwise_factor

U = 2.0**-53


def sample():
    return asked_samples("gradient", 0, "full")[0]


@pytest.mark.parametrize("size", [1.0, 1e3, 1e9])
def test_room_for_programs_that_are_stable_in_norm_only_ends_at_64(size):
    """Four times the worst ratio ||x_i|| ||W|| ||x_j|| / (|x_i| |W| |x_j|), of the dense and the pruned weight.

    One weight is `size` times larger than the others, where the tokens are as much smaller.
    """
    one = sample()
    X, W = np.array(one.X, dtype=float), np.array(one.W, dtype=float)
    X[..., 0] /= size
    W[0, 0] *= size
    made = one.changed(X=X, W=W)
    norms = np.linalg.norm(X, axis=-1)
    longest = norms[..., :, None] * norms[..., None, :]
    entries = [abs(X) @ abs(A) @ np.swapaxes(abs(X), -1, -2) for A in (W, made.M * W)]
    worst = max((longest * np.linalg.norm(A) / entry).max() for A, entry in zip((W, made.M * W), entries, strict=True))
    assert normwise_factor("gradient", made) == pytest.approx(min(4 * max(worst, 1.0), 64.0))
    assert (size < 10) == (4 * worst < 64), "on both sides of the limit"


@pytest.mark.parametrize(("name", "bits"), [("bfloat16", 7), ("float16", 10)])
def test_numbers_between_two_of_a_short_format_go_to_the_nearest_and_halves_to_the_even(name, bits):
    numbers = np.arange(2 ** (bits + 2), 2 ** (bits + 3) + 1) / 2 ** (bits + 2)  # quarters of a unit, from 1 to 2
    assert np.array_equal(precision_named(name).exact(numbers), np.round(numbers * 2**bits) / 2**bits)


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_the_spread_of_a_short_format_is_that_of_float32_as_much_coarser(name):
    """The trusted code runs in float32, which a rounding of the format exceeds by u / 2^-24."""
    one = sample()
    short = replace(one, precision=precision_named(name), memo={})
    plain = replace(one, precision=precision_named("float32"), memo={})
    coarser = short.unit_roundoff / 2.0**-24
    assert coarser > 1000
    found, base = truth.spread("gradient", short), truth.spread("gradient", plain)
    assert found == pytest.approx([coarser * spread for spread in base], rel=1e-9, abs=0) and min(base) > 0


def test_a_loop_over_a_batch_rounds_once_a_position_of_every_sample():
    """Three equal samples have the sizes of one, and three times as many positions to add up."""
    one = asked_samples("gradient", 0, "n>d")[0]
    three = one.changed(X=np.stack([one.X] * 3))
    alone, together = (truth.loop_error("gradient", each, U)[0] for each in (one, three))
    n, more = one.n**2, one.n + one.d + 8
    np.testing.assert_allclose(together, alone * (3 * n + more) / (n + more), rtol=1e-9)


def test_a_result_is_seen_as_coarsely_as_its_coarsest_part():
    one = asked_samples("loss_and_gradient", 0, "full")[0]
    parts = tuple(part.value for part in truth.reference("loss_and_gradient", one))
    each = [
        compare(part, right, noise, one.unit_roundoff, one.n).resolution
        for part, right, noise in zip(
            parts, truth.reference("loss_and_gradient", one), truth.spread("loss_and_gradient", one), strict=True
        )
    ]
    assert min(each) < max(each) == judge("loss_and_gradient", one, parts).resolution


@pytest.mark.parametrize(("sizes", "hidden"), [((1.0, 1.0), None), ((1.0, 0.0), "made up"), ((0.0, 1.0), "made up")])
def test_a_term_shows_where_every_part_shows_it(sizes, hidden, monkeypatch):
    one = asked_samples("loss_and_gradient", 0, "full")[0]
    parts = truth.reference("loss_and_gradient", one)
    made = tuple(size * (1 + np.abs(part.value)) for size, part in zip(sizes, parts, strict=True))
    monkeypatch.setattr(tolerance, "_terms", lambda *_: {"made up": made})
    assert hidden_terms("loss_and_gradient", [one]) == hidden


@pytest.mark.parametrize("wrong", ["dense", "pruned"])
def test_the_bound_of_a_relative_error_holds_the_error_of_either_attention(wrong, monkeypatch):
    """One of both attentions is off by a thousandth everywhere, in the direction that moves the quotient most."""
    one = make_layer_sample("a layer", 0, n=4, d=3, m=2, heads=2)
    off, which = 1e-3, getattr(one, wrong)
    monkeypatch.setattr(
        layer_truth.running_error, "layer_attention_bound", lambda layer, *_: np.full((2, 4, 4), off * (layer is which))
    )
    F, G = (np.array(layer_truth.layer_functions.layer_attention(layer, one.X)) for layer in (one.dense, one.pruned))
    right = ((G - F) ** 2).sum(axis=(1, 2)) / (F**2).sum(axis=(1, 2))
    turned = np.where(G > F, off, -off)
    F, G = (F - turned, G) if wrong == "dense" else (F, G + turned)
    found = ((G - F) ** 2).sum(axis=(1, 2)) / (F**2).sum(axis=(1, 2))
    (bound,) = layer_truth.layer_bounds("layer_relative_error", one, U)
    assert (abs(found - right) <= bound).all() and (bound < 20 * abs(found - right)).all()


@pytest.mark.parametrize("lam", [0.0, 0.25])
def test_a_lam_that_alone_is_changed_is_another(lam):
    """One that a program which keeps the first result would be wrong by a share of it."""
    context = SimpleNamespace(binding=lambda _: SimpleNamespace(takes=lambda _: True))
    variants = {name: made.lam for name, _, made in _variants(context, "gradient", sample().changed(lam=lam))}
    assert variants.pop("lam") >= max(2 * lam, 0.5) and set(variants.values()) == {lam}

"""Whatever makes an instance of another changes what it names, and drops nothing else: each field is looked at."""

import numpy as np
import pytest

from attnprune_verify import check
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.npz import load_instance, save_instance
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.rope import RoPE

RNG = np.random.default_rng(4)
FIELDS = ("X", "W", "W_Q", "W_K", "M", "M_Q", "M_K", "allowed", "mask_kind", "lam", "k", "layer")
BAND = np.tri(5) - np.tri(5, k=-3)


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def layer(**masks):
    """Every option that a layer may have at once, none at its default."""
    options = {"heads": 4, "kv_heads": 2, "scale": 0.3, "rope": RoPE(50.0), "softcap": 4.0, "mask": BAND}
    one = AttentionLayer(normal(3, 8), normal(3, 4), normal(8), normal(4), **options)
    return LayerInstance(one, normal(2, 5, 3), lam=0.25, **masks)


INSTANCES = {
    "fused": Instance(normal(2, 5, 3), normal(3, 3), M=normal(3, 3), mask=BAND, lam=0.25),
    "pair": Instance(normal(5, 3), W_Q=normal(3, 2), W_K=normal(3, 2), mask="causal", lam=0.25),
    "layer": layer(),
    "layer with masks": layer(M_Q=normal(3, 8), M_K=normal(3, 4)),
}


def fields(instance):
    """Return all there is to know of an instance: arrays as numbers, a layer as its own fields."""
    names = [name for name in FIELDS if hasattr(instance, name)]
    found = {name: getattr(instance, name) for name in names if name != "layer"}
    if "layer" in names:
        own = ("W_Q", "W_K", "b_Q", "b_K", "heads", "kv_heads", "scale", "rope", "softcap", "alibi", "mask", "window")
        found |= {f"layer {name}": getattr(instance.layer, name) for name in own}
    return {
        name: np.asarray(value).tolist() if isinstance(value, np.ndarray) else value for name, value in found.items()
    }


def left(one, other, *changed):
    """Compare all fields but those that were to be changed."""
    mine, theirs = fields(one), fields(other)
    assert mine.keys() == theirs.keys() and set(changed) <= mine.keys() and type(one) is type(other)
    assert {name: value for name, value in mine.items() if name not in changed} == {
        name: value for name, value in theirs.items() if name not in changed
    }


@pytest.mark.parametrize("name", INSTANCES)
def test_in_float64_an_instance_is_the_same(name):
    """Without a mask it gets one of ones, which carries the precision."""
    given = INSTANCES[name]
    found = given.in_float64()
    masks = [one for one in ("M", "M_Q", "M_K") if getattr(given, one, 0) is None]
    rounded = ["W"] if name == "pair" else []  # the product of the pair, rounded once less
    left(given, found, *masks, *rounded)
    assert all((getattr(found, one) == 1).all() for one in masks)
    assert found.in_float64() is found or fields(found.in_float64()) == fields(found)


@pytest.mark.parametrize("name", INSTANCES)
def test_at_other_masks_an_instance_is_the_same(name):
    given = INSTANCES[name]
    if isinstance(given, Instance):
        left(given, given.with_M(np.full((3, 3), 0.5, np.float32)), "M")
        rounded = ["W"] if name == "pair" else []
        left(given, given.with_M(np.full((3, 3), 0.5)), "M", *rounded)
    else:
        left(given, given.with_masks(*(np.full(one.shape, 0.5) for one in given.masks_or_ones)), "M_Q", "M_K")


@pytest.mark.parametrize("name", INSTANCES)
def test_the_points_of_a_check_differ_in_masks_alone(name):
    given = INSTANCES[name].in_float64()
    for point in check._points(INSTANCES[name], np.random.default_rng(0)):
        left(given, point.instance, *(one for one in ("M", "M_Q", "M_K") if hasattr(given, one)))


@pytest.mark.parametrize("name", ["fused", "pair"])
def test_a_file_holds_the_whole_instance(name, tmp_path):
    save_instance(tmp_path / "i.npz", INSTANCES[name])
    left(INSTANCES[name], load_instance(tmp_path / "i.npz"))

"""Instance files of layers: what is written is read back, and every breach of a rule is refused in one line."""

import inspect
import json

import numpy as np
import pytest

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import Causal, Window
from attnprune_verify.instance.npz import load_instance, save_instance
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.scores import Softcap
from attnprune_verify.model.layer_functions import layer_gradient
from tests.model.layers import KINDS, LLAMA3, MODIFIED, random_layer, random_masks


@pytest.mark.parametrize("kind", KINDS | MODIFIED)
def test_round_trip(tmp_path, kind):
    layer, X = random_layer(kind)
    M_Q, M_K = random_masks(layer)
    save_instance(tmp_path / "layer.npz", LayerInstance(layer, X, M_Q=M_Q, M_K=M_K, lam=0.3))
    again = load_instance(tmp_path / "layer.npz")
    assert repr(again.layer) == repr(layer) and again.lam == 0.3 and again.layer.rope == layer.rope
    before, after = (
        layer_gradient(layer, M_Q, M_K, X, 0.3),
        layer_gradient(again.layer, again.M_Q, again.M_K, again.X, 0.3),
    )
    assert all((a == b).all() for a, b in zip(before, after, strict=True))


def parts(kind):
    """Return the names of the parameters of a constructor, all of which are attributes as well."""
    return [name for name in inspect.signature(kind).parameters if name != "layer"]


RNG = np.random.default_rng(0)
THREE = RNG.standard_normal((2, 3, 4)).astype(np.float32)
FULL = AttentionLayer(
    *(RNG.standard_normal(shape) for shape in ((4, 8), (4, 4), (8,), (4,))), heads=4, kv_heads=2, scale=0.3, window=2,
    rope=RoPE(50.0, "interleaved", {"rope_type": "linear", "factor": 3.0}), mask="causal", softcap=1.7,
    alibi=[0.5, 0.25, 0.125, 0.1],
)  # fmt: skip
EVERYTHING = {
    "W": Instance(THREE, np.ones((4, 4), np.float32), M=THREE[:, 0].T @ THREE[:, 0], mask=np.eye(3), lam=0.1),
    "pair": Instance(THREE, W_Q=RNG.standard_normal((4, 2)), W_K=np.ones((4, 2)), mask="causal", lam=1e-300),
    "layer": LayerInstance(FULL, THREE, M_Q=np.full((4, 8), 0.7), M_K=np.full((4, 4), 0.6), lam=0.1),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_file_holds_every_part_with_all_its_digits(tmp_path, name):
    """Each parameter of the constructors; lam in float64 beside data in float32."""
    instance = EVERYTHING[name]
    save_instance(tmp_path / "all.npz", instance)
    again = load_instance(tmp_path / "all.npz")
    compared = [(instance, again, part) for part in parts(type(instance))]
    if name == "layer":
        compared += [(instance.layer, again.layer, part) for part in parts(AttentionLayer)]
    for before, after, part in compared:
        left, right = getattr(before, part), getattr(after, part)
        assert type(left) is type(right) and getattr(left, "dtype", None) == getattr(right, "dtype", None), part
        assert np.array_equal(left, right) if isinstance(left, np.ndarray) else left == right, part


def test_the_examples_have_every_part():
    """A new parameter without a value in an example would be written to no file unnoticed."""
    for kind in (Instance, LayerInstance):
        given = [one for one in EVERYTHING.values() if type(one) is kind]
        assert [part for part in parts(kind) if all(getattr(one, part) is None for one in given)] == []
    plain = AttentionLayer(np.ones((4, 4)), np.ones((4, 4)))
    same = [part for part in parts(AttentionLayer) if repr(getattr(FULL, part)) == repr(getattr(plain, part))]
    assert same == ["scores"]  # which no file holds


def test_a_layer_with_scores_is_refused(tmp_path):
    layer = AttentionLayer(np.ones((4, 4)), np.ones((4, 4)), scores=(Softcap(1.0),))
    with pytest.raises(InvalidInstance, match="an instance file holds no scores"):
        save_instance(tmp_path / "layer.npz", LayerInstance(layer, np.ones((2, 4))))
    assert not list(tmp_path.iterdir())


def test_a_composed_mask_of_a_fused_problem_is_written_out(tmp_path):
    save_instance(tmp_path / "near", Instance(np.ones((4, 2)), np.eye(2), mask=Causal() & Window(2)))
    again = load_instance(tmp_path / "near")
    assert again.mask_kind == "given"
    np.testing.assert_array_equal(again.mask, np.tri(4) * np.tri(4, k=1).T)


GOOD = {"X": np.ones((3, 4)), "W_Q": np.ones((4, 6)), "W_K": np.ones((4, 2)), "heads": 3, "kv_heads": 1}
BAD = {
    "layout without theta": ({"rope_layout": "half"}, "rope_layout must come with rope_theta"),
    "layout": ({"rope_theta": 1e4, "rope_layout": "halves"}, "^rope_layout must be half or interleaved; got 'halves'"),
    "theta": ({"rope_theta": 0.5}, r"^rope_theta must be finite and > 1; got 0.5"),
    "kind of scaling": (
        {"rope_theta": 1e4, "rope_scaling": '{"rope_type": "yarn"}'},
        "^rope_type of rope_scaling must be one of",
    ),
    "list as scaling": ({"rope_theta": 1e4, "rope_scaling": "[]"}, r"^rope_scaling must be None or a mapping"),
    "scaling": ({"rope_theta": 1e4, "rope_scaling": "{"}, "rope_scaling must be JSON"),
    "M": ({"M": np.eye(4)}, "a file with heads must hold neither W nor M"),
    "W": ({"W": np.eye(4)}, "a file with heads must hold neither W nor M"),
    "one mask": ({"M_Q": np.ones((4, 6))}, "give both M_Q and M_K, or neither; got only M_Q"),
    "mask shape": ({"M_Q": np.ones((4, 6)), "M_K": np.ones((4, 6))}, "M_K has kv_heads.m = 6"),
    "heads": ({"heads": 2.5}, "heads must be an integer >= 1; got 2.5"),
    "heads list": ({"heads": [3, 3]}, r"heads must be one number; got shape \(2,\)"),
    "groups": ({"kv_heads": 2}, "kv_heads must divide heads"),
    "window": ({"window": 0}, "window must be an integer >= 1; got 0"),
    "softcap": ({"softcap": -1.0}, "softcap must be finite and > 0; got -1.0"),
    "alibi": ({"alibi": [1.0]}, r"alibi must hold one slope per head, shape \(3,\); got \(1,\)"),
    "bias": ({"b_K": np.ones(3)}, "b_K has kv_heads.m = 3"),
    "mask": ({"mask": np.eye(2)}, r"mask must have shape \(n, n\) = \(3, 3\)"),
    "X": ({"X": np.ones((3, 5))}, "X has d = 5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files(tmp_path, case):
    change, message = BAD[case]
    np.savez(tmp_path / "bad.npz", **(GOOD | change))
    with pytest.raises(InvalidInstance, match=message) as error:
        load_instance(tmp_path / "bad.npz")
    assert "\n" not in str(error.value)


def test_what_belongs_to_layers_is_refused_without_heads(tmp_path):
    np.savez(tmp_path / "bad.npz", X=np.ones((2, 2)), W=np.eye(2), window=2)
    with pytest.raises(InvalidInstance, match="a file without heads must hold no layer; .* holds window"):
        load_instance(tmp_path / "bad.npz")


def test_scaling_is_json_as_in_a_config_file(tmp_path):
    np.savez(tmp_path / "a.npz", **GOOD, rope_theta=5e3, rope_scaling=json.dumps(LLAMA3))
    assert load_instance(tmp_path / "a.npz").layer.rope.scaling["factor"] == LLAMA3["factor"]

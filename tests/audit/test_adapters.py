"""Published adapters: a right program in each layout passes, wrong ones still fail; real ones where installed."""

import importlib.util
import inspect
import json
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit import adapters
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance

LAYOUTS = Path(__file__).parent / "layouts"


@pytest.fixture(autouse=True)
def _torch(request):
    if "jax" not in request.node.name:
        pytest.importorskip("torch", reason="these programs need the extra 'torch'")


@pytest.fixture
def layout(tmp_path, monkeypatch):
    """A file of layouts/ as a module, with texts replaced."""

    def load(name, *edits):
        folder = tmp_path / "layouts_edited"
        folder.mkdir(exist_ok=True)
        (folder / "__init__.py").touch()
        for path in LAYOUTS.glob("*.py"):
            text = path.read_text(encoding="utf-8")
            if path.stem == name:
                for old, new in edits:
                    assert old in text, old
                    text = text.replace(old, new)
            (folder / path.name).write_text(text, encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path))
        for module in [one for one in sys.modules if one.startswith("layouts_edited")]:
            del sys.modules[module]
        importlib.invalidate_caches()
        return importlib.import_module(f"layouts_edited.{name}")

    return load


def run_cli(arguments):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return ended.value.code


WRONG = tomllib.loads((LAYOUTS / "wrong.toml").read_text(encoding="utf-8"))


def cases(kind):
    """The right program, and every wrong one of a table with the names that fit it."""
    wrong = [
        pytest.param(
            tuple((edit["old"], edit["new"]) for edit in entry["edits"]),
            ("failed", set(entry["names"]) if "names" in entry else None),
            id=entry["id"],
        )
        for entry in WRONG[kind]
    ]
    assert len(wrong) >= 2
    return pytest.mark.parametrize(("edits", "expected"), [pytest.param((), ("passed", set()), id="right"), *wrong])


def assert_judged(result, expected):
    assert not [c.reason for c in result.checks if c.status in ("could_not_run", "inconclusive")]
    outcome, names = expected
    found = {id for ids in result.diagnosis.values() for id in ids}
    assert result.outcome == outcome and (names is None or found == names)


@cases("sparsegpt")
def test_the_original_layout_of_sparsegpt(layout, edits, expected):
    result = run_audit(adapters.original_sparsegpt(layout("sparsegpt", *edits).SparseGPT), dtype="float32")
    assert_judged(result, expected)
    assert result.target == "original_sparsegpt(layouts_edited.sparsegpt.SparseGPT)"


@pytest.mark.parametrize("id", ["damping", "dead inputs stay"])
def test_the_roundings_of_another_processor_change_no_name(id, layout):
    """Processors differ by about a rounding of the factor; it also decides which of equal scores go."""
    entry = next(entry for entry in WRONG["sparsegpt"] if entry["id"] == id)
    factor = "torch.linalg.cholesky(torch.linalg.inv(H)).T"
    rounded = f"{factor} * (1 + 2**-24 * torch.randn(H.shape, generator=torch.Generator().manual_seed(3)).T)"
    edits = ((edit["old"], edit["new"]) for edit in entry["edits"])
    program = layout("sparsegpt", *edits, (factor, rounded)).SparseGPT
    result = run_audit(adapters.original_sparsegpt(program), dtype="float32")
    assert_judged(result, ("failed", set(entry["names"])))


@cases("norms")
def test_the_original_layout_of_wanda(layout, edits, expected):
    result = run_audit(adapters.original_wanda(layout("wanda", *edits).WrappedGPT), dtype="float32")
    assert_judged(result, expected)


@cases("loop")
def test_a_loop_in_the_layout_of_wanda(layout, edits, expected):
    module = layout("wanda", *edits)
    assert_judged(run_audit(adapters.original_wanda(module.WrappedGPT, module.prune), dtype="float32"), expected)


@cases("torch_loss")
def test_torch_differentiates_a_loss(layout, edits, expected):
    target = adapters.torch_loss(layout("torch_loss", *edits).loss)
    assert_judged(run_audit(target, only=("gradient", "loss:values:*"), dtype="float32"), expected)


def test_the_command_line_puts_an_adapter_around_a_class(layout, tmp_path, capsys):
    """What is named on the command line is judged as what is adapted alive, in a process of its own."""
    wrong = next(entry for entry in WRONG["sparsegpt"] if "names" in entry)
    module = layout("sparsegpt", *((edit["old"], edit["new"]) for edit in wrong["edits"]))
    spec = f"{module.__file__}:SparseGPT"
    asked = ["audit", spec, "--as", "original_sparsegpt", "--dtype", "float32", "--format", "json", "--quiet"]
    assert run_cli(asked) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["target"]["spec"] == f"original_sparsegpt({spec})" and found["target"]["sha256"]
    live = run_audit(adapters.original_sparsegpt(module.SparseGPT), dtype="float32")
    assert [check["status"] for check in found["checks"]] == [check["status"] for check in live.as_dict()["checks"]]
    snippets = [check["evidence"]["snippet"] for check in found["checks"] if check["status"] == "failed"]
    ran = subprocess.run([sys.executable, "-c", snippets[0]], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "expected" in ran.stdout and "adapters.original_sparsegpt(SparseGPT)" in snippets[0]


@pytest.mark.parametrize(
    ("target", "adapter", "said"),
    [
        ("{file}:SparseGPT", "original_sparsgpt", "did you mean original_sparsegpt"),
        ("{file}:nothing", "original_sparsegpt", "nothing"),
        ("{file}", "original_sparsegpt", "must have add_batch and fasterprune"),
    ],
)
def test_an_adapter_that_does_not_fit(layout, capsys, target, adapter, said):
    spec = target.format(file=layout("sparsegpt").__file__)
    assert run_cli(["audit", spec, "--as", adapter]) == 2
    assert said in capsys.readouterr().err
    with pytest.raises(InvalidInstance, match=r"adapters\.original_wanda\(object\)"):
        run_audit(layout("wanda").WrappedGPT, adapter="original_wanda")


def test_a_lower_precision_is_one_finding(layout):
    module = layout("wanda", ("weight = layer.weight.data", "weight = layer.weight.data = layer.weight.data.float()"))
    target = {
        "wanda": adapters.original_wanda(module.WrappedGPT, module.prune),
        "sparsegpt": adapters.original_sparsegpt(layout("sparsegpt").SparseGPT),
    }
    result = run_audit(target)
    (record,) = (check for check in result.checks if check.status == "failed")
    assert record.id == "wanda:precision" and "--dtype float32" in record.reason
    assert run_audit(target, dtype="float32").outcome == "passed"


def test_second_order(layout):
    target = adapters.torch_loss(layout("torch_loss").loss, second_order=True)
    assert run_audit(target, only=("hessian_vector_product:values:*",)).outcome == "passed"
    stopped = layout("torch_loss", ("attention(X, M * W, mask) -", "attention(X, M * W, mask).detach() +"))
    target = adapters.torch_loss(stopped.loss, second_order=True)
    assert run_audit(target, only=("hessian_vector_product:values:full",)).outcome == "failed"


def test_functions_of_tensors(layout):
    right = adapters.torch_functions(layout("torch_loss"))
    assert run_audit(right, only=("attention:values:*",)).outcome == "passed"
    wrong = adapters.torch_functions(layout("torch_loss", ("softmax(-1)", "softmax(-2)")))
    result = run_audit(wrong, only=("attention:values:full",))
    assert result.diagnosis == {"attention": ("wrong-softmax-axis",)}


def test_names_in_another_order(layout):
    loss = layout("torch_loss").loss
    target = adapters.torch_loss(lambda tokens, weight, pruning: loss(pruning, tokens, weight), wrt="pruning")
    result = run_audit(target, only=("gradient:calling", "gradient:values:full"))
    assert result.diagnosis == {"gradient": ("argument-order",)}


def test_what_cannot_be_adapted_is_refused():
    with pytest.raises(InvalidInstance, match="wrt must name"):
        adapters.torch_loss(lambda X, W: 0)
    with pytest.raises(InvalidInstance, match="second_order needs"):
        adapters.torch_loss(lambda a, b: 0, wrt="a", second_order=True)
    with pytest.raises(InvalidInstance, match="at least one of"):
        adapters.torch_functions({"weights": sum})
    with pytest.raises(InvalidInstance, match="add_batch and fasterprune"):
        adapters.original_sparsegpt(object)
    with pytest.raises(InvalidInstance, match="must have add_batch"):
        adapters.original_wanda(object)


def test_an_option_that_is_missing_is_not_asked_for(layout):
    edits = ("blocksize=128, percdamp=0.01", "blocksize=128"), ("percdamp * H", "0.01 * H")
    subject = adapters.original_sparsegpt(layout("sparsegpt", *edits).SparseGPT)
    assert list(inspect.signature(subject).parameters)[3:] == ["prune_n", "prune_m", "blocksize"]
    result = run_audit(subject, dtype="float32")
    (record,) = (check for check in result.checks if check.name == "options" and check.function == "sparsegpt")
    assert record.status == "not_applicable" and result.outcome == "passed"


def test_from_a_file_of_three_lines(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(
        f"import sys; sys.path.insert(0, {str(LAYOUTS)!r})\nfrom wanda import WrappedGPT\n"
        "from attnprune_verify.audit import adapters\nwanda = adapters.original_wanda(WrappedGPT)\n",
        encoding="utf-8",
    )
    assert run_audit(str(path), dtype="float32").outcome == "passed"


@pytest.fixture
def pipeline(monkeypatch):
    """llm-compressor's State and logger, where it is not installed: all that the adapter needs beside a modifier."""
    if importlib.util.find_spec("llmcompressor") is None:
        modules = {name: types.ModuleType(name) for name in ("llmcompressor", "llmcompressor.core", "loguru")}
        modules["llmcompressor.core"].State = types.SimpleNamespace
        modules["loguru"].logger = types.SimpleNamespace(disable=lambda _: None, enable=lambda _: None)
        for name, module in modules.items():
            monkeypatch.setitem(sys.modules, name, module)


@cases("modifiers")
def test_the_layout_of_llm_compressor(layout, pipeline, edits, expected):
    module = layout("modifiers", *edits)
    sparsegpt = adapters.llm_compressor_sparsegpt(module.SparseGPTModifier)
    wanda = adapters.llm_compressor_wanda(module.WandaPruningModifier)
    assert_judged(run_audit({"sparsegpt": sparsegpt, "wanda": wanda}, dtype="float32"), expected)


def test_llm_compressor_itself():
    pytest.importorskip("llmcompressor", reason="the real modifiers need llmcompressor")
    place = "attnprune_verify.audit.adapters.llm_compressor"
    result = run_audit(place, dtype="float32")
    assert result.outcome == "passed" and result.version.startswith("llmcompressor ")
    assert result.counts()["passed"] >= 24
    alone = run_audit(place)
    assert [check.id for check in alone.checks if check.status == "failed"] == ["wanda:precision"]


@pytest.mark.parametrize("kind", ["sparsegpt", "wanda"])
def test_the_adapter_does_what_a_pipeline_of_llm_compressor_does(kind):
    """One map of a small model, pruned by `oneshot` and through the adapter with the inputs that the map saw."""
    llmcompressor = pytest.importorskip("llmcompressor", reason="the real modifiers need llmcompressor")
    import torch
    import transformers
    from llmcompressor.modifiers.pruning import SparseGPTModifier, WandaPruningModifier

    from tests.whole_model.small import MODEL

    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    layer, seen = model.model.layers[1].self_attn.q_proj, []
    windows = torch.from_numpy(np.random.default_rng(0).integers(1, 1000, (4, 40)))
    handle = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    with torch.no_grad():
        for window in windows:
            model(window[None])
    handle.remove()
    before = layer.weight.detach().numpy().copy()
    modifier = {"sparsegpt": SparseGPTModifier, "wanda": WandaPruningModifier}[kind]
    recipe = [modifier(sparsity=0.5, mask_structure="0:0", targets=["re:.*layers.1.self_attn.q_proj"])]
    batches = torch.utils.data.DataLoader([{"input_ids": window} for window in windows], batch_size=1)
    llmcompressor.oneshot(model=model, dataset=batches, recipe=recipe, pipeline="basic")
    adapted = getattr(adapters, f"llm_compressor_{kind}")()(before, torch.cat(seen).numpy(), 0.5)
    np.testing.assert_array_equal(adapted.numpy() == 0, layer.weight.detach().numpy() == 0)
    np.testing.assert_allclose(adapted.numpy(), layer.weight.detach().numpy(), rtol=1e-4, atol=1e-6)
    assert 0.45 < float((adapted == 0).float().mean()) < 0.55


@pytest.fixture
def in_jax(tmp_path):
    """A target as a file: jax stays out of the process of the tests, whose forks it complains about."""
    if importlib.util.find_spec("jax") is None:
        pytest.skip("this program needs the extra 'jax'")

    def write(made, *edits):
        text = (LAYOUTS / "jax_loss.py").read_text(encoding="utf-8")
        for old, new in edits:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / "subject.py"
        made = f"from attnprune_verify.audit import adapters\n\ntarget = adapters.{made}\n"
        path.write_text(f"{text}\n\nimport sys\n{made}", encoding="utf-8")
        return f"{path}:target"

    return write


SOME = ("gradient:calling", "gradient:precision", "gradient:values:full", "gradient:values:causal")


def test_jax_differentiates_a_loss(in_jax):
    assert run_audit(in_jax("jax_loss(loss, x64=True)"), only=SOME).outcome == "passed"
    single = in_jax("jax_loss(loss, x64=False)")
    assert run_audit(single, only=SOME, dtype="float32").outcome == "passed"
    (record,) = (check for check in run_audit(single, only=SOME).checks if check.status == "failed")
    assert record.diagnosis == ("low-precision",) and "jax_enable_x64" in record.reason


WRONG_IN_JAX = {
    "leaks": (("-jnp.inf", "-2.0"), "float32"),
    "gradient of the dense part only": (
        ("attention(X, M * W, mask) -", "jax.lax.stop_gradient(attention(X, M * W, mask)) -"),
        "float64",
    ),
}


@pytest.mark.parametrize("case", WRONG_IN_JAX)
def test_jax_losses_that_are_wrong(in_jax, case):
    edit, dtype = WRONG_IN_JAX[case]
    target = in_jax(f"jax_loss(loss, x64={dtype == 'float64'})", edit)
    assert run_audit(target, only=SOME, dtype=dtype).outcome == "failed"


def test_jax_functions(in_jax):
    target = in_jax("jax_functions(sys.modules[__name__], x64=True)")
    some = ("attention:values:full", "attention:values:causal")
    assert run_audit(target, only=some).outcome == "passed"


@pytest.mark.parametrize("x64", [True, False])
def test_the_setting_of_jax_stays_as_it_was(in_jax, x64):
    place = in_jax(f"jax_loss(loss, x64={x64})").removesuffix(":target")
    program = (
        f"import runpy, jax, numpy as np; jax.config.update('jax_enable_x64', {not x64})\n"
        f"target = runpy.run_path({place!r})['target']\n"
        "value = target.gradient(np.ones((2, 2)), np.ones((3, 2)), np.ones((2, 2)))\n"
        "print(value.dtype, jax.config.jax_enable_x64)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["float64" if x64 else "float32", str(not x64)]

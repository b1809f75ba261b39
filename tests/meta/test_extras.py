"""Where an extra is missing, it is said in one way, whatever was asked for."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

import attnprune_verify as apv
from attnprune_verify import extras
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.layer import run as layer
from attnprune_verify.experiments.perplexity import run as perplexity
from attnprune_verify.pretrained.texts import calibration_windows

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "tests" / "data" / "small_llama"
TEXT = MODEL / "texts" / "held_out.txt"
IMPORTS_NOTHING = {"notebooks", "docs", "test", "dev"}


def says(extra):
    return re.compile(rf"\S needs the extra `{extra}`: pip install 'attnprune-verify\[{extra}\]'")


def without(monkeypatch, extra):
    """As where an extra is not installed: nothing of it can be imported, and nothing was made with it before."""
    for kept in (*vars(layer).values(), *vars(perplexity).values()):
        if hasattr(kept, "cache_clear"):
            kept.cache_clear()
    for module in extras.MODULES[extra]:
        monkeypatch.setitem(sys.modules, module, None)


def imported_anew(monkeypatch, name):
    monkeypatch.delitem(sys.modules, name, raising=False)
    return importlib.import_module(name)


def test_every_extra_is_one_of_the_package():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert set(extras.MODULES) == set(declared) - IMPORTS_NOTHING
    for extra, modules in extras.MODULES.items():
        wanted = " ".join(declared[extra])
        assert all(module in wanted for module in modules), extra


def test_no_other_place_says_what_to_install():
    said = [
        path.name
        for path in (ROOT / "attnprune_verify").rglob("*.py")
        if "pip install" in path.read_text("utf-8") and path.name != "extras.py"
    ]
    assert said == []


@pytest.mark.parametrize(
    ("extra", "ask"),
    [
        ("plot", lambda patch: apv.draw_figure2(apv.SyntheticPlan(), "shared")),
        ("plot", lambda patch: apv.draw_damage(None, "rho")),
        ("plot", lambda patch: apv.draw_layers(None, 8)),
        ("real", lambda patch: apv.load_pretrained(MODEL)),
        ("real", lambda patch: calibration_windows(["some words"], None, 1, 2, 0, framed=False)),
        ("parallel", lambda patch: apv.run_campaign("fix:lip_f", 5, scheduler="tcp://127.0.0.1:1")),
        ("torch", lambda patch: imported_anew(patch, "attnprune_verify.torch")),
        ("torch", lambda patch: imported_anew(patch, "attnprune_verify.llm_compressor")),
    ],
    ids=["figure2", "damage", "layers", "model", "text", "scheduler", "torch", "llm_compressor"],
)
def test_functions_raise_it(monkeypatch, extra, ask):
    without(monkeypatch, extra)
    monkeypatch.delitem(sys.modules, "attnprune_verify.torch", raising=False)
    with pytest.raises(InvalidInstance) as caught:
        ask(monkeypatch)
    assert says(extra).search(str(caught.value)) and isinstance(caught.value, ImportError)


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ("plot", ["plot", "taylor", "--out", "it.png"]),
        ("real", ["check", str(MODEL), "--layer", "0", "--text", str(TEXT)]),
        ("real", ["prune-model", str(MODEL), "--out", "out", "--rho", "0.5", "--calibration", str(TEXT)]),
        ("real", ["experiment", "layer", str(MODEL), "--out", "out"]),
        ("real", ["experiment", "perplexity", str(MODEL), "--out", "out"]),
        ("parallel", ["campaign", "fix:lip_f", "--instances", "5", "--scheduler", "tcp://127.0.0.1:1"]),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value[:2])[:20],
)
def test_commands_end_with_it(monkeypatch, tmp_path, capsys, extra, words):
    monkeypatch.chdir(tmp_path)
    without(monkeypatch, extra)
    with pytest.raises(SystemExit) as end:
        main(words)
    error = capsys.readouterr().err
    assert end.value.code == 2 and says(extra).search(error) and error.count("\n") == 1
    assert not list(tmp_path.rglob("*.*"))


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_a_kernel_whose_framework_is_missing(tmp_path, monkeypatch, capsys, framework):
    (tmp_path / f"{framework}.py").write_text("raise ModuleNotFoundError(name=__name__)")  # found before any other
    kernel = tmp_path / "kernel.py"
    kernel.write_text(f"FRAMEWORK = {framework!r}\n\ndef attention(q, k, v, *, causal=False):\n    return q\n")
    with pytest.raises(SystemExit) as end:
        main(["audit-kernel", str(kernel)])
    assert end.value.code == 2 and says(framework).search(capsys.readouterr().err)


def test_what_an_installed_package_lacks_itself_is_not_blamed_on_the_extra(monkeypatch, tmp_path):
    (tmp_path / "matplotlib.py").write_text("import something_that_is_nowhere")
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError, match="something_that_is_nowhere") as caught:
        extras.need("drawing", "plot")
    assert not isinstance(caught.value, InvalidInstance)

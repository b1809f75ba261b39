"""Importing the package is cheap, and the front door opens on every name it lists."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import attnprune_verify
from attnprune_verify.audit.contract import FUNCTIONS

FORBIDDEN = ["autograd", "mpmath", "hypothesis", "pytest", "matplotlib", "flint", "rich", "torch", "jax", "scipy"]


def loaded_after(code):
    program = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(result.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import attnprune_verify",
        "import attnprune_verify as apv, numpy as np; apv.gradient(np.eye(2), np.eye(2), np.eye(2))",
        "import attnprune_verify as apv; apv.binary_mask([[1.0, 2.0]], 0.5)",
        "import attnprune_verify as apv; apv.prune_layer, apv.prune_model",
    ],
)
def test_light(code):
    assert not loaded_after(code) & set(FORBIDDEN)


def test_the_pytest_plugin_and_the_hypothesis_hook_are_light():
    heavy = {"numpy", "scipy", "flint", "mpmath", "autograd", "rich", "matplotlib"}
    assert not loaded_after("import attnprune_verify.spec.plugin") & heavy


def test_the_program_takes_one_blas_thread_unless_told_otherwise():
    """The program sets the thread count itself, so it must do so before NumPy is loaded."""
    code = (
        "import os, sys; os.environ.pop('OPENBLAS_NUM_THREADS', None)\n"
        "from attnprune_verify.cli import main; assert 'numpy' not in sys.modules\n"
        "main._run = lambda _: print(os.environ['OPENBLAS_NUM_THREADS']); main.main()"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "1\n"


@pytest.mark.parametrize("name", attnprune_verify.__all__)
def test_every_listed_name_opens(name):
    assert getattr(attnprune_verify, name) is not None
    assert name in dir(attnprune_verify)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'gradiant'"):
        attnprune_verify.gradiant  # noqa: B018  # the access is the test


def test_only_public_names_are_shown():
    assert dir(attnprune_verify) == sorted(attnprune_verify.__all__)
    assert all(name == "__version__" or not name.startswith("_") for name in dir(attnprune_verify))


def test_type_checkers_see_the_same_names():
    """What Python's own parser finds in the stub is what the door opens on."""
    stub = ast.parse(Path(attnprune_verify.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    names = []
    for node in (node for node in stub.body if isinstance(node, ast.ImportFrom)):
        module = importlib.import_module(node.module)
        exported = [name for name, value in vars(module).items() if callable(value)]
        names += exported if node.names[0].name == "*" else [alias.asname for alias in node.names]
        assert all(getattr(attnprune_verify, name) is getattr(module, name) for name in names[-len(node.names) :])
    assert sorted(attnprune_verify.__all__) == sorted(["__version__", *names])


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, "layer_loss", "layer_gradient"} & {*attnprune_verify.__all__}))
def test_a_docstring_stands_by_itself(name):
    """`help(gradient)` is read without the page of `loss`: every argument is in it, and nothing is said elsewhere."""
    thing = getattr(attnprune_verify, name)
    text = inspect.getdoc(thing)
    missing = [one for one in inspect.signature(thing).parameters if not re.search(rf"\b{one}\b", text)]
    assert not missing and not re.search(r"\b[Aa]s (in )?`\w+`\.$|errors: as", text, re.MULTILINE)

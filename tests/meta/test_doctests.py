"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import attnprune_verify

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(attnprune_verify.__path__, "attnprune_verify.")
    if not module.name.endswith("__main__") and ".spec." not in module.name
)


def test_modules_were_found():
    assert len(MODULES) > 20


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("attnprune_verify"):
            raise
        pytest.skip(f"needs the optional package {missing.name}")
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_public_functions_of_the_front_door_have_an_example():
    without = [
        name
        for name in attnprune_verify.__all__
        if name != "__version__" and ">>>" not in (getattr(attnprune_verify, name).__doc__ or "")
    ]
    assert not without

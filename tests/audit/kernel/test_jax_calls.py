"""The tests of jax_calls.py in a process of their own: jax complains of the forks of others."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
def test_gradients_of_jax_functions_are_compiled_and_show_what_is_kept():
    tests = Path(__file__).with_name("jax_calls.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(tests)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "4 passed" in done.stdout, done.stdout

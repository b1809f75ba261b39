"""A kernel of eight bits that needs no package beside NumPy: it gets float32, and stores numbers itself."""

import pytest

from attnprune_verify.cli.main import main

KERNEL = """
import numpy as np
RECIPE = {"q": "float8_e4m3fn", "k": "float8_e4m3fn", "v": "float8_e4m3fn", "p": "float8_e4m3fn", "o": "float32",
          "scale_block": "row", "inputs": "float32"}
def e4m3(x):
    fraction, exponent = np.frexp(x)
    exponent = np.maximum(exponent, -5)
    return np.ldexp(np.rint(np.ldexp(x, 4 - exponent)), exponent - 4).astype(np.float32)
def stored(x, axis=-1):
    scale = (np.abs(x).max(axis, keepdims=True) / np.float32(448)).astype(np.float32)
    return e4m3(x / np.where(scale == 0, np.float32(1), scale)) * scale
def attention(q, k, v, *, causal=False):
    group = q.shape[1] // k.shape[1]
    q, k, v = stored(q), stored(np.repeat(k, group, 1)), stored(np.repeat(v, group, 1))
    s = q @ k.swapaxes(-1, -2) / np.float32(np.sqrt(q.shape[-1]))
    if causal:
        s = np.where(np.tri(*s.shape[2:], dtype=bool), s, np.float32(-np.inf))
    w = np.exp(s - s.max(-1, keepdims=True))
    p = e4m3(w)
    return p @ v / p.sum(-1, keepdims=True)
"""


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("", "", 0, "Outcome: passed"),
        ("v = stored(q), stored(np.repeat(k, group, 1)), stored(np.repeat(v, group, 1))",
         "v = stored(q), stored(np.repeat(k, group, 1)), stored(np.repeat(v, group, 1), (2, 3))", 1, "scale-leak"),
        ("/ p.sum", "/ w.sum", 1, "weights-not-normalised"),
        ("return p @ v", "return -p @ v", 1, "output-scale"),
        ("return p @ v", "return 0 * p @ v", 1, "zero-output"),
        ("stored(q), ", "stored(q) * 2, ", 1, "unknown"),
        ("RECIPE =", "TABLE =", 2, "needs a recipe"),
    ],
)  # fmt: skip
def test_a_kernel_that_rounds_by_itself(tmp_path, capsys, old, new, code, said):
    target = tmp_path / "target.py"
    assert old in KERNEL
    target.write_text(KERNEL.replace(old, new) if old else KERNEL, encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["audit-kernel", str(target), "--dtype", "float8_e4m3fn", "--quiet"])
    found = capsys.readouterr()
    assert ended.value.code == code and said in found.out + found.err

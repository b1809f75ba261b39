"""`kernel-vectors`: right kernels pass in several languages, wrong ones fail, damaged files are refused."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.kernel.answers import check_answers, read_vectors
from attnprune_verify.audit.kernel.currency import torch_attention
from attnprune_verify.audit.kernel.own import own_attention
from attnprune_verify.audit.kernel.tensors import of_dtype, packed, unpacked
from attnprune_verify.audit.kernel.vectors import vector_samples, write_vectors
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "kernel_vectors.md"
COUNT = 48  # of every regime one or two: all features are among them


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    write_vectors(folder, count=COUNT)
    return folder


def answered(folder, tmp_path, kernel, dtype="float32", count=COUNT):
    """A file of answers by a function from a sample to the arrays it has."""
    tensors = {}
    for place, sample in enumerate(vector_samples(dtype, count)):
        for name, array in (kernel(sample) or {}).items():
            tensors[f"{place}.{name}"] = of_dtype(np.asarray(array, np.float64), dtype)
    path = tmp_path / "answers.safetensors"
    path.write_bytes(packed(tensors))
    return path


def test_the_librarys_own_kernel_lies_inside(vectors, tmp_path):
    result = check_answers(vectors, answered(vectors, tmp_path, own_attention))
    assert result.outcome == "passed" and len(result.passed) == 4 * COUNT


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_all_256_of_every_dtype(dtype, tmp_path):
    index = write_vectors(tmp_path / "v", dtype)
    assert len(index["vectors"]) == 256
    result = check_answers(tmp_path / "v", answered(None, tmp_path, own_attention, dtype, 256))
    assert result.outcome == "passed" and len(result.passed) == 1024


def without_modifiers(kernel):
    def answer(sample):
        return None if {"window", "softcap", "alibi"} & set(sample.features) else kernel(sample)

    return answer


MODIFIERS = ("window", "softcap", "alibi")


def test_torch_lies_inside(vectors, tmp_path):
    pytest.importorskip("torch")
    path = answered(vectors, tmp_path, without_modifiers(torch_attention))
    assert check_answers(vectors, path, MODIFIERS).outcome == "passed"
    short = check_answers(vectors, path)
    assert short.outcome == "incomplete" and short.missing


def test_onnxruntime_lies_inside(vectors, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    spec = importlib.util.spec_from_file_location("onnx_kernel", ROOT / "benchmarks/real_kernels/onnx_attention.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def answer(sample):
        if sample.shape[0] * sample.shape[1] == 0 or {*MODIFIERS, "kv_heads < heads"} & set(sample.features):
            return None
        if sample.causal and "l != n" in sample.features:  # its causal mask ends at the last key
            return None
        q, k, v = (getattr(sample, name).astype(np.float32) for name in "qkv")
        return {"o": module.attention(q, k, v, **sample.keywords("attention"))}

    result = check_answers(vectors, answered(vectors, tmp_path, answer), (*MODIFIERS, "kv_heads < heads", "backward"))
    assert result.outcome in ("passed", "incomplete") and not result.failed
    assert len(result.passed) > COUNT / 2 and all("l != n" in str(features_of(vectors, one)) for one in result.missing)


def features_of(folder, answer):
    index, _ = read_vectors(folder)
    return next(one["features"] for one in index["vectors"] if one["answers"]["o"]["answer"] == answer)


def truncated(array):
    bits = np.asarray(array, np.float64).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def changed(**changes):
    return lambda sample: own_attention(sample.changed(memo={}, **{k: f(sample) for k, f in changes.items()}))


def times(part, factor):
    return lambda sample: {**own_attention(sample), part: factor * own_attention(sample)[part]}


WRONG = {
    "no scale": changed(scale=lambda s: 1.0),
    "causal ignored": changed(causal=lambda s: False),
    "mask ignored": changed(mask=lambda s: None),
    "mask inverted": changed(mask=lambda s: None if s.mask is None else ~s.mask | np.eye(*s.mask.shape, dtype=bool)),
    "window one wider": changed(window=lambda s: None if s.window is None else s.window + 1),
    "softcap ignored": changed(softcap=lambda s: None),
    "slopes of other heads": changed(alibi=lambda s: None if s.alibi is None else s.alibi[::-1].copy()),
    "dq with the wrong sign": times("dq", -1.0),
    "dk twice": times("dk", 2.0),
    "weights in bfloat16": lambda s: own_attention(s, weights=truncated),
    "o zero": times("o", 0.0),
    "o nan": times("o", np.nan),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_lie_outside(name, vectors, tmp_path):
    with np.errstate(all="ignore"):
        result = check_answers(vectors, answered(vectors, tmp_path, WRONG[name]))
    assert result.outcome == "failed" and set(result.reasons) == set(result.failed)
    if name.startswith("d"):
        assert {one.partition(".")[2] for one in result.failed} == {name[:2]}


def readers():
    return dict(re.findall(r'^```\w+ title="(read_vectors\.\w+)"\n(.*?)^```$', PAGE.read_text(), re.M | re.S))


KERNELS = {
    "py": """
import numpy as np

def attention(q, k, v, causal=False, scale=None, mask=None):
    s = (q @ np.swapaxes(k, -1, -2)) * np.float32(FACTOR if scale is None else scale)
    allowed = np.ones(s.shape[-2:], bool) if mask is None else mask
    s = np.where(np.tri(*s.shape[-2:], dtype=bool) & allowed if causal else allowed, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v
""".replace("FACTOR", "q.shape[-1] ** -0.5"),
    "mjs": """
export function attention(q, k, v, { causal = false, scale = null, mask = null, ...others }) {
  if (Object.keys(others).length) throw new Error("unknown keyword");
  const [batch, heads, n, m] = q.shape, [, kvHeads, l, mv] = [...v.shape.slice(0, 3), v.shape[3]];
  const factor = scale ?? 1 / Math.sqrt(m), out = new Array(batch * heads * n * mv).fill(0);
  for (let b = 0; b < batch; b++) for (let h = 0; h < heads; h++) for (let i = 0; i < n; i++) {
    const g = b * kvHeads + Math.floor(h / (heads / kvHeads)), row = [];
    for (let j = 0; j < l; j++) {
      let s = 0;
      for (let c = 0; c < m; c++) s += q.data[((b * heads + h) * n + i) * m + c] * k.data[(g * l + j) * m + c];
      row.push((causal && j > i) || (mask && !mask.data[i * l + j]) ? -Infinity : s * factor);
    }
    const top = Math.max(...row), p = row.map((s) => Math.exp(s - top)), total = p.reduce((a, x) => a + x, 0);
    for (let c = 0; c < mv; c++) {
      let o = 0;
      for (let j = 0; j < l; j++) o += p[j] * v.data[(g * l + j) * mv + c];
      out[((b * heads + h) * n + i) * mv + c] = Math.fround(o / total);
    }
  }
  return { shape: [batch, heads, n, mv], data: out };
}
""",
}
BROKEN = {"py": ("** -0.5", "** -1"), "mjs": ("j > i", "j >= i + 1 && j > 1")}


@pytest.mark.parametrize("language", ["py", "mjs"])
def test_the_readers_of_the_page_judge_as_the_library_does(language, vectors, tmp_path):
    node = shutil.which("node")
    if language == "mjs" and node is None:
        pytest.skip("node is not on this machine")
    program = [sys.executable] if language == "py" else [node]
    reader = tmp_path / f"read_vectors.{language}"
    reader.write_text(readers()[reader.name])
    assert len(reader.read_text().splitlines()) <= 50
    for source, code in ((KERNELS[language], 0), (KERNELS[language].replace(*BROKEN[language]), 1)):
        kernel = tmp_path / f"kernel{code}.{language}"
        kernel.write_text(source)
        done = subprocess.run([*program, reader, vectors, kernel], capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        counts = json.loads(done.stdout.splitlines()[-1].replace("'", '"'))
        assert sum(counts.values()) == COUNT and bool(counts["outside"]) == bool(code)
        assert counts["inside"] > COUNT / 2 or code


def run(*words):
    with pytest.raises(SystemExit) as end:
        main(["kernel-vectors", *map(str, words)])
    return end.value.code


def test_the_command_line(vectors, tmp_path, capsys):
    assert run("--out", tmp_path / "v", "--count", 3) == 0
    assert "3 vectors in float32 with 12 answers" in capsys.readouterr().out
    right = answered(vectors, tmp_path, own_attention)
    assert run("check", vectors, right, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["passed"] == 4 * COUNT
    wrong = answered(vectors, tmp_path, WRONG["o zero"])
    assert run("check", vectors, wrong) == 1 and "is not in [" in capsys.readouterr().out
    nothing = answered(vectors, tmp_path, lambda sample: None)
    assert run("check", vectors, nothing) == 3 and "missing: 0.o" in capsys.readouterr().out


def test_what_is_damaged_is_refused_in_one_line(vectors, tmp_path, capsys):
    right = answered(vectors, tmp_path, own_attention)
    stranger = tmp_path / "stranger.safetensors"
    stranger.write_bytes(packed({"0.p": of_dtype(np.zeros(1), "float32")}))
    broken = tmp_path / "broken"
    shutil.copytree(vectors, broken)
    (broken / "vectors.safetensors").write_bytes(b"\0" * 100)
    other = tmp_path / "other"
    other.mkdir()
    (other / "mine.txt").write_text("keep")
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(right.read_bytes()[:-5])
    for words in (
        (), ("--out", other), ("--out", tmp_path, "--dtype", "int8"), ("--out", tmp_path, "--count", 0),
        ("check", other, right), ("check", broken, right), ("check", vectors, stranger), ("check", vectors, cut),
        ("check", vectors, tmp_path),
        ("check", vectors, tmp_path / "nothing"), ("check", vectors, right, "--without", "speed"),
        ("--out", other, "check", vectors, right),
    ):  # fmt: skip
        assert run(*words) == 2, words
        error = capsys.readouterr().err
        assert len(error.splitlines()) == 1 and "Traceback" not in error
    assert (other / "mine.txt").read_text() == "keep"


def test_any_bytes_are_read_or_refused():
    rng = np.random.default_rng(0)
    whole = packed({"a": of_dtype(np.arange(4.0), "float16"), "b": of_dtype(np.ones((2, 3)), "bool")})
    assert {name: array.tolist() for name, array in unpacked(whole, "x").items()}["a"] == [0, 1, 2, 3]
    for _ in range(300):
        bent = bytearray(whole)
        for place in rng.integers(0, len(bent), 3):
            bent[place] = rng.integers(0, 256)
        try:
            unpacked(bytes(bent), "x")
        except InvalidInstance as error:
            assert "must be a safetensors file" in str(error)

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
from attnprune_verify.audit.kernel.problem.tensors import of_dtype, packed, unpacked
from attnprune_verify.audit.kernel.truth.reference_kernel import own_attention
from attnprune_verify.audit.kernel.vectors import vector_samples, write_vectors
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "kernel_vectors.md"
COUNT = 60  # of every regime one: all parts of the contract are among them, as a test below sees
PARTS = {"bias", "dbias", "dlse", "dropout", "dsinks", "empty rows", "float mask", "lse", "mask of rank 4", "packed"}
PARTS |= {"padding", "sinks", "alibi", "softcap", "window"}


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
            if sample.poison is None or name == "o":
                array = shaped(name, np.asarray(array, np.float64), sample.ends is not None)
                tensors[f"{place}.{name}"] = of_dtype(array, dtype)
    path = tmp_path / "answers.safetensors"
    path.write_bytes(packed(tensors))
    return path


def shaped(name, array, packed_):
    """Packed sequences as the page has them: (total, heads, features), and log sum exp (heads, total)."""
    if not packed_ or name in ("dbias", "dsinks"):
        return array
    return array[0] if name == "lse" else array[0].swapaxes(0, 1)


def answers_of(folder):
    index, _ = read_vectors(folder)
    return {(place, part) for place, one in enumerate(index["vectors"]) for part in one["answers"]}


def test_every_part_of_the_contract_is_among_them(vectors):
    index, held = read_vectors(vectors)
    assert set() == PARTS - {feature for one in index["vectors"] for feature in one["features"]}
    assert {part for _, part in answers_of(vectors)} == {"o", "lse", "dq", "dk", "dv", "dbias", "dsinks"}
    for one in index["vectors"]:
        if "packed" in one["features"]:
            starts = held[one["keywords"]["cu_seqlens_q"]]
            assert held[one["inputs"]["q"]].ndim == 3 and starts[-1] == len(held[one["inputs"]["q"]])
        if "padding" in one["features"]:
            assert not np.isfinite(held[one["inputs"]["v"]]).all() and list(one["answers"]) == ["o"]
        for ends in one["answers"].values():
            assert (held[ends["lowest"]] <= held[ends["highest"]]).all()


def test_the_librarys_own_kernel_lies_inside(vectors, tmp_path):
    result = check_answers(vectors, answered(vectors, tmp_path, own_attention))
    assert result.outcome == "passed" and len(result.passed) == len(answers_of(vectors)) > 4 * COUNT


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_all_256_of_every_dtype(dtype, tmp_path):
    index = write_vectors(tmp_path / "v", dtype)
    assert len(index["vectors"]) == 256
    result = check_answers(tmp_path / "v", answered(None, tmp_path, own_attention, dtype, 256))
    assert result.outcome == "passed" and len(result.passed) == len(answers_of(tmp_path / "v")) > 1024


def by_torch(sample):
    """torch's own attention: all that forbids or adds in its one mask; dropout and lse by operators."""
    import torch

    if {"softcap", "sinks", "dlse", "padding"} & set(sample.features):
        return None
    q, k, v, do = (torch.tensor(getattr(sample, name), dtype=torch.float32) for name in ("q", "k", "v", "do"))
    added = torch.zeros(sample.allowed.shape).masked_fill(~torch.tensor(sample.allowed), -torch.inf)
    if sample.alibi is not None:
        added = added - torch.tensor(sample.alibi)[:, None, None] * torch.tensor(np.abs(sample.distance))
    bias = None if sample.bias is None else torch.tensor(sample.bias, dtype=torch.float32)
    leaves = [one.requires_grad_(True) for one in (q, k, v, bias) if one is not None]
    mask, scale = (added if bias is None else added + bias).float(), sample.factor
    if sample.dropout is None:
        sdpa = torch.nn.functional.scaled_dot_product_attention
        o = sdpa(q, k, v, attn_mask=mask, scale=scale, enable_gqa=sample.group > 1)
    else:
        kept, operator = torch.tensor(sample.dropout), torch.ops.aten._scaled_dot_product_attention_math
        o = operator(q, k, v, mask, 1 - sample.keep, False, kept, scale=scale, enable_gqa=sample.group > 1)[0]
    found = {"o": o.detach()}
    gradients = torch.autograd.grad(o, leaves, do)
    found |= {name: one for name, one in zip(("dq", "dk", "dv", "dbias"), gradients, strict=False)}
    if "dbias" not in sample.wanted:
        found.pop("dbias", None)
    if sample.lse and sample.group == 1 and "mv != m" not in sample.features and not sample.empty:
        fused = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        found["lse"] = fused(
            *(one.detach() for one in (q, k, v)), attn_mask=mask.expand(*q.shape[:3], -1), scale=scale
        )[1]
    return found


TORCH_LACKS = ("softcap", "sinks", "dlse", "padding", "lse")


def test_torch_lies_inside(vectors, tmp_path):
    pytest.importorskip("torch")
    path = answered(vectors, tmp_path, by_torch)
    assert check_answers(vectors, path, TORCH_LACKS).outcome == "passed"
    short = check_answers(vectors, path)
    assert short.outcome == "incomplete" and short.missing
    part = {name.partition(".")[2] for name in short.passed}
    assert part == {"o", "lse", "dq", "dk", "dv", "dbias"}


def test_onnxruntime_lies_inside(vectors, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    spec = importlib.util.spec_from_file_location("onnx_kernel", ROOT / "benchmarks/real_kernels/onnx_attention.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    lacks = {"window", "alibi", "sinks", "dropout", "lse", "dlse", "packed", "padding"}

    def answer(sample):
        if lacks & set(sample.features):
            return None
        q, k, v = (getattr(sample, name).astype(np.float32) for name in "qkv")
        keywords = {
            name: x.astype(np.float32) if name == "bias" else x for name, x in sample.keywords("attention").items()
        }
        if sample.additive:
            keywords["mask"] = keywords["mask"].astype(np.float32)
        return {"o": module.attention(q, k, v, **keywords)}

    result = check_answers(vectors, answered(vectors, tmp_path, answer), (*sorted(lacks), "backward"))
    assert result.outcome == "passed" and len(result.passed) > COUNT / 2


def truncated(array):
    bits = np.asarray(array, np.float64).astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
    return bits.view(np.float32).astype(np.float64)


def changed(**changes):
    return lambda sample: own_attention(sample.changed(memo={}, **{k: f(sample) for k, f in changes.items()}))


def times(part, factor):
    def kernel(sample):
        found = own_attention(sample)
        return {**found, part: factor * found[part]} if part in found else found

    return kernel


def mean_where_empty(sample):
    found, nothing = own_attention(sample), ~sample.seen[1]
    means = np.broadcast_to(sample.grouped(sample.v).mean(axis=2, keepdims=True), found["o"].shape)
    return {**found, "o": np.where(nothing[..., None] & (sample.sinks is None), means, found["o"])}


WRONG = {
    "no scale": changed(scale=lambda s: 1.0),
    "causal ignored": changed(causal=lambda s: False),
    "mask ignored": changed(mask=lambda s: None),
    "mask inverted": changed(
        mask=lambda s: s.mask if s.mask is None or s.empty else ~s.mask | np.eye(*s.mask.shape[-2:], dtype=bool)
    ),
    "window one wider": changed(window=lambda s: None if s.window is None else s.window + 1),
    "softcap ignored": changed(softcap=lambda s: None),
    "slopes of other heads": changed(alibi=lambda s: None if s.alibi is None else s.alibi[::-1].copy()),
    "dq with the wrong sign": times("dq", -1.0),
    "dk twice": times("dk", 2.0),
    "weights in bfloat16": lambda s: own_attention(s, weights=truncated),
    "bias ignored": changed(bias=lambda s: None if s.bias is None else 0 * s.bias),
    "sinks ignored": changed(sinks=lambda s: None if s.sinks is None else s.sinks - 1e3),
    "dropout without the division": changed(keep=lambda s: 1.0),
    "packed sequences see each other": changed(ends=lambda s: None),
    "mean of v where nothing is allowed": lambda s: mean_where_empty(s),
    "lse in base 2": times("lse", 1 / np.log(2)),
    "lse 0 where nothing is allowed": lambda s: {
        n: np.where(np.isneginf(x), 0, x) for n, x in own_attention(s).items()
    },
    "cotangent of lse ignored": changed(dlse=lambda s: None),
    "dbias of the first sample": times("dbias", 0.5),
    "dsinks with the wrong sign": times("dsinks", -1.0),
    "padding leaks": lambda s: {n: x * (np.nan if s.poison is not None else 1) for n, x in own_attention(s).items()},
    "o zero": times("o", 0.0),
    "o nan": times("o", np.nan),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_kernels_lie_outside(name, vectors, tmp_path):
    with np.errstate(all="ignore"):
        result = check_answers(vectors, answered(vectors, tmp_path, WRONG[name]))
    assert result.outcome == "failed" and set(result.reasons) == set(result.failed)
    own = name.split()[0]
    if own in ("dq", "dk", "dbias", "dsinks", "lse"):
        assert {one.partition(".")[2] for one in result.failed} == {own}


def readers():
    return dict(re.findall(r'^```\w+ title="(read_vectors\.\w+)"\n(.*?)^```$', PAGE.read_text(), re.M | re.S))


KERNELS = {
    "py": """
import numpy as np

def attention(q, k, v, causal=False, scale=None, mask=None, return_lse=False, zero_empty_rows=True):
    if mask is not None and mask.dtype != bool:
        raise NotImplementedError
    s = (q @ np.swapaxes(k, -1, -2)) * np.float32(FACTOR if scale is None else scale)
    allowed = np.ones(s.shape[-2:], bool) if mask is None else mask
    s = np.where(np.tri(*s.shape[-2:], dtype=bool) & allowed if causal else allowed, s, -np.inf)
    top = np.maximum(s.max(-1, keepdims=True), -1e30)
    p = np.exp(s - top)
    total = p.sum(-1, keepdims=True)
    o = p / np.where(total > 0, total, 1) @ v
    return (o, np.where(total > 0, top + np.log(total), -np.inf)[..., 0]) if return_lse else o
""".replace("FACTOR", "q.shape[-1] ** -0.5"),
    "mjs": """
export function attention(q, k, v, { causal = false, scale = null, mask = null, ...others }) {
  const other = mask && (mask.shape.length > 2 || typeof mask.data[0] !== "boolean");
  if (other || Object.keys(others).length) throw new Error("unknown keyword");
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
        assert counts["inside"] > COUNT / 3 or code


def run(*words):
    with pytest.raises(SystemExit) as end:
        main(["kernel-vectors", *map(str, words)])
    return end.value.code


def test_the_command_line(vectors, tmp_path, capsys):
    assert run("--out", tmp_path / "v", "--count", 3) == 0
    assert "3 vectors in float32 with 12 answers" in capsys.readouterr().out
    right = answered(vectors, tmp_path, own_attention)
    assert run("check", vectors, right, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["passed"] == len(answers_of(vectors))
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
        (), ("--out", other), ("--out", tmp_path / "new", "--dtype", "int8"), ("--out", tmp_path / "new", "--count", 0),
        ("check", other, right), ("check", broken, right), ("check", vectors, stranger), ("check", vectors, cut),
        ("check", vectors, tmp_path),
        ("check", vectors, tmp_path / "nothing"), ("check", vectors, right, "--without", "speed"),
        ("--out", other, "check", vectors, right),
    ):  # fmt: skip
        assert run(*words) == 2, words
        error = capsys.readouterr().err
        assert len(error.splitlines()) == 1 and "Traceback" not in error
    assert (other / "mine.txt").read_text() == "keep"
    with pytest.raises(InvalidInstance, match="count must be"):  # the command line has a check of its own
        write_vectors(tmp_path / "new", count=0)
    assert not (tmp_path / "new").exists()


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

"""Folders of any type, pruned by torch: what must change changes, and everything else stays to the byte."""

import math
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")
safetensors = pytest.importorskip("safetensors.torch", reason="reading model folders needs the extra 'real'")

from attnprune_verify.cli.main import main  # noqa: E402  # after the skips
from attnprune_verify.errors import InvalidInstance  # noqa: E402
from attnprune_verify.pruning import evaluated, prune_model  # noqa: E402
from attnprune_verify.torch import passes, pruning_run, states  # noqa: E402
from attnprune_verify.torch.passes import forward  # noqa: E402
from tests.whole_model.decoders import WANTED, tiny  # noqa: E402
from tests.whole_model.small import MODEL  # noqa: E402

TEXT = MODEL / "texts" / "calibration.txt"
HELD_OUT = MODEL / "texts" / "held_out.txt"
SMALL = {"calibration": TEXT, "k": 3, "n": 24}
QUICK = {"gpt2": True, "mixtral": False}
"""Chosen: a transposed fused map that is mapped from its file, and experts that are not in the files as in memory."""


def saved(kind, folder, dtype=torch.bfloat16, **changes):
    """A tiny model in shards, with a tokenizer."""
    tiny(kind, vocab_size=1024, **changes).to(dtype).save_pretrained(folder, max_shard_size="100KB")
    shutil.copy(MODEL / "tokenizer.json", folder)
    return folder


def exit_code(words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


def tensors_of(folder):
    return {name: t for file in folder.glob("*.safetensors") for name, t in safetensors.load_file(file).items()}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.thorough) for kind in WANTED]
)
@pytest.mark.parametrize("budget", ["matrix", pytest.param("auto", marks=pytest.mark.thorough)])
def test_every_matrix_of_the_files_has_its_zeros(kind, budget, tmp_path):
    source, out = saved(kind, tmp_path / "in"), tmp_path / "out"
    choices = SMALL | {"budget": budget}
    report = prune_model(source, out, 0.5, **choices)
    before, after, rows = tensors_of(source), tensors_of(out), {row["name"]: row for row in report["tensors"]}
    assert {one.name for one in out.iterdir()} == {one.name for one in source.iterdir()} | {"pruning.json"}
    for file in source.iterdir():
        if file.suffix != ".safetensors":
            assert file.read_bytes() == (out / file.name).read_bytes()
        else:
            assert set(safetensors.load_file(file)) == set(safetensors.load_file(out / file.name))
    assert before.keys() == after.keys() and rows
    for name, tensor in before.items():
        assert after[name].dtype == tensor.dtype
        if name in rows:
            for matrix in after[name].flatten(0, -3) if tensor.dim() > 2 else after[name][None]:
                assert budget == "auto" or int((matrix == 0).sum()) == math.floor(0.5 * matrix.numel()), name
            assert rows[name]["zeros"] == int((after[name] == 0).sum())
        else:
            assert torch.equal(after[name], tensor), name
    assert report["mapped"] is QUICK.get(kind, report["mapped"])
    model, info = transformers.AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not info["missing_keys"] and not info["unexpected_keys"]
    assert report["zeros"] == math.floor(0.5 * report["size"])
    assert prune_model(source, out, 0.5, **choices) == report  # finished: untouched


@pytest.mark.parametrize("kind", ["llama", "qwen2", "mistral"])
def test_our_networks_prune_alike(kind, tmp_path):
    """Two paths without common passes: the same masks but for ties, and the same perplexity."""
    source = saved(kind, tmp_path / "in", torch.float32)
    choices = SMALL | {"attention": "wanda", "rest": "wanda"}
    for device in ("cpu", "numpy"):
        prune_model(source, tmp_path / device, 0.5, device=device, **choices)
    by_torch, by_numpy = tensors_of(tmp_path / "cpu"), tensors_of(tmp_path / "numpy")
    differing = sum(int(((by_torch[name] == 0) != (by_numpy[name] == 0)).sum()) for name in by_torch)
    assert differing <= 0.002 * sum(tensor.numel() for tensor in by_torch.values())
    text = HELD_OUT.read_text("utf-8")[:3000]
    found = [evaluated(source, text, tmp_path / name, n=32, windows=6, device=name) for name in ("cpu", "numpy")]
    assert found[0] == pytest.approx(found[1], rel=1e-3) and found[0]["kl"] > 0
    same = evaluated(source, text, source, n=32, windows=6)
    assert (
        same["kl"] == 0
        and same["pruned"] == same["perplexity"] == evaluated(source, text, n=32, windows=6)["perplexity"]
    )
    assert same["perplexity"] == pytest.approx(found[0]["perplexity"], rel=1e-4)


def test_an_interrupted_run_ends_in_the_same_bytes(tmp_path):
    source = saved("gpt2", tmp_path / "in")
    prune_model(source, tmp_path / "whole", 0.5, **SMALL)

    def stop(at):
        def tell(done, _steps, _what):
            if done == at:
                raise KeyboardInterrupt

        return tell

    for at in (2, 5, 6):
        with pytest.raises(KeyboardInterrupt):
            prune_model(source, tmp_path / "out", 0.5, **SMALL, progress=stop(at))
    prune_model(source, tmp_path / "out", 0.5, **SMALL)
    for file in (tmp_path / "whole").iterdir():
        assert file.read_bytes() == (tmp_path / "out" / file.name).read_bytes()
    assert not (tmp_path / "out.partial").exists()


def test_the_command_prints_what_it_is_about_to_do_and_what_it_cost(tmp_path, capsys):
    source = saved("opt", tmp_path / "in")
    words = ["prune-model", str(source), "--out", str(tmp_path / "out"), "--rho", "0.5", "--calibration", str(TEXT)]
    assert exit_code([*words, "--k", "2", "--n", "24", "--evaluate", str(HELD_OUT)]) == 0
    out, err = capsys.readouterr()
    assert "14336 weights in 12 maps of 2 blocks, 2 windows with 48 tokens, 30 steps; about" in err
    assert f"perplexity of {HELD_OUT}: " in out and "50.00%" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hold", "0", "--budget", "matrix"], "hold needs a budget that differs between matrices"),
        (["--attention", "fisher-obs"], "model_type must be one of"),
        (["--pattern", "2:4"], "exactly one of rho and pattern"),
        (["--device", "cuda"], "torch finds no CUDA device here"),
    ],
)
def test_what_cannot_be_done_exits_with_2_before_any_work(tmp_path, capsys, words, message):
    if words[-1] == "cuda" and torch.cuda.is_available():
        pytest.skip("a CUDA device is here")
    source = saved("opt", tmp_path / "in")
    given = ["prune-model", str(source), "--out", str(tmp_path / "out"), "--rho", "0.5", "--calibration", str(TEXT)]
    assert exit_code([*given, *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.partial").exists()


def test_code_of_its_own_is_not_run(tmp_path):
    source = saved("opt", tmp_path / "in")
    config = (source / "config.json").read_text("utf-8")
    (source / "config.json").write_text(config.replace("{", '{"auto_map": {"AutoConfig": "x.Y"},', 1), "utf-8")
    with pytest.raises(InvalidInstance, match="config.json must have no auto_map"):
        prune_model(source, tmp_path / "out", 0.5, **SMALL)


def test_blocks_that_are_not_named_stay_dense_and_cost_nothing(tmp_path, monkeypatch):
    """Budgets and the ratio are of the named blocks; no state is computed behind the last of them."""
    passed = []
    for place in (passes, states, pruning_run):
        monkeypatch.setattr(place, "forward", lambda *given: passed.append(given[1]) or forward(*given))
    source = saved("llama", tmp_path / "in", torch.float32, num_hidden_layers=4)
    prior = {"attention": "wanda", "rest": "wanda", "reconstruct": 2}
    prune_model(source, tmp_path / "prior", 0.5, **SMALL, **prior, only=[1, 2], device="cpu")
    assert sorted(passed) == [0, 1, 1, 2]  # the dense block 1 and 2 once more, for their outputs
    report = prune_model(source, tmp_path / "out", 0.5, **SMALL, only=[1, 2], device="cpu")
    before, after = tensors_of(source), tensors_of(tmp_path / "out")
    changed = {name for name in before if not torch.equal(before[name], after[name])}
    assert changed == {row["name"] for row in report["tensors"]}
    assert {name.split(".")[2] for name in changed} == {"1", "2"}
    assert report["zeros"] == report["size"] // 2 and report["damping"]["maps"] == 14
    with pytest.raises(InvalidInstance, match="only must name blocks from 0 to 3; got 4"):
        prune_model(source, tmp_path / "other", 0.5, **SMALL, only=[4], device="cpu")


def test_a_limit_of_time_lowers_the_work_and_goes_on_as_it_began(tmp_path, monkeypatch):
    source = saved("llama", tmp_path / "in", torch.float32)
    choices = {"calibration": TEXT, "k": 12, "n": 24, "device": "cpu", "minutes": 1.0}
    rates, said = [1e30], []
    monkeypatch.setattr(pruning_run.estimate, "matmul_rates", lambda: (rates[-1], rates[-1]))

    def stop(done, _steps, what):
        said.append(what)
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_model(source, tmp_path / "out", 0.5, **choices, progress=stop)
    rates.append(1.0)
    report = prune_model(source, tmp_path / "out", 0.5, **choices)
    assert (
        report["fingerprint"]["fields"]["calibration"]["k"] == 12 and "12 windows with 288 tokens, 50 steps" in said[0]
    )
    assert prune_model(source, tmp_path / "out", 0.5, **choices) == report
    fields = prune_model(source, tmp_path / "other", 0.5, **choices)["fingerprint"]["fields"]
    assert (fields["calibration"]["k"], fields["plan"]["reconstruct"]) == (8, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--only-blocks", "0,9"], "only must name blocks from 0 to 3; got 9"),
        (["--only-blocks", "0-2"], "must be numbers with commas"),
        (["--n", "257"], "at most 256 tokens"),
        (["--minutes", "0"], "minutes"),
        (["--evaluate", "no-such-text"], "no-such-text"),
    ],
)
def test_arguments_are_judged_before_torch_is_loaded(words, message, tmp_path):
    code = (
        "import sys; from attnprune_verify.cli.main import main\ntry: main(sys.argv[1:])\nfinally: print(*sys.modules)"
    )
    given = ["prune-model", str(MODEL), "--out", str(tmp_path / "out"), "--rho", "0.5", "--calibration", str(TEXT)]
    ended = subprocess.run([sys.executable, "-c", code, *given, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and message in ended.stderr and "torch" not in ended.stdout.split()

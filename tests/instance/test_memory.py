"""What a problem needs is said before it is allocated, and lies above what it takes; large files stay files."""

import gc
import tracemalloc
import zipfile

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance import archive
from attnprune_verify.instance.memory import _TaskSizes, as_bytes, estimate_memory, memory_budget, require_memory, shown
from attnprune_verify.model import objective

RNG = np.random.default_rng(0)


def peak(task):
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = task()
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    del kept
    return most


@pytest.mark.parametrize(("k", "n", "d"), [(1, 512, 64), (1, 1024, 64), (1, 64, 512), (4, 256, 128)])
@pytest.mark.parametrize("keep_dense", [True, False])
def test_an_objective_takes_no_more_than_estimated(k, n, d, keep_dense):
    X, W, M = RNG.standard_normal((k, n, d)), RNG.standard_normal((d, d)) / d, RNG.uniform(size=(d, d))
    taken = peak(lambda: apv.Objective(X, W, 0.1, keep_dense=keep_dense).loss_and_gradient(M))
    estimate = estimate_memory("objective", n=n, d=d, k=k, keep_dense=keep_dense)
    assert taken <= estimate <= 4 * taken + 2**20


@pytest.mark.parametrize("sizes", [(2, 256, 128, 4, 2, 32), (1, 512, 64, 4, 1, 16)])
def test_a_layers_objective_takes_no_more_than_estimated(sizes):
    k, n, d, heads, kv_heads, m = sizes
    weights = [RNG.standard_normal((d, count * m)) / d for count in (heads, kv_heads)]
    layer = apv.AttentionLayer(*weights, heads=heads, kv_heads=kv_heads, mask="causal", rope=apv.RoPE(1e4))
    X, masks = RNG.standard_normal((k, n, d)), [RNG.uniform(size=weight.shape) for weight in weights]
    taken = peak(lambda: apv.Objective(layer, X, keep_dense=False).loss_and_gradient(*masks))
    named = dict(zip(("k", "n", "d", "heads", "kv_heads", "m"), sizes, strict=True))
    assert taken <= estimate_memory("objective", **named, keep_dense=False) <= 4 * taken + 2**20


X, W, M = RNG.standard_normal((256, 8)), RNG.standard_normal((8, 8)) / 8, RNG.uniform(size=(8, 8))
ONE_HEAD = apv.AttentionLayer(W, np.eye(8))
OF_ONE_WEIGHT = ("loss", "gradient", "hessian_vector_product", "relative_error")
CALLED_ONCE = {
    "loss": lambda: apv.loss(M, X, W),
    "gradient": lambda: apv.gradient(M, X, W, mask="causal"),
    "hessian_vector_product": lambda: apv.hessian_vector_product(M, M, X, W),
    "relative_error": lambda: apv.relative_error(M, X, W),
    "factored_loss": lambda: apv.factored_loss(M, M, X, W, W),
    "factored_gradient": lambda: apv.factored_gradient(M, M, X, W, W),
    "layer_loss": lambda: apv.layer_loss(ONE_HEAD, M, M, X),
    "layer_gradient": lambda: apv.layer_gradient(ONE_HEAD, M, M, X),
    "layer_relative_error": lambda: apv.layer_relative_error(ONE_HEAD, apv.AttentionLayer(M * W, M), X),
}


@pytest.mark.parametrize("name", CALLED_ONCE)
def test_a_function_called_once_holds_no_n_x_n_array(name, monkeypatch):
    """Nothing is gained by keeping F(1) for one value, and a long text would not fit."""
    sizes = {"n": 256, "d": 8} | ({} if name in OF_ONE_WEIGHT else {"heads": 1, "kv_heads": 1, "m": 8})
    without, held = (estimate_memory("objective", **sizes, keep_dense=keep) for keep in (False, True))
    monkeypatch.setattr(objective, "_WORTH_ASKING", 0)
    monkeypatch.setenv("ATTNPRUNE_MEMORY", str((without + held) // 2))
    CALLED_ONCE[name]()
    with pytest.raises(InvalidInstance, match="keep_dense=False needs no n x n array"):
        apv.Objective(X, W)


def test_what_does_not_fit_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setenv("ATTNPRUNE_MEMORY", "30MB")
    X, W = RNG.standard_normal((2048, 16)), np.eye(16)

    def refused():
        with pytest.raises(InvalidInstance, match=r"objective with n = 2048, d = 16, k = 1 must fit .* 28\.6 MiB"):
            apv.Objective(X, W)

    assert peak(refused) < 5e6  # F(1) alone would be 34 MB
    with pytest.raises(InvalidInstance, match="keep_dense=False needs no n x n array"):
        apv.Objective(X, W)
    monkeypatch.setenv("ATTNPRUNE_MEMORY", "60MB")
    assert apv.Objective(X, W).loss(W) >= 0


def test_check_and_prune_layer_are_refused_with_the_numbers(monkeypatch):
    monkeypatch.setenv("ATTNPRUNE_MEMORY", "10MB")
    with pytest.raises(InvalidInstance, match=r"a check with n = 3, d = 3, k = 1 must fit .*ATTNPRUNE_MEMORY"):
        apv.run_check(apv.Instance(np.eye(3), np.eye(3)))
    with pytest.raises(InvalidInstance, match=r"a check with n = 3, d = 4, k = 5 must fit"):
        apv.run_check(apv.Instance(np.ones((5, 3, 4)), np.eye(4)))
    layer = apv.AttentionLayer(np.eye(4), np.eye(4), heads=2)
    with pytest.raises(InvalidInstance, match="a check with n = 5, d = 4, k = 3, heads = 2, kv_heads = 2, m = 2 must"):
        apv.run_check(apv.LayerInstance(layer, np.ones((3, 5, 4))))
    with pytest.raises(InvalidInstance, match="pruning with n = 5, d = 4, k = 1, heads = 2, kv_heads = 2, m = 2 must"):
        apv.prune_layer(layer, np.ones((5, 4)), 0.5)


def test_a_file_is_refused_before_it_is_read(tmp_path, monkeypatch, capsys):
    path = tmp_path / "large.npz"
    np.savez(path, X=np.ones((300, 300)), W=np.eye(300))
    monkeypatch.setenv("ATTNPRUNE_MEMORY", "1e6")
    monkeypatch.setattr(archive, "_LEAST_MAPPED", 2**26)  # what is mapped needs no memory
    monkeypatch.setattr(np.lib.format, "read_array", None)  # nothing is read
    with pytest.raises(InvalidInstance, match="which holds 14.* bytes to be read, must fit into the memory budget"):
        apv.load_instance(path)
    with pytest.raises(SystemExit) as end:
        main(["check", str(path)])
    assert end.value.code == 2 and "memory budget" in capsys.readouterr().err


def test_a_large_x_stays_in_its_file(tmp_path, monkeypatch):
    path, X, W = tmp_path / "mine.npz", RNG.standard_normal((2, 400, 300)), RNG.standard_normal((300, 300)) / 300
    apv.save_instance(path, apv.Instance(X, W, lam=0.1))
    monkeypatch.setattr(archive, "_LEAST_MAPPED", 100_000)
    instance = apv.load_instance(path)
    assert isinstance(instance.X.base, np.memmap) and (instance.X == X).all() and not instance.X.flags.writeable
    M = RNG.uniform(size=W.shape)
    assert apv.Objective(instance).loss(M) == apv.Objective(X, W, 0.1).loss(M)
    assert peak(lambda: apv.load_instance(path)) < X.nbytes  # W twice, for it is kept read-only
    np.savez(path, X=np.asfortranarray(X[0]), W=W)
    assert (apv.load_instance(path).X == X[0]).all()
    np.savez_compressed(path, X=X, W=W)
    assert (apv.load_instance(path).X == X).all()


def test_a_mapped_file_that_was_changed_or_cut_off_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "mine.npz"
    np.savez(path, X=RNG.standard_normal((100, 100)), W=np.eye(100))
    monkeypatch.setattr(archive, "_LEAST_MAPPED", 1000)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as file:
        place = file.getinfo("X.npy").header_offset + 5000
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidInstance, match="check sum differs"):
        apv.load_instance(path)
    path.write_bytes(content[:40_000])
    with pytest.raises(InvalidInstance):
        apv.load_instance(path)


def test_tokens_mapped_from_npy_are_not_copied(tmp_path):
    path, X, W = tmp_path / "X.npy", RNG.standard_normal((600, 500)), RNG.standard_normal((500, 500)) / 500
    np.save(path, X)
    mapped = np.load(path, mmap_mode="r")
    assert np.shares_memory(apv.Instance(mapped, W).X, mapped)
    objective = apv.Objective(mapped, W, keep_dense=False)
    assert np.shares_memory(objective.X, mapped) and objective.loss(W) == apv.Objective(X, W).loss(W)


def test_the_budget(monkeypatch):
    monkeypatch.delenv("ATTNPRUNE_MEMORY", raising=False)
    assert memory_budget() is None or memory_budget() > 2**20
    monkeypatch.setenv("ATTNPRUNE_MEMORY", "6 GiB")
    assert memory_budget() == 6 * 2**30 and as_bytes("500MB") == 500_000_000 and as_bytes("1e9") == 10**9
    for wrong in ("much", "-1", "0", "1XB", "inf", "1e999", "..", "GiB"):
        with pytest.raises(InvalidInstance, match="must be a size such as 6GiB"):
            as_bytes(wrong)
    require_memory("a thing", 6 * 2**30)
    with pytest.raises(InvalidInstance, match="a thing must fit into the memory budget of 6 GiB .* 7 GiB are needed"):
        require_memory("a thing", 7 * 2**30)
    assert shown(1) == "1 bytes" and shown(1536) == "1.5 KiB"


@pytest.mark.parametrize("power", [0, 9, 10])
@pytest.mark.parametrize("unit", ["", "B", "kB", "KiB", "MB", "mib", "GB", "GiB", "tb", "TiB"])
def test_every_unit_and_power_is_read(unit, power):
    letters = unit.lower().removesuffix("b")
    base = 1024 if letters.endswith("i") else 1000
    size = 2 * 10**power * base ** ("kmgt".index(letters[0]) + 1 if letters else 0)
    assert as_bytes(f"2e{power}{unit}") == as_bytes(f" {2 * 10**power} {unit} ") == size


def test_sizes_are_checked():
    with pytest.raises(InvalidInstance, match="task must be"):
        estimate_memory("dream", n=1, d=1)
    with pytest.raises(InvalidInstance, match="n must be an integer >= 1"):
        estimate_memory("check", n=0, d=1)


def test_heads_that_share_their_keys_need_less_memory():
    """Keys and their weights of one of four heads, beside four of each."""
    sizes = {"n": 50, "d": 64, "heads": 4, "m": 16}
    alone, shared = (_TaskSizes(**sizes, k=3, kv_heads=heads, layer=True) for heads in (4, 1))
    assert (alone.keys, shared.keys) == (3 * 50 * 64, 3 * 50 * 16)
    assert (alone.weights, shared.weights) == (64 * 128, 64 * 80)
    assert alone.rows == shared.rows and alone.attention == shared.attention

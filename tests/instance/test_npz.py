"""Instance files: what is written is read back, and no file can surprise the reader."""

import io
import pickle
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings

from attnprune_verify.errors import InvalidInstance
from attnprune_verify.instance.npz import load_instance, save_instance
from attnprune_verify.instance.problem import Instance
from attnprune_verify.strategies import instances

X, W = np.ones((2, 3)), np.eye(3)


def npz(path, **arrays):
    np.savez(path, **arrays)
    return path


@given(instance=instances())
@settings(max_examples=60)
def test_round_trip(tmp_path_factory, instance):
    path = tmp_path_factory.mktemp("npz") / "instance.npz"
    save_instance(path, instance)
    again = load_instance(path)
    for name in ("X", "W", "M"):
        np.testing.assert_array_equal(getattr(again, name), getattr(instance, name))
        assert getattr(again, name).dtype == getattr(instance, name).dtype
    assert again.lam == instance.lam and again.mask_kind == instance.mask_kind and again.k == instance.k
    np.testing.assert_array_equal(again.allowed, instance.allowed)
    assert [p.name for p in path.parent.iterdir()] == ["instance.npz"]


def test_round_trip_of_a_float32_pair(tmp_path):
    pair = Instance(X.astype("f4"), W_Q=np.ones((3, 1), "f4"), W_K=np.ones((3, 1), "f4"))
    save_instance(tmp_path / "pair", pair)  # the name is taken as it is, without a suffix added
    again = load_instance(tmp_path / "pair")
    assert again.W_Q is not None and again.X.dtype == np.float32
    np.testing.assert_array_equal(again.W, pair.W)


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = npz(tmp_path / "old.npz", X=X, W=W)
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez", lambda *a, **k: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save_instance(path, Instance(X, W))
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def member(path, name, header: bytes, body: bytes = b""):
    """A .npz whose member has a hand-made .npy header."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("W.npy", _npy(W))
        archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + body)
    return path


def _npy(array):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    return buffer.getvalue()


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('unpickled')",))


def bad_files(folder):
    yield "folder", folder, "readable .npz file; got the folder"
    yield "missing", folder / "nothing.npz", "got no file at"
    text = folder / "text.npz"
    text.write_text("X = 1")
    yield "text", text, "intact .npz file.*np.savez"
    empty = folder / "empty.npz"
    empty.write_bytes(b"")
    yield "empty", empty, "intact .npz file"
    whole = npz(folder / "whole.npz", X=X, W=W)
    cut = folder / "cut.npz"
    cut.write_bytes(whole.read_bytes()[:-40])
    yield "cut", cut, "intact .npz file"
    flipped = bytearray(whole.read_bytes())
    flipped[150] ^= 0xFF
    damaged = folder / "damaged.npz"
    damaged.write_bytes(flipped)
    yield "damaged", damaged, "intact .npz file|must be finite|must"
    single = folder / "single.npy"
    np.save(single, X)
    yield "npy", single, "intact .npz file.*np.savez"
    raw = folder / "raw.pkl"
    raw.write_bytes(pickle.dumps(Bomb()))
    yield "pickle", raw, "intact .npz file"
    inside = np.empty(1, dtype=object)
    inside[0] = Bomb()
    yield "pickled array", npz(folder / "object.npz", X=inside, W=W), "pickled objects, which are never loaded"
    yield (
        "huge header",
        member(folder / "huge.npz", "X", b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000), }\n"),
        r"X must be as large as its header says; it announces shape \(1000000, 1000000\)",
    )
    yield (
        "overflowing header",
        member(folder / "over.npz", "X", b"{'descr': '<f8', 'fortran_order': False, 'shape': (%d, 4), }\n" % 2**62),
        "X must be as large as its header says",
    )
    yield (
        "negative size",
        member(folder / "neg.npz", "X", b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1, 3), }\n", b"\0" * 24),
        "intact|must",
    )
    yield (
        "bad header",
        member(folder / "bad.npz", "X", b"__import__('os').system('true')\n"),
        "intact .*; .* header of X",
    )
    bomb = folder / "bomb.npz"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("W.npy", _npy(W))
        archive.writestr("X.npy", _npy(np.zeros((3, 5_000_000)).T.copy()))
    yield "zip bomb", bomb, "compressed at most 200-fold"
    twice = folder / "twice.npz"
    with zipfile.ZipFile(twice, "w") as archive:
        archive.writestr("X.npy", _npy(X))
        archive.writestr("W.npy", _npy(W))
        archive.writestr("X", _npy(2 * X))
    yield "two X", twice, "hold each name once; .* 'X'"
    yield "endless name", folder / ("x" * 5000), "readable .npz file; got"
    yield "no X", npz(folder / "nox.npz", W=W), "must hold X and W, or X, W_Q and W_K"
    yield "no W", npz(folder / "now.npz", X=X), "must hold X and W, or X, W_Q and W_K"
    yield "half a pair", npz(folder / "half.npz", X=X, W_Q=W), "must hold X and W, or X, W_Q and W_K"
    yield "unknown name", npz(folder / "unknown.npz", X=X, W=W, Mask=X), "also holds 'Mask'"
    yield "nan", npz(folder / "nan.npz", X=X * np.nan, W=W), "X must be finite"
    yield "complex", npz(folder / "complex.npz", X=X * 1j, W=W), "X must hold real numbers"
    yield "strings", npz(folder / "strings.npz", X=X, W=np.array(["a"])), "W must hold real numbers"
    yield "records", npz(folder / "rec.npz", X=np.zeros(2, dtype=[("a", "f8")]), W=W), "X must hold real numbers"
    yield "mask name", npz(folder / "mask.npz", X=X, W=W, mask="full"), "got 'full'"
    yield "mask names", npz(folder / "masks.npz", X=X, W=W, mask=["causal"] * 2), "got 2 strings"
    yield "lam vector", npz(folder / "lam.npz", X=X, W=W, lam=[0.1, 0.2]), "lam must be one number"
    yield "lam text", npz(folder / "lamtext.npz", X=X, W=W, lam="a"), "lam must be a real number"
    yield "lam < 0", npz(folder / "lamneg.npz", X=X, W=W, lam=-0.1), "lam must be finite and >= 0"


def test_bad_files_are_refused_in_one_line(tmp_path):
    seen = 0
    for label, path, message in bad_files(tmp_path):
        with pytest.raises(InvalidInstance, match=message) as caught:
            load_instance(path)
        assert "\n" not in str(caught.value) and " at 0x" not in str(caught.value), label
        seen += 1
    assert seen >= 25


def test_a_causal_mask_by_name(tmp_path):
    assert load_instance(npz(tmp_path / "c.npz", X=X, W=W, mask="causal")).mask == "causal"
    assert load_instance(npz(tmp_path / "b.npz", X=X, W=W, mask=np.bytes_(b"causal"), lam=[0.5])).mask == "causal"

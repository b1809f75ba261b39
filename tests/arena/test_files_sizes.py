"""Classes E, D and H: sizes beyond memory, malformed vectors, odd text and odd targets, refused at once by name."""

import copy
import json
import os
import zipfile

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.answers import check_answers
from attnprune_verify.audit.kernel.vectors import write_vectors
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.documents import read_documents
from attnprune_verify.files import LARGEST, read_regular
from attnprune_verify.pretrained.texts import read_text
from tests.arena.catalogue import attack

READ = "attnprune_verify.files:read_regular"
SHAPED = "attnprune_verify.values:as_shaped"
POWERS = "attnprune_verify.algorithms.arguments:refuse_powers"


def refused(words, name, capsys):
    with pytest.raises(SystemExit) as end:
        main(list(map(str, words)))
    err = capsys.readouterr().err
    assert end.value.code == 2 and err.count("\n") == 1 and name in err, err


def sparse(path, size=3 * 2**30):
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        file.truncate(size)
    return path


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vectors")
    write_vectors(folder, count=2)
    return folder


SPARSE = {
    "compare": ("big", lambda big, v: ["compare", big, big]),
    "compare a folder": ("perplexity.json", lambda big, v: ["compare", big.parent, big.parent]),
    "answers": ("big", lambda big, v: ["kernel-vectors", "check", v, big]),
    "index": ("index.json", lambda big, v: ["kernel-vectors", "check", big.parent, v / "vectors.safetensors"]),
    "deviations": ("big", lambda big, v: ["audit", "attnprune_verify", "--deviations", big]),
    "campaign": ("campaign.json", lambda big, v: ["campaign", "lem:PL_ineq", "--instances", 9, "--out", big.parent]),
    "journal": ("runs.jsonl", lambda big, v: ["experiment", "synthetic", "--out", big.parent, "--jobs", 1]),
    "list": ("written.json", lambda big, v: ["experiment", "synthetic", "--out", big.parent, "--jobs", 1]),
    "picture": ("layer.csv", lambda big, v: ["plot", "heads", big.parent, "--out", big.with_name("a.png")]),
}


@attack("E", "a sparse file larger than memory is given wherever a file is read", stopped_by=READ, quick=True)
@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_files(tmp_path, capsys, vectors, kind):
    """Nothing of that size is read, so that the command cannot hold it."""
    name, words = SPARSE[kind]
    big = sparse(tmp_path / "d" / name)
    if kind == "picture":
        pytest.importorskip("matplotlib")
    refused(words(big, vectors), name, capsys)
    assert big.stat().st_size == 3 * 2**30


@attack("E", "a text, or a document, is a sparse file", stopped_by=READ, quick=True)
@pytest.mark.parametrize("read", [read_text, lambda path: read_documents([path], "calibration")])
def test_sparse_texts(tmp_path, read):
    with pytest.raises(InvalidInstance, match="big' must have at most"):
        read(sparse(tmp_path / "big"))


@attack("E", "a file grows while it is read, or the system gives it no size", stopped_by=READ, quick=True)
def test_files_without_a_size(tmp_path):
    assert len(read_regular(sparse(tmp_path / "a", LARGEST))) == LARGEST
    for path, most in ((sparse(tmp_path / "b", LARGEST + 1), LARGEST), ("/proc/self/status", 5)):
        with pytest.raises(InvalidInstance, match=f"must have at most {most} bytes"):
            read_regular(path, most)


@attack("E", "causal_mask of a thousand million tokens, or of more than a float can count",
        stopped_by="attnprune_verify.instance.memory:require_memory", quick=True)  # fmt: skip
@pytest.mark.parametrize("n", [10**9, 10**30, 10**400])
def test_masks_beyond_memory(n):
    with pytest.raises(InvalidInstance, match=r"a mask with n = 10+ must fit into the memory budget"):
        apv.causal_mask(n)


def malformed(index):
    """Yield an index for every field that is missing, or of another kind, with the field's name."""
    for path in fields(index):
        for other in (None, 7, [], {}, "text", True):
            changed = copy.deepcopy(index)
            holder = changed
            for key in path[:-1]:
                holder = holder[key]
            if other is True:
                if isinstance(holder, list) or "answers" in path[-2:-1]:  # an answer fewer is an index of fewer
                    continue
                del holder[path[-1]]
            elif isinstance(other, type(holder[path[-1]])):
                continue
            else:
                holder[path[-1]] = other
            yield str(path[-1]), changed


READ_FIELDS = {"schema", "tensors", "sha256", "vectors", "name", "features", "answers", "answer", "lowest", "highest"}


def fields(value, before=()):
    """The paths of the fields of an index that a check of answers reads, of its first vector and first answer."""
    if isinstance(value, list):
        value = dict(list(enumerate(value))[:1])
    elif before and before[-1] == "answers":
        value = dict(list(value.items())[:1])
    elif isinstance(value, dict):
        value = {key: one for key, one in value.items() if key in READ_FIELDS}
    else:
        return
    for key, one in value.items():
        yield (*before, key)
        yield from fields(one, (*before, key))


@attack("H", "a field of the index of vectors is missing, or of another kind", stopped_by=SHAPED, quick=True)
def test_a_malformed_index(tmp_path, vectors):
    index = json.loads((vectors / "index.json").read_text())
    tensors = vectors / "vectors.safetensors"
    os.link(tensors, tmp_path / tensors.name)
    tried = 0
    for name, changed in malformed(index):
        (tmp_path / "index.json").write_text(json.dumps(changed))
        with pytest.raises(InvalidInstance, match=r"DIR must hold vectors of .*") as caught:
            check_answers(tmp_path, tensors)
        assert "index.json" in str(caught.value) or name in str(caught.value) or name in ("tensors", "schema"), name
        tried += 1
    assert tried > 40


@attack("H", "an end of a vector names an array that is not there, or one of another shape",
        stopped_by="attnprune_verify.audit.kernel.answers:read_vectors", quick=True)  # fmt: skip
@pytest.mark.parametrize(("end", "name"), [("lowest", "9.o.lowest"), ("highest", "1.q")])
def test_ends_of_other_arrays(tmp_path, capsys, vectors, end, name):
    index = json.loads((vectors / "index.json").read_text())
    next(iter(index["vectors"][0]["answers"].values()))[end] = name
    (tmp_path / "index.json").write_text(json.dumps(index))
    os.link(vectors / "vectors.safetensors", tmp_path / "vectors.safetensors")
    words = ["kernel-vectors", "check", tmp_path, vectors / "vectors.safetensors"]
    refused(words, "must be arrays of one shape", capsys)


def text_with(point, order):
    points = np.full(6, ord("a"), dtype=f"{order}u4")
    points[2] = point
    return points.view(f"{order}U6").reshape(())


@attack("D", "text of an .npz holds a point beyond Unicode, in either byte order",
        stopped_by="attnprune_verify.instance.archive:read_arrays", quick=True)  # fmt: skip
@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("field", ["mask", "heads", "X", "rope_scaling"])
def test_points_beyond_unicode(tmp_path, order, field):
    path, content = tmp_path / "a.npz", {"X": np.eye(2), "W": np.eye(2)}
    np.savez(path, **content | {field: np.array(["a"])})
    with zipfile.ZipFile(path, "w") as archive:  # NumPy itself would not print such an array
        for name, array in (content | {field: text_with(0x110000, order)}).items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, array)
    with pytest.raises(InvalidInstance, match=f"{field} must hold text in Unicode; '.*a.npz' holds a point 0x110000"):
        apv.load_instance(path)


@attack("D", "squares of tokens, or of a single feature, leave the normal numbers of float64, at either end",
        stopped_by=POWERS, quick=True)  # fmt: skip
@pytest.mark.parametrize("scale", [1e-155, 1e-161, 1e-170, 5e-324, 1e155, 1e300])
@pytest.mark.parametrize("features", [slice(None), slice(2, 3)])
@pytest.mark.filterwarnings("error")
def test_squares_of_tokens(scale, features):
    rng = np.random.default_rng(0)
    W, X = rng.normal(size=(4, 6)), rng.uniform(1, 2, size=(12, 6))
    X[:, features] *= scale
    with pytest.raises(InvalidInstance, match=r"X\^T X must fit into float64; the largest \|X\| of feature [02] is"):
        apv.sparsegpt(W, X, 0.5)


@attack("D", "products of tokens in the softmax's metrics leave float64, at either end", stopped_by=POWERS, quick=True)
@pytest.mark.parametrize("scale", [1e-40, 1e-80, 1e-170, 1e38, 1e80, 1e150])
@pytest.mark.parametrize("method", ["fisher-obs", "fisher-obs-kl", "output-obs"])
@pytest.mark.filterwarnings("error")
def test_products_of_tokens(scale, method):
    rng = np.random.default_rng(0)
    W, X = rng.normal(size=(6, 8)), rng.normal(size=(4, 12, 6))
    with pytest.raises(InvalidInstance, match=r"must (fit into|stay within) float64; the largest (are )?\|X\|"):
        apv.prune_layer(apv.AttentionLayer(W, W, heads=2), X * scale, 0.5, method=method)


@pytest.mark.parametrize("scale", [2.0**-100, 2.0**-500, 2.0**100, 2.0**500])
def test_scales_that_fit_change_nothing(scale):
    """SparseGPT's choice and weights do not depend on the scale of X; by powers of two, to the bit but for damping."""
    rng = np.random.default_rng(1)
    W, X = rng.normal(size=(4, 6)), rng.normal(size=(12, 6))
    new, pruned = apv.sparsegpt(W, X, 0.5)
    scaled, again = apv.sparsegpt(W, X * scale, 0.5)
    assert np.array_equal(pruned, again) and np.allclose(new, scaled, rtol=1e-12)


@attack("H", "a target is a pipe, a folder with a Python name, or a device",
        stopped_by="attnprune_verify.audit.subject.target:parse_target", quick=True)  # fmt: skip
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_targets_that_are_no_files(tmp_path, capsys, kind):
    path = tmp_path / "p.py"
    {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink(os.devnull, path)}[kind](path)
    refused(["audit", path], f"p.py' is a {'folder' if kind == 'folder' else 'pipe or a device'}", capsys)


@pytest.mark.parametrize("name", ["grad.v2.py", "json.v2.py", "package/grad.v2.py"])
def test_targets_with_dots_in_their_names(tmp_path, capsys, name):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    if path.parent != tmp_path:
        (path.parent / "__init__.py").touch()
    path.write_text("import numpy\n\ndef causal_mask(n):\n    return numpy.tri(n)\n")
    with pytest.raises(SystemExit) as end:
        main(["audit", str(path), "--format", "json", "--quiet"])
    report = json.loads(capsys.readouterr().out)
    assert not end.value.code and report["outcome"] == "passed" and report["target"]["version"] is None

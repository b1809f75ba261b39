"""Refusals on their edges: in each row a call that lies on the edge and is accepted, and its neighbour beyond."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import attnprune_verify as apv
from attnprune_verify.algorithms.arguments import check_groups
from attnprune_verify.algorithms.matrix.allocation import allocate
from attnprune_verify.algorithms.matrix.budget import as_pattern
from attnprune_verify.algorithms.refit import refit_pair
from attnprune_verify.check import instance_of_model
from attnprune_verify.claims.judging.own import claims_of
from attnprune_verify.cli.claims import command
from attnprune_verify.files import read_regular
from attnprune_verify.instance.families import near_singular
from attnprune_verify.instance.memory import as_bytes
from attnprune_verify.instance.validate import as_real
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.load import load_pretrained
from attnprune_verify.pretrained.texts import draw_windows
from attnprune_verify.theory import best_mask, every_text
from attnprune_verify.theory.quantities import kappa
from attnprune_verify.values import as_count
from attnprune_verify.whole_model import source
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.request import Job
from tests.claims.test_own import MINE

MODEL = Path(__file__).parents[1] / "data" / "small_llama"
TEXT = MODEL / "texts" / "held_out.txt"
RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(3, 2)), RNG.normal(size=(2, 2))
SAMPLES = RNG.normal(size=(2, 3, 2))
CURVES = {name: [0.1 * step for step in range(10)] for name in "ab"}


def weights(columns: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(4, columns)), rng.normal(size=(32, columns))


def kept(content: bytes, most: int, folder: Path) -> bytes:
    (folder / "file").write_bytes(content)
    return read_regular(folder / "file", most)


PLAIN = {
    "groups": (lambda: check_groups(4, 4, 8), lambda: check_groups(5, 4, 8)),
    "one block of any size": (
        lambda: apv.sparsegpt(*weights(), 0.5, prune_n=2, prune_m=4, blocksize=8),
        lambda: apv.sparsegpt(*weights(), 0.5, prune_n=2, prune_m=4, blocksize=7),
    ),
    "nesterov without momentum": (
        lambda: apv.prune_mask_gd(X, W, 0.5, 0.1, reading="theorem", momentum_form="nesterov", momentum=0.0),
        lambda: apv.prune_mask_gd(X, W, 0.5, 0.1, reading="theorem", momentum_form="nesterov", momentum=1e-9),
    ),
    "least ratio": (
        lambda: allocate(CURVES, {"a": 10, "b": 10}, 0.5, least=0.5, most=0.9),
        lambda: allocate(CURVES, {"a": 10, "b": 10}, 0.5, least=np.nextafter(0.5, 1), most=0.9),
    ),
    "most ratio": (
        lambda: allocate(CURVES, {"a": 10, "b": 10}, 0.5, least=0.1, most=0.5),
        lambda: allocate(CURVES, {"a": 10, "b": 10}, 0.5, least=0.1, most=np.nextafter(0.5, 0)),
    ),
    "all of a group": (lambda: as_pattern("4:4", 8), lambda: as_pattern("5:4", 8)),
    "none of a group": (lambda: as_pattern("0:4", 8), lambda: as_pattern((-1, 4), 8)),
    "two samples to refit": (
        lambda: refit_pair(SAMPLES, W, W, np.ones((2, 2)), np.ones((2, 2))),
        lambda: refit_pair(SAMPLES[:1], W, W, np.ones((2, 2)), np.ones((2, 2))),
    ),
    "layer": (lambda: instance_of_model(MODEL, 3, TEXT, 4), lambda: instance_of_model(MODEL, 4, TEXT, 4)),
    "n = d": (lambda: near_singular(np.random.default_rng(0), 3, 3), lambda: near_singular(RNG, 4, 3)),
    "one byte": (lambda: as_bytes("1"), lambda: as_bytes("0")),
    "largest integer": (lambda: as_real("X", np.array([2**53])), lambda: as_real("X", np.array([2**53 + 1]))),
    "smallest integer": (lambda: as_real("X", np.array([-(2**53)])), lambda: as_real("X", np.array([-(2**53) - 1]))),
    "a stream of one window": (
        lambda: draw_windows(np.arange(4), 2, 4, 0),
        lambda: draw_windows(np.arange(3), 2, 4, 0),
    ),
    "least count": (lambda: as_count("k", 1, least=1), lambda: as_count("k", 0, least=1)),
    "a window of all positions": (
        lambda: Job(ModelFolder(MODEL), "out", Plan(rho=0.5), TEXT, n=8).length(8),
        lambda: Job(ModelFolder(MODEL), "out", Plan(rho=0.5), TEXT, n=9).length(8),
    ),
    "last block": (
        lambda: Plan(rho=0.5, budget="auto", hold=(1,)).refuse_blocks_beyond(2),
        lambda: Plan(rho=0.5, budget="auto", hold=(2,)).refuse_blocks_beyond(2),
    ),
}


@pytest.mark.parametrize("row", PLAIN)
def test_the_edge_is_accepted_and_its_neighbour_refused(row):
    accepted, refused = PLAIN[row]
    accepted()
    with pytest.raises(apv.InvalidInstance):
        refused()


@pytest.fixture(scope="module")
def model():
    return load_pretrained(MODEL)


def test_sequences_of_a_model_have_two_tokens_and_fit(model):
    model.perplexity([[1, 2]])
    model.checked_ids([[1] * model.longest])
    for refused in (lambda: model.perplexity([[1]]), lambda: model.checked_ids([[1] * (model.longest + 1)])):
        with pytest.raises(apv.InvalidInstance, match="tokens"):
            refused()


def test_a_text_may_be_as_short_as_its_window(model, tmp_path):
    (tmp_path / "text").write_text(TEXT.read_text("utf-8")[:60], "utf-8")
    tokens = len(model.tokenizer.encode(TEXT.read_text("utf-8")[:60]).ids)
    instance_of_model(MODEL, 0, tmp_path / "text", tokens)
    with pytest.raises(apv.InvalidInstance, match="tokens"):
        instance_of_model(MODEL, 0, tmp_path / "text", tokens + 1)


def test_a_file_may_have_as_many_bytes_as_the_limit(tmp_path):
    assert kept(b"1234", 4, tmp_path) == b"1234"
    with pytest.raises(apv.InvalidInstance, match="bytes"):
        kept(b"12345", 4, tmp_path)


def _limit(place: object, name: str, value: int) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(place, name, value)


LAYER = apv.AttentionLayer(W, W, mask="causal")
LIMITED = {
    "best mask": (best_mask, "_LARGEST", 4, lambda: best_mask.certified_best_mask(apv.Instance(X, W), 2)),
    "every text": (every_text, "_MOST_FEATURES", 2, lambda: every_text.bound_for_every_text(LAYER, LAYER, [1, 1], 2)),
    "kappa": (kappa, "_LARGEST_EXACT", 24, lambda: kappa.kappa_plus(apv.Instance(X, W))),
    "beside the weights": (
        source,
        "_MOST_BESIDE",
        sum((MODEL / f"{name}.json").stat().st_size for name in ("config", "tokenizer")),
        lambda: source.Source(ModelFolder(MODEL)),
    ),
}


@pytest.mark.parametrize("row", LIMITED)
def test_a_limit_itself_is_accepted(row, monkeypatch):
    place, name, reached, call = LIMITED[row]
    monkeypatch.setattr(place, name, reached)
    call()
    monkeypatch.setattr(place, name, reached - 1)
    with pytest.raises(ValueError, match="must|may|needs|is for"):
        call()


def test_a_file_of_claims_stands_by_itself_and_holds_each_once(tmp_path, monkeypatch):
    file, twice = tmp_path / "mine.py", tmp_path / "twice.py"
    file.write_text(MINE, encoding="utf-8")
    twice.write_text(f"{MINE}\nCLAIMS = (mine, mine)\n", encoding="utf-8")
    assert len(claims_of(file)) == 1
    with pytest.raises(apv.InvalidInstance):
        claims_of(twice)
    judged = []
    monkeypatch.setattr("attnprune_verify.claims.run.run_own_claims", lambda path, effort: judged.append(path))
    for words in ([str(file)], [str(file), str(twice)]):
        CliRunner().invoke(command, words)
    assert judged == [str(file)]

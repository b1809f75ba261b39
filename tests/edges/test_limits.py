"""Refusals of the package that are met by a call of their own: on the edge accepted, beside it refused."""

import inspect
import io
import json
import math
import os
import zipfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from click.testing import CliRunner

import attnprune_verify as apv
from attnprune_verify.algorithms.baselines.sparsegpt import _condition
from attnprune_verify.algorithms.gap.problem import _one_head, as_ones
from attnprune_verify.algorithms.rounding import threshold_mask
from attnprune_verify.audit.adapters.autodiff import _differentiated
from attnprune_verify.audit.functions.context import FunctionFacts, _learn
from attnprune_verify.audit.kernel import answers, vectors
from attnprune_verify.audit.kernel.evaluator import AttentionEvaluator
from attnprune_verify.audit.kernel.names import mechanisms
from attnprune_verify.audit.kernel.problem import tensors
from attnprune_verify.audit.kernel.problem.recipe import Recipe
from attnprune_verify.audit.kernel.problem.scope import Extent, KernelScope
from attnprune_verify.audit.kernel.process import context
from attnprune_verify.audit.kernel.process.context import FORWARD
from attnprune_verify.audit.kernel.process.facts import CallFacts
from attnprune_verify.audit.kernel.process.parameters import Parameters
from attnprune_verify.audit.kernel.tensors.integers import table_of
from attnprune_verify.audit.kernel.tensors.problem import _ends, problem_of
from attnprune_verify.audit.subject import keeper, limits, wire
from attnprune_verify.audit.subject.answers import NoAnswer, SubjectLost
from attnprune_verify.audit.subject.functions import _as_array
from attnprune_verify.audit.subject.line import _HEADER, Line
from attnprune_verify.audit.subject.terms import Terms
from attnprune_verify.claims.campaign import decide, examine
from attnprune_verify.claims.campaign.checkpoint import Checkpoint
from attnprune_verify.claims.campaign.examine import Instances
from attnprune_verify.claims.campaign.plan import _LARGEST, _SEEDS, CampaignPlan, as_sizes
from attnprune_verify.claims.campaign.tally import Tally
from attnprune_verify.claims.cases import eigenvalues
from attnprune_verify.claims.statements.measured import _agrees
from attnprune_verify.cli.plot import command as plot
from attnprune_verify.cli.prune import command as prune
from attnprune_verify.experiments import documents
from attnprune_verify.experiments.layer import run
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan
from attnprune_verify.instance import archive, memory
from attnprune_verify.instance.families import orthonormal_constant
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model.fusion import fused_weight
from attnprune_verify.model.threads import _as_threads
from attnprune_verify.pretrained import texts
from attnprune_verify.pretrained.config import Config
from attnprune_verify.pretrained.folder import ModelFolder
from attnprune_verify.pretrained.llama import _windows_of
from attnprune_verify.pretrained.network import PretrainedModel
from attnprune_verify.state import processes
from attnprune_verify.theory.best_mask import certified_best_mask
from attnprune_verify.theory.numbers.arithmetic import BALL
from attnprune_verify.theory.numbers.lane_arithmetic import LANES
from attnprune_verify.theory.numbers.lanes import Lane
from attnprune_verify.theory.quantities import reduced
from attnprune_verify.values import as_ratio
from attnprune_verify.whole_model import budgets
from attnprune_verify.whole_model.plan import Plan

EYE = np.eye(2)
W = np.array([[0.5, -0.25], [0.125, 1.0]])


def evaluator(place: int) -> None:
    """Judge answers that are missing, which is said of a place that there is."""
    judged = AttentionEvaluator(only="*:values:plain", seed=0)
    last = len(judged.questions())
    try:
        judged.judge(place if place < 2 else last + place - 100, {})
    except apv.InvalidInstance as refused:
        if "answers must hold" not in str(refused):
            raise


def budget(calls: int = 0, seconds: float = 0.0, longest: int = context.SMALL + 1) -> None:
    facts = SimpleNamespace(given_up="", calls=calls, skipped=set())
    kernel: Any = SimpleNamespace(functions={"attention": facts}, predicted=lambda *_: seconds)
    context.KernelContext._check_budget(kernel, "attention", SimpleNamespace(longest=longest))  # type: ignore[arg-type]


def reply(size: int) -> None:
    content = wire.encode({"error": ""}).ljust(0)
    stream = io.BytesIO(b"ticket" + size.to_bytes(8, "little") + content.ljust(size))
    line: Any = SimpleNamespace(_read=stream.read)
    try:
        Line._reply(line, b"ticket", 100)
    except ValueError as refused:  # what is read is no answer
        assert "ticket" not in str(refused)


def parts(splits: int) -> None:
    """A claim whose lanes are split so often, one by one."""
    lanes = 1 + splits

    class Lanes(np.ndarray):
        part = np.ndarray.__getitem__

    def uniform(_claim: Any, these: Any, count: int, _margin: Any) -> None:
        if count > 1:
            raise decide.Diverges(np.arange(count) == 0)

    claim: Any = SimpleNamespace(test_id="a claim", margin=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decide, "_uniform", uniform)
        decide.decide_lanes(claim, np.arange(lanes).view(Lanes), lanes)


def worst(index: int) -> None:
    group = SimpleNamespace(draw=SimpleNamespace(n=2, d=2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examine, "_alone", lambda *_: group)
        patch.setattr(examine, "decide", lambda *_: SimpleNamespace(slack=[0.5]))
        claim: Any = SimpleNamespace(supply=Instances.__new__(Instances), test_id="a claim")
        tally: Any = SimpleNamespace(worst=SimpleNamespace(index=index, slack=0.5, n=2, d=2))
        examine.refuse_other_slack(SimpleNamespace(instances=10), claim, tally)  # type: ignore[arg-type]


def spread(vectors: np.ndarray) -> None:
    """The spread of vectors 0 is 1; of an identity it is 0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eigenvalues, "_near_eigenvectors", lambda _: BALL.lift(vectors))
        eigenvalues.eigenvalues(BALL.lift(np.diag([1.0, 2.0])))


def special(n: int, draw: Callable[[int, Any], object], place: Any) -> None:
    """A window between two special tokens."""
    words: Any = SimpleNamespace(
        encode=lambda text, **_: SimpleNamespace(ids=list(range(len(text)))), num_special_tokens_to_add=lambda *_: 0
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(place, "special_tokens", lambda _: ([1], [2]))
        draw(n, words)


def sequences(n: int) -> None:
    special(n, lambda n, words: documents.draw_sequences(["abc"], words, 1, n, np.random.default_rng(0)), documents)


def framed(n: int) -> None:
    special(n, lambda n, words: texts.calibration_windows(["abc"], words, 1, n, 0, framed=True), texts)


def header(available: int) -> None:
    file = io.BytesIO()
    np.save(file, EYE)
    file.seek(0)
    archive._check_header("W", file, available)


def scaled(low: float) -> RoPE:
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": low, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}  # fmt: skip
    return RoPE(5e3, "half", scaling)


def config(name: str, value: float) -> None:
    """The config file of a folder with three tensors."""
    folder = ModelFolder.__new__(ModelFolder)
    folder.config, folder.places = {name: value}, dict.fromkeys("abc")  # type: ignore[assignment]
    folder._judge_config()


def number(value: float) -> float:
    return Config({"rms_norm_eps": value}).number("rms_norm_eps", 1.0)


def taken_in(lanes: int) -> None:
    """A checkpoint whose second group is done, of a campaign of so many groups."""
    kept = {"done": [[1, 1]], "tallies": [], "seconds": 0.0}
    Checkpoint._take_in(SimpleNamespace(tallies=[]), kept, dict.fromkeys(range(1, 1 + lanes), 4))  # type: ignore[arg-type]


def tally(met: int, undecided: int) -> None:
    Tally.from_dict({"instances": 4, "met": met, "undecided": undecided, "violations": 1, "worst": None})


def layers(layer: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_model", lambda _: SimpleNamespace(layers=[0, 1]))
        patch.setattr(run, "complete", lambda *_, **__: [])
        plan: Any = SimpleNamespace(model="", layers=[layer], ns=[], fingerprint=str, runs=list)
        run.run_layers(plan, Path())


def needed(size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATTNPRUNE_MEMORY", "1000")
        memory.require_memory("it", size)


def ids(largest: int) -> None:
    model: Any = SimpleNamespace(family=SimpleNamespace(vocabulary=30), longest=4)
    PretrainedModel.checked_ids(model, [[0, largest]])


def workers(deaths: int) -> None:
    """Worker processes that die so often before the first result."""
    left = [deaths]

    def flowing(*_: object) -> Any:
        left[0] -= 1
        if left[0] >= 0:
            raise processes.BrokenExecutor
        return [(0, None)]

    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"_pool": None, "_close": None, "_flowing": flowing}.items():
            patch.setattr(processes, name, value or (lambda *_, **__: None))
        list(processes.unordered(str, [1], 1))


def curves(windows: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budgets, "_curves", lambda *_: iter(()))
        model: Any = SimpleNamespace(family=SimpleNamespace(predicts=True))
        budgets.measured_curves(model, np.ones((windows, 2), dtype=np.int64), Plan(rho=0.5))


def plan_of(**more: object) -> PerplexityPlan:
    return PerplexityPlan.from_document({one.name: getattr(PERPLEXITY, one.name) for one in fields(PERPLEXITY)} | more)


LAYER = apv.AttentionLayer(EYE, EYE, heads=2)
PERPLEXITY = PerplexityPlan("model")


def axes(count: int) -> None:
    array = np.ones((1,) * (count - 2) + (2, 2)[-count:], dtype=np.float32)
    problem_of(array, array, array, dtype="float32")


def pages(length: int) -> None:
    """A sample of so many tokens, in a table of two pages of two."""
    pool = np.ones((3, 2, 1, 4))
    table_of(np.array([[0, 2]]), np.array([length]), pool, pool, 1)


def weights_of(length: int) -> None:
    """The weights of so many keys, of a kernel that returns a value of one column at a time."""
    sample: Any = SimpleNamespace(shape=(1, 1, 1, 1, length, 4, 1))

    def of_values(_context: Any, _sample: Any, values: np.ndarray) -> np.ndarray:
        if values.shape[1] > 1:
            raise NoAnswer("one column at a time")
        return values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mechanisms, "_of_values", of_values)
        mechanisms._weights(MagicMock(), sample)


def without_default(count: int) -> None:
    """A kernel whose lists and tables have no default, so many of the two."""
    names = ("indices", "block_table", "lengths")
    Parameters.of([inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names[: 2 * count - 1]])


def recipe_of(*lines: str) -> None:
    """A recipe that says these lines of its weights."""
    weights = {"format": "float8_e5m2", "rounded": "after", "factor": 2, "levels": 4}
    formats = dict.fromkeys(("q", "k", "v", "o"), "float8_e5m2")
    Recipe.declared({**formats, "p": {name: weights[name] for name in lines}, "scale_block": "row"})


def loss(M: Any, X: Any, W: Any) -> Any:
    return M


def loss_without_w(M: Any, X: Any) -> Any:
    return M


FRAMEWORK: Any = SimpleNamespace(name="none")
TINY, ABOVE_1 = np.nextafter(0, 1).item(), np.nextafter(1, 2).item()
CALLS: dict[str, tuple[Any, ...]] = {
    "singular Hessian": (lambda: _condition(EYE, False), lambda: _condition(0 * EYE, False)),
    "parameters M, X and W": (
        lambda: _differentiated(loss, "M", True, FRAMEWORK),
        lambda: _differentiated(loss_without_w, "M", True, FRAMEWORK),
    ),
    "ends of an axis": (
        lambda: Extent.declared("n", {"multiple_of": 2, "least": 2, "most": 4}),
        lambda: Extent.declared("n", {"multiple_of": 2, "least": 2, "most": 4, "step": 2}),
        "must be a size",
    ),
    "causal or not": (
        lambda: KernelScope.declared({}, ("causal_only",)),
        lambda: KernelScope.declared({}, ("causal_only", "never_causal")),
        "not name both",
    ),
    "an empty sequence": (
        lambda: _ends([0, 2, 2, 3], None, 3, 3),
        lambda: _ends([0, 2, 1, 3], None, 3, 3),
        "must rise",
    ),
    "no keys on pages": (lambda: pages(0), lambda: pages(-1), "lengths must be in 0..4"),
    "full pages": (lambda: pages(4), lambda: pages(5), "lengths must be in 0..4"),
    "parts of weights": (lambda: weights_of(mechanisms._PARTS), lambda: weights_of(mechanisms._PARTS + 1)),
    "integers without a default": (lambda: without_default(1), lambda: without_default(2)),
    "a format alone": (lambda: recipe_of("format"), lambda: recipe_of("rounded"), "p must be a format"),
    "all lines of weights": (
        lambda: recipe_of("format", "rounded", "factor"),
        lambda: recipe_of("format", "rounded", "factor", "levels"),
        "p must be a format",
    ),
    "axes of a batch": (lambda: axes(4), lambda: axes(5), "lack the first axes"),
    "axes of a head": (lambda: axes(2), lambda: axes(1), "lack the first axes"),
    "one direction": (
        lambda: apv.check_gradient(np.sum, EYE, gradient=EYE + 1 - EYE, samples=1),
        lambda: apv.check_gradient(np.sum, EYE, gradient=EYE + 1 - EYE, samples=0),
        "samples >= 1",
    ),
    "first question": (lambda: evaluator(0), lambda: evaluator(-1)),
    "last question": (lambda: evaluator(99), lambda: evaluator(100)),
    "calls": (lambda: budget(context._MOST_CALLS - 1), lambda: budget(context._MOST_CALLS)),
    "seconds": (
        lambda: budget(seconds=context._TOO_SLOW),
        lambda: budget(seconds=np.nextafter(context._TOO_SLOW, 9)),
    ),
    "bytes of an array": (lambda: _as_array(EYE, 32), lambda: _as_array(EYE, 31)),
    "bytes of a reply": (lambda: reply(100 + _HEADER), lambda: reply(101 + _HEADER)),
    "branches": (lambda: parts(decide._MOST_PARTS), lambda: parts(decide._MOST_PARTS + 1)),
    "worst instance": (lambda: worst(9), lambda: worst(10)),
    "eigenvectors": (lambda: spread(EYE), lambda: spread(0 * EYE)),
    "sequence between special tokens": (lambda: sequences(3), lambda: sequences(2)),
    "window between special tokens": (lambda: framed(3), lambda: framed(2)),
    "announced bytes": (lambda: header(32), lambda: header(31)),
    "frequency factors": (lambda: scaled(np.nextafter(4.0, 0)), lambda: scaled(4.0)),
    "layers": (lambda: config("num_hidden_layers", 3), lambda: config("num_hidden_layers", 4)),
    "base of positions": (lambda: config("rope_theta", ABOVE_1), lambda: config("rope_theta", 1.0)),
    "small samples are asked": (
        lambda: budget(seconds=9, longest=context.SMALL),
        lambda: budget(seconds=9, longest=context.SMALL + 1),
    ),
    "head of a map": (
        lambda: _one_head(LAYER, EYE, (W, W), 0, 1),
        lambda: _one_head(LAYER, EYE, (W, W), 0, 2),
        "must be below 2",
    ),
    "ones of a map": (lambda: as_ones(W != 0, False, None, 4), lambda: as_ones(W != 0, False, None, 5)),
    "first threshold": (lambda: threshold_mask(W, 0.0), lambda: threshold_mask(W, 0.0, "ascending-1")),
    "last threshold": (lambda: threshold_mask(W, 1.0, "ascending-1"), lambda: threshold_mask(W, 1.0)),
    "bytes of tensors": (
        lambda: tensors.unpacked(b"\x02" + bytes(7) + b"{}", "it"),
        lambda: tensors.unpacked(b"\x03" + bytes(7) + b"{}", "it"),
    ),
    "seconds above 0": (lambda: Terms(call_limit=TINY), lambda: Terms(call_limit=0.0)),
    "finite seconds": (lambda: Terms(limit=np.finfo(float).max.item()), lambda: Terms(limit=math.inf)),
    "groups of a checkpoint": (lambda: taken_in(1), lambda: taken_in(0)),
    "seed": (
        lambda: CampaignPlan.of("lem:lip_f", 1, _SEEDS - 1, None),
        lambda: CampaignPlan.of("lem:lip_f", 1, _SEEDS, None),
    ),
    "one size": (lambda: as_sizes({"n": (3, 3), "d": 2}), lambda: as_sizes({"n": (3, 2), "d": 2})),
    "largest size": (lambda: as_sizes({"n": 2, "d": _LARGEST}), lambda: as_sizes({"n": 2, "d": _LARGEST + 1})),
    "all undecided": (lambda: tally(3, 2), lambda: tally(3, 3)),
    "all met": (lambda: tally(4, 0), lambda: tally(5, 0)),
    "score": (
        lambda: _agrees(SimpleNamespace(case={"score": 0}, number=float)),  # type: ignore[arg-type]
        lambda: _agrees(SimpleNamespace(case={"score": -1}, number=float)),  # type: ignore[arg-type]
    ),
    "sequence of a whole document": (lambda: sequences(5), lambda: sequences(6)),
    "last layer": (lambda: layers(1), lambda: layers(2)),
    "names of a plan": (plan_of, lambda: plan_of(more=1)),
    "orthonormal rows": (
        lambda: orthonormal_constant(np.random.default_rng(0), 3, 3),
        lambda: orthonormal_constant(np.random.default_rng(0), 4, 3),
    ),
    "memory": (lambda: needed(1000), lambda: needed(1001)),
    "pair of positions": (lambda: RoPE(10.0).frequencies(2), lambda: RoPE(10.0).frequencies(0)),
    "first head": (lambda: fused_weight(LAYER, 0), lambda: fused_weight(LAYER, -1)),
    "last head": (lambda: fused_weight(LAYER, 1), lambda: fused_weight(LAYER, 2)),
    "one thread": (lambda: _as_threads("1"), lambda: _as_threads("0")),
    "count 1": (lambda: Config({"heads": 1}).count("heads"), lambda: Config({"heads": 0}).count("heads")),
    "last id": (lambda: ids(29), lambda: ids(30)),
    "deaths of workers": (lambda: workers(processes.DEATHS), lambda: workers(processes.DEATHS + 1)),
    "no zeros": (
        lambda: certified_best_mask(apv.Instance(EYE, W), 0),
        lambda: certified_best_mask(apv.Instance(EYE, W), -1),
    ),
    "all zeros": (
        lambda: certified_best_mask(apv.Instance(EYE, W), 4),
        lambda: certified_best_mask(apv.Instance(EYE, W), 5),
    ),
    "one lane": (lambda: LANES.lambertw(Lane(np.ones(1))), lambda: LANES.lambertw(Lane(np.ones(2)))),
    "power 1": (lambda: Lane(np.ones(1)) ** 1, lambda: Lane(np.ones(1)) ** 0),
    "windows of a curve": (lambda: curves(2), lambda: curves(1)),
    "positive number": (lambda: number(TINY), lambda: number(0.0)),
    "kinds of layers": (
        lambda: _windows_of(["full_attention", "sliding_attention"], 4, 2),
        lambda: _windows_of(["full_attention", "another"], 4, 2),
    ),
    "ratio 1": (lambda: as_ratio(1), lambda: as_ratio(np.nextafter(1, 2))),
}


@pytest.mark.parametrize("row", CALLS)
def test_a_call_on_the_edge_is_accepted_and_its_neighbour_refused(row: str) -> None:
    accepted, refused, *says = CALLS[row]
    accepted()
    with pytest.raises(Exception, match=says[0] if says else None) as found:
        refused()
    assert type(found.value).__module__.startswith("attnprune_verify") or isinstance(found.value, TypeError)


def saved(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "instance.npz", **arrays)
    return folder / "instance.npz"


HEADER = b'{"a": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}}'
LIMITS: dict[str, tuple[Any, str, float, Callable[[Path], object]]] = {
    "header of tensors": (
        tensors,
        "_LARGEST_HEADER",
        len(HEADER),
        lambda _: tensors.unpacked(len(HEADER).to_bytes(8, "little") + HEADER + bytes(8), "it"),
    ),
    "file": (
        archive,
        "_LARGEST_FILE",
        2 * 160,
        lambda folder: archive.read_arrays(saved(folder, X=EYE, W=W), ("X", "W")),
    ),
    "centred logits": (reduced, "_MOST", 2, lambda _: reduced.ReducedLoss(apv.Instance(EYE, W, lam=0.25))),
    "weights": (reduced, "_MOST", 4, lambda _: reduced.ReducedLoss(apv.Instance(np.eye(6, 2), W, lam=0.25))),
}


@pytest.mark.parametrize("row", LIMITS)
def test_a_limit_itself_is_accepted(row: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place, name, reached, call = LIMITS[row]
    monkeypatch.setattr(place, name, reached)
    call(tmp_path)
    monkeypatch.setattr(place, name, reached - 1)
    with pytest.raises(apv.InvalidInstance):
        call(tmp_path)


def test_a_small_file_may_be_compressed_well_and_a_large_one_so_far(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = saved(tmp_path, W=np.zeros((40, 40)))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        content = io.BytesIO()
        np.save(content, np.zeros((40, 40)))
        file.writestr("W.npy", content.getvalue())
        size, packed = file.infolist()[0].file_size, file.infolist()[0].compress_size
    for unsuspicious, ratio, accepted in (
        (size, 1, True),
        (size - 1, 1, False),
        (0, size / packed, True),
        (0, np.nextafter(size / packed, 0), False),
    ):
        monkeypatch.setattr(archive, "_LARGEST_UNSUSPICIOUS", unsuspicious)
        monkeypatch.setattr(archive, "_LARGEST_RATIO", ratio)
        if accepted:
            archive.read_arrays(path, ("W",))
        else:
            with pytest.raises(apv.InvalidInstance, match="compressed"):
                archive.read_arrays(path, ("W",))


def test_text_may_hold_the_last_character_of_unicode(tmp_path: Path) -> None:
    last = np.array("\U0010ffff")
    archive.read_arrays(saved(tmp_path, mask=last), ("mask",))
    beyond = np.frombuffer(np.array([0x110000], "<u4").tobytes(), "<U1")
    with pytest.raises(apv.InvalidInstance, match="Unicode"):
        archive.read_arrays(saved(tmp_path, mask=beyond), ("mask",))


def test_a_mapped_array_may_end_with_its_file(tmp_path: Path) -> None:
    path = saved(tmp_path, X=EYE)
    with zipfile.ZipFile(path) as file:
        (info,) = file.infolist()
        start = file.start_dir
    os.truncate(path, start)
    np.testing.assert_array_equal(archive._mapped(path, info, info.file_size - 32, (2, 2), "C", EYE.dtype), EYE)
    os.truncate(path, start - 1)
    with pytest.raises(apv.InvalidInstance, match="cut off"):
        archive._mapped(path, info, info.file_size - 32, (2, 2), "C", EYE.dtype)


def test_vectors_may_have_as_many_bytes_as_the_limit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    content = b"1234"
    monkeypatch.setattr(vectors, "packed", lambda _: content)
    monkeypatch.setattr(vectors, "MOST", len(content))
    vectors.write_vectors(tmp_path / "kept", "float32", 1, 0)
    monkeypatch.setattr(vectors, "MOST", len(content) - 1)
    with pytest.raises(apv.InvalidInstance, match="lower count"):
        vectors.write_vectors(tmp_path / "refused", "float32", 1, 0)


def test_ends_of_an_answer_have_one_shape(tmp_path: Path) -> None:
    vectors.write_vectors(tmp_path, "float32", 3, 0)
    index, arrays = answers.read_vectors(tmp_path)
    ends = index["vectors"][0]["answers"]["o"]
    ends["lowest"] = next(name for name, array in arrays.items() if array.shape != arrays[ends["highest"]].shape)
    (tmp_path / vectors.INDEX).write_text(json.dumps(index))
    with pytest.raises(apv.InvalidInstance, match="one shape"):
        answers.read_vectors(tmp_path)


def test_a_file_holds_x_and_w_and_may_hold_no_more(tmp_path: Path) -> None:
    apv.load_instance(saved(tmp_path, X=EYE, W=W))
    with pytest.raises(apv.InvalidInstance, match="must hold X and W"):
        apv.load_instance(saved(tmp_path, X=EYE))


@pytest.mark.parametrize(("rho", "code"), [("0", 0), ("1", 0), ("0.5", 2)])
def test_equal_entries_matter_only_where_some_are_pruned(rho: str, code: int, tmp_path: Path) -> None:
    apv.save_instance(tmp_path / "mine.npz", apv.Instance(EYE, W))
    done = CliRunner().invoke(prune, [str(tmp_path / "mine.npz"), "--rho", rho, "--reading", "theorem", "--steps", "2"])
    assert isinstance(done.exception, apv.InvalidInstance) == (code == 2), done.output


def lost_in_a_kernel(times: int) -> Any:
    facts = CallFacts()
    kernel = MagicMock(functions={FORWARD: facts})
    kernel.subject.call.side_effect = SubjectLost("died")
    for _ in range(times):
        with pytest.raises(SubjectLost):
            context.KernelContext._call(kernel, FORWARD, [], {"keywords": {}}, MagicMock())
    return facts


def lost_in_a_function(times: int) -> Any:
    facts = FunctionFacts(MagicMock())
    for _ in range(times):
        _learn(facts, SubjectLost("died"))
    return facts


@pytest.mark.parametrize("lost", [lost_in_a_kernel, lost_in_a_function])
def test_what_died_twice_is_not_called_again(lost: Callable[[int], Any]) -> None:
    assert not lost(1).given_up
    assert "died" in lost(2).given_up


@pytest.mark.parametrize(("bytes_", "said"), [(2**30, "1.0 GiB"), (3 * 2**30, "3.0 GiB"), (3 * 2**29, "1.5 GiB")])
def test_memory_is_told_in_gib(bytes_: int, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMORY", bytes_)
    line: Any = SimpleNamespace(_wait=lambda: keeper.TOO_MUCH_MEMORY, close=lambda: None)
    assert f"took more than {said} of memory" in Line._end(line)


def test_heatmaps_take_one_reading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The drawing itself is left out."""
    import attnprune_verify.cli.plot as module

    def drawn(*_: object) -> None:
        raise RuntimeError("is drawn")

    monkeypatch.setattr(module, "need", drawn)
    arguments = ["heatmaps", "--out", str(tmp_path / "map.png")]
    readings = ["--reading", "pseudocode", "--reading", "theorem"]
    assert "is drawn" in str(CliRunner().invoke(plot, arguments + readings[:2]).exception)
    refused = CliRunner().invoke(plot, arguments + readings)
    assert refused.exit_code == 2 and "one --reading" in refused.output

"""`reconstruct`: what is kept moves towards the dense block's output, zeros and patterns stay, two paths agree."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pruning torch models needs the extra 'torch'")
transformers = pytest.importorskip("transformers", reason="pruning torch models needs transformers")
pytest.importorskip("safetensors", reason="reading model folders needs the extra 'real'")

from attnprune_verify.algorithms.matrix.output_obs import PrunedMatrix  # noqa: E402  # after the skips
from attnprune_verify.errors import InvalidInstance  # noqa: E402
from attnprune_verify.pretrained import load_pretrained  # noqa: E402
from attnprune_verify.pretrained.folder import ModelFolder  # noqa: E402
from attnprune_verify.pretrained.likelihood import log_probabilities  # noqa: E402
from attnprune_verify.torch import prune_, pruning_run  # noqa: E402
from attnprune_verify.torch.blocks import find_blocks  # noqa: E402
from attnprune_verify.torch.echoes import echoes_of  # noqa: E402
from attnprune_verify.torch.folder import prune_folder  # noqa: E402
from attnprune_verify.torch.model_state import widened  # noqa: E402
from attnprune_verify.torch.passes import Windows, forward  # noqa: E402
from attnprune_verify.torch.pruning_run import PruningRun  # noqa: E402
from attnprune_verify.torch.reconstruct import reconstructed_block  # noqa: E402
from attnprune_verify.whole_model import blockwise, echoes, prune_model, request  # noqa: E402
from attnprune_verify.whole_model import reconstruct as steps_of  # noqa: E402
from attnprune_verify.whole_model import steps as of_folders  # noqa: E402
from attnprune_verify.whole_model.echoes import drawn_echoes, with_echoes  # noqa: E402
from attnprune_verify.whole_model.in_memory import prune_in_memory  # noqa: E402
from attnprune_verify.whole_model.plan import Plan  # noqa: E402
from attnprune_verify.whole_model.request import Job, effort  # noqa: E402
from attnprune_verify.whole_model.workplace import Workplace  # noqa: E402
from tests.whole_model.decoders import IDS, tiny  # noqa: E402
from tests.whole_model.small import MODEL, write_texts  # noqa: E402

FAST = {"attention": "wanda", "rest": "wanda"}


def _windows(count):
    tokenizer = load_pretrained(MODEL).tokenizer
    ids = tokenizer.encode((MODEL / "texts" / "calibration.txt").read_text("utf-8")[:8000]).ids
    return np.array(ids[: count * 48]).reshape(count, 48)


def _closer():
    """The squared change of the logits by pruning with steps, in units of that without."""
    ids = _windows(12)
    dense, seen, unseen = load_pretrained(MODEL, dtype=np.float32), ids[:8], ids[8:]
    plans = [Plan(**FAST, rho=0.6, reconstruct=steps) for steps in (0, 12)]
    changes = [np.square(prune_in_memory(dense, seen, p).logits(unseen) - dense.logits(unseen)).mean() for p in plans]
    return changes[1] / changes[0]


def test_the_model_comes_closer_to_the_dense_one_on_other_text():
    assert _closer() < 0.85


@pytest.mark.thorough
def test_steps_uphill_are_noticed(monkeypatch):
    right = steps_of.RATE
    monkeypatch.setattr(steps_of, "RATE", -right)
    assert not _closer() < 0.85


def _moved(held_error, steps=6, windows=8):
    """How far each weight went where every gradient is 1, by the loss of the held windows as a function of the way."""
    kept = {name: np.arange(size) % 2 == np.zeros((2, 1)) for name, size in SIZES.items()}
    maps = {name: PrunedMatrix(1.0 * of_map, of_map) for name, of_map in kept.items()}
    seen = []

    def slopes(weights, window):
        seen.append(window)
        return {name: np.ones_like(weight) for name, weight in weights.items()}

    def error(weights, window):
        assert window not in seen
        return held_error(1 - weights["wide"][0, 0])

    new = steps_of.reconstructed(maps, slopes, error, windows, steps, 0)
    return {name: (maps[name].weight - matrix.weight)[0] for name, matrix in new.items()}, seen


SIZES = {"narrow": 4, "wide": 64}


def test_steps_are_smaller_where_more_inputs_add_up():
    moved, seen = _moved(lambda way: -way)
    paces = sum(1 - step / 6 for step in range(6))
    for name, size in SIZES.items():
        assert moved[name][::2] == pytest.approx(steps_of.RATE / size**0.5 * paces) and (moved[name][1::2] == 0).all()
    assert len(set(seen)) == 6


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_held_windows_shorten_the_way(share):
    whole = _moved(lambda way: -way)[0]["wide"][0]
    assert _moved(lambda way: abs(way - share * whole))[0]["wide"][0] == pytest.approx(share * whole)


def test_a_single_window_is_stepped_on():
    assert _moved(lambda way: 0.0, windows=1)[1] == [0] * 6


def test_torch_and_closed_forms_take_the_same_steps():
    """One block, pruned by size: gradients by autograd through transformers, and by `block_backward`."""
    ids, plan = _windows(3), Plan(**FAST, rho=0.5, reconstruct=3)
    dense = load_pretrained(MODEL, dtype=np.float32)
    block, hidden = dense.block(0), list(dense.family.embed(ids))
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval().requires_grad_(False)
    rows = [torch.from_numpy(row)[None] for row in ids]
    looked_at = PruningRun(find_blocks(model, rows[0]), plan, rows[0][:, :13])
    windows = Windows.enter(looked_at.decoder, rows)
    cut, by_role = {}, {}
    with widened(looked_at.decoder.blocks[0]) as (parameters, _):
        for piece in looked_at.pieces[0]:
            weight = piece.weight(parameters).numpy()
            kept = np.abs(weight) > np.median(np.abs(weight))
            cut[piece] = PrunedMatrix(np.where(kept, weight, 0).astype(np.float32), kept)
            names = {dense.family.weight_place(0, role).name.split("layers.0.")[1]: role for role in block.roles}
            by_role[names[piece.factor.name]] = piece
        goal = forward(looked_at.decoder.blocks[0], 0, windows)
        before = {name: tensor.data.clone() for name, tensor in parameters.items()}
        theirs = reconstructed_block(looked_at.decoder.blocks[0], parameters, cut, windows, 0, goal, plan)
        assert all(torch.equal(before[name], tensor.data) for name, tensor in parameters.items())
    pruned = {role: cut[piece] for role, piece in by_role.items()}
    ours = blockwise.reconstructed_block(block, pruned, hidden, list(blockwise.forward(block, hidden)), plan)
    for role, piece in by_role.items():
        new, kept = ours[role]
        step = np.abs(new - pruned[role].weight)
        assert (new[~kept] == 0).all() and np.median(step[kept]) > 1e-4
        # an entry whose gradient is rounding takes a step all the same, in either direction
        assert np.mean(np.abs(new - theirs[piece].weight.numpy()) > 0.01 * step.max()) < 0.01


@pytest.mark.parametrize(("kind", "choices"), [("mixtral", {"pattern": "2:4"}), ("gpt2", {"rho": 0.5})])
def test_zeros_and_patterns_stay_and_other_weights_do_not_change(kind, choices):
    dense = tiny(kind)
    short, long = copy.deepcopy(dense), copy.deepcopy(dense)
    without = prune_(short, IDS, **choices, **FAST)
    report = prune_(long, IDS, **choices, **FAST, reconstruct=2)
    assert report["zeros"] == without["zeros"] and report["dense"] == without["dense"]
    pruned = {row["name"]: row["zeros"] for row in report["tensors"]}
    moved = 0
    for name, tensor in long.named_parameters():
        if name not in pruned:
            assert torch.equal(tensor, dense.get_parameter(name)) and tensor.requires_grad
            continue
        assert int((tensor == 0).sum()) == pruned[name]
        moved += not torch.equal(tensor, short.get_parameter(name))
        if "pattern" in choices:
            assert ((tensor.reshape(-1, 4) == 0).sum(1) == 2).all()
    assert moved == len(pruned)


@pytest.mark.parametrize("on", ["the model as it was left", "the model read anew"])
def test_an_interrupted_run_goes_on_to_the_same_weights(tmp_path, on):
    whole, left = tiny("llama"), tiny("llama")
    steps = len(IDS) + 2  # two echoes, which a pruned model would draw otherwise
    prune_(whole, IDS, 0.5, **FAST, reconstruct=steps)

    def stop(done, _steps, what):
        if done == 1 and what == "pruning blocks":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_(left, IDS, 0.5, **FAST, reconstruct=steps, resume=tmp_path, progress=stop)
    assert (tmp_path / "prune.partial" / "echoes.json").is_file()
    again = left if on == "the model as it was left" else tiny("llama")
    prune_(again, IDS, 0.5, **FAST, reconstruct=steps, resume=tmp_path)
    assert all(torch.equal(tensor, whole.state_dict()[name]) for name, tensor in again.state_dict().items())
    assert not list(tmp_path.iterdir())


def test_folders_in_numpy_are_reconstructed_too(tmp_path):
    calibration, _ = write_texts(tmp_path)
    choices = {"calibration": calibration, "k": 3, "n": 24, "rest": "wanda", "attention": "wanda"}
    prune_model(MODEL, tmp_path / "out", 0.5, **choices, reconstruct=5)  # three windows, two echoes
    prune_model(MODEL, tmp_path / "without", 0.5, **choices)
    with_, without = (load_pretrained(tmp_path / name, dtype=np.float32).block(0) for name in ("out", "without"))
    for role in with_.roles:
        new, old = with_.weight(role), without.weight(role)
        assert ((new == 0) == (old == 0)).all() and (new != old).any()


@pytest.mark.parametrize(
    ("plan", "steps"),
    [
        ({"rho": 0.5}, None),
        ({"pattern": "2:4", "rest": "dense"}, None),
        ({"rho": 0.5, "reconstruct": 0}, 0),
        ({"rho": 0.5, "rest": "wanda"}, 0),
        ({"rho": 0.5, "rest": "wanda", "reconstruct": 3}, 3),
        ({"rho": 0}, 0),
        ({"rho": 1}, 0),
        ({"pattern": "4:4"}, 0),
        ({"pattern": "0:4"}, 0),
    ],
)
def test_a_few_steps_are_taken_where_output_obs_chooses(plan, steps):
    assert Plan(**({"reconstruct": None} | plan)).reconstruct == steps


def _draws(how, ids, count):
    if how == "numpy":
        return with_echoes(load_pretrained(MODEL, dtype=np.float32), ids, len(ids) + count, seed=0)[len(ids) :]
    model = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    rows = [torch.from_numpy(row)[None] for row in ids]
    return np.concatenate([echo.numpy() for echo in echoes_of(find_blocks(model, rows[0]), rows, count, 0)])


@pytest.mark.parametrize("how", ["numpy", "torch"])
def test_echoes_are_as_likely_as_the_model_says(how):
    """The mean log probability of the draws after the real tokens is minus the entropy, within 4 standard errors."""
    ids = _windows(4)
    drawn = _draws(how, ids, 7)
    assert drawn.shape == (7, 48) and (drawn[:, 0] == ids[[0, 1, 2, 3, 0, 1, 2], 0]).all()
    assert (drawn[0] != drawn[4]).any()
    log_p = log_probabilities(load_pretrained(MODEL, dtype=np.float32).logits(ids))[[0, 1, 2, 3, 0, 1, 2], :-1]
    entropy = -(np.exp(log_p) * log_p).sum(-1)
    variance = (np.exp(log_p) * log_p**2).sum(-1) - entropy**2
    found = np.take_along_axis(log_p, drawn[:, 1:, None], -1)[..., 0]
    error = np.sqrt(variance.sum()) / entropy.size
    assert abs(found.mean() + entropy.mean()) < 4 * error
    real = np.take_along_axis(log_p[:4], ids[:, 1:, None], -1)[..., 0]
    shifted = np.take_along_axis(log_p, drawn[:, :-1, None], -1)[..., 0]
    assert abs(shifted.mean() + entropy.mean()) > 4 * error and (found[:4] != real).any()


def test_every_window_goes_through_the_model_once_for_all_its_echoes(monkeypatch):
    dense, ids, seen = load_pretrained(MODEL, dtype=np.float32), _windows(2), []
    logits = type(dense).logits
    monkeypatch.setattr(type(dense), "logits", lambda self, one: seen.append(one) or logits(self, one))
    together = drawn_echoes(dense, ids, 4, 0)
    assert len(seen) == 2
    assert (together[:2] == drawn_echoes(dense, ids, 2, 0)).all() and (together[:2] != together[2:]).any()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_nothing_is_drawn_from_predictions_that_are_not_finite(monkeypatch, value):
    dense, ids = load_pretrained(MODEL, dtype=np.float32), _windows(1)
    monkeypatch.setattr(type(dense), "logits", lambda self, one: np.full((*one.shape, 5), value, dtype=np.float32))
    rule = "predictions must be finite to draw from; those of window 0 are not"
    with pytest.raises(InvalidInstance, match=rule):
        drawn_echoes(dense, ids, 1, 0)
    model = tiny("llama")
    decoder = find_blocks(model, IDS[:1])
    monkeypatch.setattr(decoder, "logits", lambda window, states: torch.full((window.shape[1], 500), value))
    with pytest.raises(InvalidInstance, match=rule):
        echoes_of(decoder, [IDS[:1]], 1, 0)


def test_the_echo_of_a_window_of_one_token_is_that_token():
    assert (drawn_echoes(load_pretrained(MODEL, dtype=np.float32), np.array([[7]]), 2, 0) == 7).all()
    decoder = find_blocks(tiny("llama"), IDS[:1])
    assert [echo.tolist() for echo in echoes_of(decoder, [IDS[:1, :1]], 2, 0)] == [IDS[:1, :1].tolist()] * 2


def _interrupted(monkeypatch, folder, choices):
    """Prune the first block, and stop."""
    keep, kept = Workplace.keep_block, []

    def stopping(self, *args):
        if kept:
            raise KeyboardInterrupt
        kept.append(keep(self, *args))

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Workplace, "keep_block", stopping)
        prune_model(MODEL, folder, 0.5, **choices)


@pytest.mark.parametrize("kept", ["intact", "damaged"])
def test_a_folder_resumes_on_the_echoes_that_are_kept(tmp_path, monkeypatch, kept):
    """Another computer may draw others; where the kept ones are damaged, all that came of them is computed anew."""
    calibration, _ = write_texts(tmp_path)
    choices = {"calibration": calibration, "k": 2, "n": 24, **FAST, "reconstruct": 4, "seed": 3}
    _interrupted(monkeypatch, tmp_path / "out", choices)
    file, others = tmp_path / "out.partial" / "echoes.json", []
    kept_states = list((tmp_path / "out.partial").glob("hidden-*"))
    assert file.is_file() and kept_states

    def elsewhere(_model, ids, count, seed):
        others.append((count, seed))
        return np.repeat(ids, 2, axis=0)[:count]

    seen, reconstructed = [], of_folders.reconstructed_block

    def watched(block, pruned, states, goal, plan):
        seen.append((np.array(states), np.array(goal)))
        return reconstructed(block, pruned, states, goal, plan)

    monkeypatch.setattr(of_folders, "drawn_echoes", elsewhere)
    monkeypatch.setattr(of_folders, "reconstructed_block", watched)
    if kept == "damaged":
        file.write_text(file.read_text().replace("1", "2"))
    prune_model(MODEL, tmp_path / "out", 0.5, **choices)
    if kept == "intact":
        assert not others
        monkeypatch.undo()
        prune_model(MODEL, tmp_path / "whole", 0.5, **choices)
        one, other = (tmp_path / name / "model.safetensors" for name in ("out", "whole"))
        assert one.read_bytes() == other.read_bytes()
        return
    assert others == [(2, 3)]
    for of_block in seen[0]:  # the echoes are copies of the first window, and so are their states
        assert (of_block[2:] == of_block[0]).all()


def test_a_torch_folder_computes_anew_what_came_of_damaged_echoes(tmp_path, monkeypatch):
    calibration, _ = write_texts(tmp_path)
    job = Job(ModelFolder(MODEL), tmp_path / "out", Plan(**FAST, rho=0.5, reconstruct=4), calibration, 2, 24)

    def stop(done, _steps, what):
        if done == 1 and what == "pruning blocks":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_folder(job, progress=stop)
    file, seen = tmp_path / "out.partial" / "echoes.json", []
    file.write_text(file.read_text().replace("1", "2"))

    def watched(block, parameters, pruned, windows, index, goal, plan):
        seen.append((windows.states, goal))
        return reconstructed_block(block, parameters, pruned, windows, index, goal, plan)

    monkeypatch.setattr(pruning_run, "echoes_of", lambda _decoder, ids, count, _seed: [ids[0]] * count)
    monkeypatch.setattr(pruning_run, "reconstructed_block", watched)
    prune_folder(job)
    for of_block in seen[0]:
        assert torch.equal(of_block[2], of_block[0]) and not torch.equal(of_block[1], of_block[0])


def test_a_request_depends_on_what_is_spent_by_default(monkeypatch):
    """A run of another rate, other steps or another share for budgets is another request, for encoders too."""
    plans = [Plan(rho=0.5, reconstruct=steps, budget="auto") for steps in (None, 4, 0)]

    def fields():
        return [effort(plan, 8, predicts=predicts) for plan in plans for predicts in (True, False)]

    before = fields()
    assert before[1]["reconstruction"] == {"steps": 40, "rate": steps_of.RATE, "echoes": 0, "held": steps_of.HELD}
    monkeypatch.setattr(echoes, "RATE", 0.015)
    assert [one != other for one, other in zip(before, fields(), strict=True)] == [True] * 4 + [False] * 2
    monkeypatch.setattr(request, "OF_PRUNING", 0.5)
    assert all(one != other for one, other in zip(before, fields(), strict=True))
    assert effort(Plan(rho=0.5, reconstruct=0), 8) == {}


def test_zeros_are_chosen_by_the_windows_of_the_text_alone():
    """The first block's: what reconstruction sees changes kept weights, and the blocks behind it."""
    dense, models = tiny("llama"), []
    for steps in (0, len(IDS) + 2):
        models.append(copy.deepcopy(dense))
        prune_(models[-1], IDS, 0.5, budget="matrix", reconstruct=steps)
    first, second = (dict(model.model.layers[0].named_parameters()) for model in models)
    assert all(torch.equal(first[name] == 0, second[name] == 0) for name in first)
    assert any(not torch.equal(first[name], second[name]) for name in first)


def test_a_window_is_seen_again_when_all_were_seen():
    """Five rounds at most by default; as many steps as were prescribed else."""
    seen = []

    def slopes(weights, window):
        seen.append(window)
        return weights

    matrix = PrunedMatrix(np.eye(3), np.eye(3) == 1)
    for steps, taken in ((None, 15), (4, 4)):
        seen.clear()
        moved = steps_of.reconstructed({"V": matrix}, slopes, lambda *_: 0.0, 3, steps, seed=0)["V"].weight
        assert len(seen) == taken and len({*seen[:2]}) == len({*seen}) == 2  # the third is held back
        assert (np.diag(moved) < 1).all() and (moved[~matrix.kept] == 0).all()


def test_more_windows_for_the_metrics_of_the_loss_change_what_they_say_of():
    """V is pruned in a metric of the loss, Q and K are not."""
    models = [tiny("llama") for _ in range(2)]
    for model, windows in zip(models, (1, 4), strict=True):
        prune_(model, IDS, 0.5, loss_windows=windows, budget="matrix", reconstruct=0, device="cpu")
    first = [model.model.layers[0].self_attn for model in models]
    assert torch.equal(first[0].q_proj.weight, first[1].q_proj.weight)
    assert not torch.equal(first[0].v_proj.weight, first[1].v_proj.weight)

"""The loss's output metric: exact Fisher information at the last hidden states, and the chain through the blocks."""

import numpy as np
import pytest

from attnprune_verify.algorithms.matrix import loss_metric
from attnprune_verify.algorithms.matrix.loss_metric import loss_gradient, loss_metrics
from attnprune_verify.pretrained.load import load_pretrained
from tests.pretrained.folders import bert_config, bert_tensors, llama_config, llama_tensors, write_folder

pytest.importorskip("safetensors")


@pytest.fixture
def models(tmp_path):
    rng = np.random.default_rng(0)
    made = {
        "llama": (llama_config() | {"tie_word_embeddings": True}, llama_tensors(rng)),
        "bert": (bert_config(), bert_tensors(rng)),
    }
    return {name: load_pretrained(write_folder(tmp_path / name, *parts)) for name, parts in made.items()}


class Share:
    """A generator whose only number is the given one."""

    def __init__(self, value):
        self.value = value

    def random(self, shape):
        return np.full(shape, self.value)


def test_gradients_of_drawn_labels_have_the_fisher_information_as_moments(models):
    """All labels of one token, each as often as it is drawn, against the Jacobian of the logits by differences."""
    family = models["llama"].family
    hidden = np.random.default_rng(1).normal(size=(1, 8))
    logits = lambda h: family.logits(family.finish(h))[0]  # noqa: E731
    p = np.exp(logits(hidden)) / np.exp(logits(hidden)).sum()
    ends = p.cumsum()
    gradients = np.array(
        [loss_gradient(family, hidden, Share(end - mass / 2))[0] for end, mass in zip(ends, p, strict=True)]
    )
    jacobian = np.stack([(logits(hidden + e) - logits(hidden - e)) / 2e-6 for e in 1e-6 * np.eye(8)])
    fisher = jacobian @ (np.diag(p) - np.outer(p, p)) @ jacobian.T
    assert (gradients.T * p) @ gradients == pytest.approx(fisher, rel=1e-5, abs=1e-7)
    assert p @ gradients == pytest.approx(np.zeros(8), abs=1e-12)


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_the_chain_reaches_the_first_block(models, name, monkeypatch):
    """One token: the metric is |x|^2 g g^T, and (g^T D x)^2 the squared slope of the end for a weight's change D."""
    model = models[name]
    rng = np.random.default_rng(2)
    upstream = rng.normal(size=(1, 8))
    monkeypatch.setattr(loss_metric, "loss_gradient", lambda *_: upstream)
    states = model.hidden_states([[7]])
    found = dict(loss_metrics(model, states, {"O": "loss", "up": "kfac", "down": "loss"}))
    assert {index: set(of) for index, of in found.items()} == dict.fromkeys((1, 0), {"O", "up", "down"})
    trace = model.block(0)(states[0])
    for role in ("O", "up", "down"):
        weight, x = model.block(0).weight(role), trace.input_of(role)[0, 0]
        D = 1e-5 * rng.normal(size=weight.shape)
        ends = [model.with_weights({(0, role): weight + sign * D}).hidden_states([[7]])[-1] for sign in (1, -1)]
        slope = np.vdot(upstream, ends[0] - ends[1]) / 2
        weight_of_token = 1.0 if role == "up" else np.square(x).sum()  # K-FAC's tokens count the same
        claimed = (D @ x) @ found[0][role].H[0] @ (D @ x) / weight_of_token
        assert claimed == pytest.approx(slope**2, rel=1e-4)


def test_an_encoder_has_random_signs_on_its_output(models):
    gradient = loss_gradient(models["bert"].family, np.ones((3, 8)), np.random.default_rng(0))
    assert set(np.unique(gradient)) == {-1.0, 1.0}


def test_a_seed_draws_its_own_signs(models):
    model = models["bert"]
    states = model.hidden_states([[7, 8, 9]])
    drawn = [dict(loss_metrics(model, states, {"O": "loss"}, seed))[1]["O"].H for seed in (0, 0, 1)]
    assert np.array_equal(drawn[0], drawn[1]) and not np.array_equal(drawn[0], drawn[2])

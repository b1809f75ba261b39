"""A layer is judged by its worst head, a batch by its worst sample: verdicts and numbers that differ by head."""

import mpmath
import numpy as np
import pytest

from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance, LayerInstance
from attnprune_verify.instance.rope import RoPE
from attnprune_verify.model.layer_functions import layer_attention
from attnprune_verify.theory import layer_verdicts
from attnprune_verify.theory.bounds import BOUND_IDS, Bound
from attnprune_verify.theory.guarantees import guarantees
from attnprune_verify.theory.heads import head_floors
from attnprune_verify.theory.layer_verdicts import layer_bounds, layer_theorem
from attnprune_verify.theory.layers import layer_assumptions, layer_constants
from attnprune_verify.theory.pair import pair_norm
from attnprune_verify.theory.quantities.rotated import RotatedMap
from attnprune_verify.theory.theorem import TheoremVerdict

STATUSES = ("violated", "undecided", "holds", "not_applicable")


def two_heads(**more) -> LayerInstance:  # type: ignore[no-untyped-def]
    """The fused weights are diag(3, 3) and diag(1, 2), with 0 beside the diagonal unless `full`."""
    full = 0.1 * np.ones((2, 2)) if more.pop("full", False) else 0.0
    W_Q = np.hstack([3 * np.eye(2) + full, np.diag([1.0, 2.0])])
    return LayerInstance(AttentionLayer(W_Q, np.hstack([np.eye(2)] * 2), heads=2, scale=1.0), np.eye(2), **more)


def judged(instance: LayerInstance, **given):  # type: ignore[no-untyped-def]
    return {item.id: item for item in layer_assumptions(instance, **given)}


def test_the_largest_R_and_the_smallest_weight_are_the_worst() -> None:
    found = judged(two_heads(full=True))
    assert found["R"].per_head == pytest.approx((np.sqrt(2 * 3.1**2 + 0.02), np.sqrt(5)))
    assert found["R"].value == max(found["R"].per_head) and found["R"].reason.startswith("head 0")
    assert found["W-nonzero"].value == 0.0 and found["W-nonzero"].reason.startswith("head 1")


def test_an_assumption_holds_where_it_holds_for_every_head() -> None:
    """Head 0 has no weight of 0, head 1 has two."""
    found = judged(two_heads(full=True))["W-nonzero"]
    assert found.per_head == pytest.approx((0.1, 0.0)) and not found.holds


@pytest.mark.parametrize(("share", "holds"), [(1 - 1e-9, True), (1 + 1e-9, False), (1.01, False)])
def test_a_given_delta_is_at_most_the_smallest_weight_of_all_heads(share: float, holds: bool) -> None:
    instance = two_heads()
    delta = float(layer_attention(instance.layer, instance.X).min()) * share
    for name in ("delta", "delta-allowed"):
        assert judged(instance, delta=delta)[name].holds is holds


@pytest.mark.parametrize(("size", "holds"), [(1.0, True), (1 - 1e-9, True), (1 + 1e-9, False), (1.02, False)])
def test_masks_are_as_long_as_nothing_pruned_and_no_longer(size: float, holds: bool) -> None:
    instance = two_heads().with_masks(size * np.ones((2, 4)), np.ones((2, 4)) * size)
    found = judged(instance)
    assert found["M-norm"].holds is holds and found["M-norm"].value == pytest.approx(4 * size)
    assert found["M-in-box"].holds is (size <= 1) and found["M-in-box"].value == pytest.approx(max(0.0, size - 1))


@pytest.mark.parametrize("first", STATUSES)
@pytest.mark.parametrize("second", STATUSES)
def test_the_worst_status_is_reported(first: str, second: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody may take "holds" from one head where another is open, or violates the bound."""
    answers = iter([first, second])

    def made(problem: Instance) -> tuple[Bound, ...]:
        status = next(answers)
        return tuple(Bound(name, 1.0, 2.0, status, "") for name in BOUND_IDS)  # type: ignore[arg-type]

    monkeypatch.setattr(layer_verdicts, "evaluate_bounds", made)
    expected = min(first, second, key=STATUSES.index)
    assert {bound.status for bound in layer_bounds(two_heads())} == {expected}


@pytest.mark.parametrize("applies", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("vacuous", [(False, False), (True, False), (False, True)])
def test_the_theorem_of_a_layer(
    applies: tuple[bool, bool], vacuous: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(TheoremVerdict(*one, (str(one),)) for one in zip(applies, vacuous, strict=True))
    monkeypatch.setattr(layer_verdicts, "theorem", lambda head, **given: next(answers))
    found = layer_theorem(two_heads())
    assert found.applies is all(applies) and found.vacuous is any(vacuous)


def test_floors_of_a_batch_go_to_their_heads() -> None:
    rng = np.random.default_rng(0)
    layer = AttentionLayer(*rng.standard_normal((2, 3, 6)), heads=3, mask="causal")
    instance = LayerInstance(layer, rng.standard_normal((4, 5, 3)))
    F = layer_attention(layer, instance.X)
    lowest = [F[:, head][:, np.tri(5, dtype=bool)].min() for head in range(3)]
    assert [float(floor.allowed) for floor in head_floors(instance)] == pytest.approx(lowest, rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_a_floor_s_radius_pays_for_what_cancels_in_a_projection(seed: int) -> None:
    """Queries of size 0.3 are differences of 3e5, whose roundings stay, times keys of size 1."""
    rng = np.random.default_rng(seed)
    size = 1e6
    X = np.array([[size, size, size], [size, size, -size]]) + rng.standard_normal((2, 3))
    W_Q, W_K = np.array([[1.0], [-1.0], [0.0]]) / 3.0, np.array([[0.0], [0.0], [1.0 / size]])
    (found,) = head_floors(LayerInstance(AttentionLayer(W_Q, W_K, scale=1.0), X))
    with mpmath.workdps(60):
        tokens = mpmath.matrix(X.tolist())
        z = tokens * mpmath.matrix(W_Q.tolist()) * (tokens * mpmath.matrix(W_K.tolist())).T
        rows = [[mpmath.exp(z[i, j]) for j in range(2)] for i in range(2)]
        truth = min(mpmath.log(value / sum(row)) for row in rows for value in row)
        error = abs(truth - mpmath.mpf(found.log_allowed))
    assert 1e-12 < error <= found.radius < 1e-2


@pytest.mark.parametrize("place", [0, 15])
def test_the_product_bound_of_one_long_sample_among_many(place: int) -> None:
    """Of 16 samples one is not 0: K is its norm over 4, the bound a mean square and no mean."""
    rng = np.random.default_rng(1)
    X = np.zeros((16, 5, 4))
    X[place] = rng.standard_normal((5, 4))
    U, V = rng.standard_normal((2, 4, 2))
    head = RotatedMap(X, U, V, RoPE(100.0), np.tri(5, dtype=bool))
    truth = np.sqrt(np.linalg.norm(head.gram(), 2))
    assert truth <= head.product_bound() <= 3.5 * truth


def test_the_product_bound_centres_over_tokens_and_not_over_features() -> None:
    """Keys whose features are equal: less the mean of their features, nothing would be left of them."""
    X, U, V = np.array([[[1.0], [0.0]]]), np.array([[1.0, 0.0, 0.0, 0.0]]), np.ones((1, 4))
    head = RotatedMap(X, U, V, RoPE(1e4), np.ones((2, 2), dtype=bool))
    truth = np.sqrt(np.linalg.norm(head.gram(), 2))
    assert truth <= head.product_bound() <= 3.5 * truth


@pytest.mark.parametrize("first", [True, False])
def test_the_pair_norm_of_a_batch_is_that_of_its_longest_sample(first: bool) -> None:
    rng = np.random.default_rng(2)
    layer = AttentionLayer(*rng.standard_normal((2, 3, 4)), heads=2)
    short = rng.standard_normal((4, 3))
    both = np.stack([2 * short, short] if first else [short, 2 * short])
    alone = pair_norm(LayerInstance(layer, 2 * short))
    assert float(pair_norm(LayerInstance(layer, both))) == pytest.approx(float(alone), rel=1e-12)


@pytest.mark.parametrize("worse", [0, 1, 2])
@pytest.mark.parametrize(
    ("good", "bad"),
    [((True, False), (False, True)), ((True, False), (True, True)), ((False, False), (False, True))],
    ids=["does not apply", "applies and is empty", "empty among those that do not apply"],
)
def test_the_reported_reasons_are_the_worst_head_s(monkeypatch, worse, good, bad) -> None:  # type: ignore[no-untyped-def]
    """Three heads, one of them worse: reasons and guarantees are that head's, wherever it stands."""
    verdicts = iter(TheoremVerdict(*(bad if head == worse else good), (f"reason {head}",)) for head in range(3))
    monkeypatch.setattr(layer_verdicts, "fused_heads", lambda instance: [None] * 3)
    monkeypatch.setattr(layer_verdicts, "theorem", lambda *_, **__: next(verdicts))
    found = layer_theorem(two_heads())
    assert found.reasons[1:] == (f"head {worse}: reason {worse}",)
    assert (found.applies, found.vacuous) == bad


SMALLER_IS_WORSE = """beta delta delta_allowed dense_floor min_abs_W mu_paper mu_corrected mu_operator kappa_T
row_eigenvalue eta_paper eta_corrected curvature_lower linear_rate_threshold inner_product_floor""".split()
"""Constants that promise less the smaller they are: floors, steps, rates; of the others the largest is the worst."""


def test_every_constant_of_a_layer_is_that_of_its_worst_head() -> None:
    found = layer_constants(two_heads(full=True, lam=0.1))
    assert set(SMALLER_IS_WORSE) <= set(found.per_head)
    differ = 0
    for name, values in found.per_head.items():
        if values is not None:
            worst = min(values) if name in SMALLER_IS_WORSE else max(values)
            assert found.values[name] == worst, name
            differ += min(values) < max(values)
    assert differ > 20


def test_of_many_weights_the_steepest_head_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its K is the largest, which is head 0's here: 3 times a weight of 1."""
    monkeypatch.setattr(layer_verdicts, "_MANY", 0)
    assert {bound.note.partition(":")[0] for bound in layer_bounds(two_heads(full=True, lam=0.1))} == {"head 0"}


@pytest.mark.parametrize("mask", [None, "causal", np.eye(3), [[1, 0, 0], [1, 0, 1], [0, 1, 0]]], ids=str)
@pytest.mark.parametrize("lam", [1e-3, 1e3])
def test_rows_with_a_choice_bound_the_attention_term(mask, lam: float) -> None:  # type: ignore[no-untyped-def]
    """A row with one allowed token adds nothing: the lesser of lam d^2/2 and the number of the other rows."""
    instance = Instance(np.eye(3), np.eye(3), mask=mask, lam=lam)
    rows = np.ones((3, 3)) if mask is None else np.tri(3) if isinstance(mask, str) else np.array(mask)
    choices = sum(sum(row) > 1 for row in rows.tolist())
    confinement = guarantees(instance)[0]
    assert confinement.id == "confinement"
    assert confinement.numbers["attention"] == pytest.approx(min(9 * lam / 2, choices))
    assert ("says nothing" in confinement.says) is (9 * lam / 2 > choices)

"""Every known mistake is recognised from its own output, alone, scaled, and in pairs; right output is not blamed."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.audit.functions.checks.pruning import explained
from attnprune_verify.audit.functions.checks.selection import _selections, judge_zeros
from attnprune_verify.audit.functions.naming.diagnosis import diagnose
from attnprune_verify.audit.functions.naming.fitting import Observation, fits, same_as_right, tolerances
from attnprune_verify.audit.functions.naming.mistakes import MISTAKES
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.functions.truth.conventions import smallest_first
from attnprune_verify.audit.functions.truth.formulas import RIGHT, attention_part
from attnprune_verify.audit.functions.truth.precision import FLOAT64, PRECISIONS
from attnprune_verify.audit.functions.truth.reference import VALUED, reference, trusted
from attnprune_verify.audit.functions.truth.samples import regimes
from attnprune_verify.audit.functions.truth.samples_for import asked_samples
from attnprune_verify.audit.mistakes import SENTENCES
from attnprune_verify.audit.record import Finding

_spec = importlib.util.spec_from_file_location("kill_matrix", Path(__file__).with_name("kill_matrix.py"))
kill_matrix = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(kill_matrix)

CASES = [sample for name in ("full", "causal", "given-mask", "outside-box", "lam-large") for sample in regimes(0)[name]]
# Two mistakes may be one and the same for a function: F(1) plays no part where p has no F(1), and so on.
SAME = {
    "clips-or-rounds-M": {"dense-target-uses-M", "zero-output"},  # where no entry of M is 0 and all count as 1
    "dense-target-uses-M": {"zero-output"},  # an error against itself
    "mask-after-softmax": {"mask-ignored"},
    "mask-leaks": {"gradient-scale", "denominator-epsilon"},
    # uniform in both places F(M) - F(1) is 0, as where F(1) is made of M; a constant in F(1) alone the Jacobian kills
    "uniform-attention": {"dense-target-uses-M", "zero-output", "missing-dense-target"},
}


def returned(function, sample, steps, attention=1.0, regular=1.0):
    """A result made of these steps, with factors on its two terms."""
    right = attention_part(function, sample, RIGHT)
    regulariser = [part.value - term for part, term in zip(reference(function, sample), right, strict=True)]
    if function in ("attention", "relative_error"):
        regulariser = [np.zeros_like(part) for part in regulariser]
    parts = attention_part(function, sample, steps)
    return tuple(attention * part + regular * term for part, term in zip(parts, regulariser, strict=True))


def observed(function, steps, **factors):
    return [Observation(sample, returned(function, sample, steps, **factors)) for sample in CASES]


@pytest.mark.parametrize(
    "function",
    [
        "attention",
        "loss",
        "gradient",
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in VALUED
            if name not in ("attention", "loss", "gradient")
        ),
    ],
)
def test_the_formulas_are_right_and_right_results_are_not_named(function):
    for sample in CASES:
        for formula, truth in zip(returned(function, sample, RIGHT), reference(function, sample), strict=True):
            assert np.linalg.norm(formula - truth.value) <= 1e-13 * (1 + np.linalg.norm(truth.value))
    assert not diagnose(function, [Observation(sample, trusted(function, sample)) for sample in CASES]).named


@pytest.mark.thorough
@pytest.mark.parametrize("function", VALUED)
def test_every_mistake_is_recognised(function):
    tried = 0
    for mistake in MISTAKES:
        if not mistake.applies(function) or mistake.detail.startswith(("fill -30", "fill -50")):  # hardly to be seen
            continue
        steps = {**RIGHT, **mistake.steps}
        observations = observed(function, steps)
        if same_as_right(function, observations, steps, mistake, RIGHT):
            continue
        found = diagnose(function, observations)
        assert found.ids == (mistake.id,) or set(found.ids) <= SAME.get(mistake.id, set()), (mistake, found)
        tried += 1
    assert tried > 50


@pytest.mark.parametrize(
    ("function", "attention", "regular", "ids"),
    [
        ("gradient", 1.001, 1.0, {"gradient-scale"}),
        ("gradient", 1 + 1e-9, 1.0, {"gradient-scale"}),
        ("gradient", 1.0, 0.0, {"missing-regularizer"}),
        ("gradient", -1.0, 1.0, {"gradient-sign"}),
        ("gradient", 0.0, 0.0, {"zero-output"}),
        ("attention", 0.0, 0.0, {"zero-output"}),
        ("loss", 0.0, 0.0, {"zero-output"}),
        ("gradient", -1.0, -1.0, {"gradient-sign"}),
        ("gradient", 2.0, 0.5, {"gradient-scale", "regularizer-scale"}),
        ("loss", 2.0, 1.0, {"loss-scale"}),
        ("loss", 1.0, 2.0, {"regularizer-scale"}),
        ("loss", 0.7, 1.3, {"loss-scale", "regularizer-scale"}),
        ("loss", 0.0, 1.0, {"dense-target-uses-M"}),
        ("hessian_vector_product", 1.0, 0.0, {"missing-regularizer"}),
        ("factored_gradient", 1.0, 3.0, {"regularizer-scale"}),
    ],
)
def test_factors(function, attention, regular, ids):
    found = diagnose(function, observed(function, RIGHT, attention=attention, regular=regular))
    assert set(found.ids) == ids


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("missing-softmax-correction", "missing-hadamard-W"),
        ("transposed-p", "mask-ignored"),
        ("correction-uses-dense-softmax", "clips-or-rounds-M"),
    ],
)
def test_pairs(first, second):
    one, two = (next(m for m in MISTAKES if m.id == id and m.applies("gradient")) for id in (first, second))
    found = diagnose("gradient", observed("gradient", {**RIGHT, **one.steps, **two.steps}))
    assert set(found.ids) == {first, second}


@pytest.mark.parametrize(
    "id", ["mask-multiplies-logits", "mask-after-softmax", "clips-or-rounds-M", "matmul-for-hadamard"]
)
def test_the_derivative_of_a_wrong_loss_is_named_like_the_loss(id):
    """Automatic differentiation passes the mistake on: nothing flows through what was masked or clipped."""
    mistake = next(m for m in MISTAKES if m.id == id and m.applies("gradient"))
    steps = {**RIGHT, **mistake.steps}

    def loss(sample, M):
        allowed = np.ones((sample.n, sample.n), bool) if sample.mask is None else sample.mask == 1
        X, W, given = sample.X.astype(float), sample.W.astype(float), sample.mask is not None
        F = steps["softmax"](steps["logits"](X, steps["weigh"](steps["prune"](M), W)), allowed, given)
        dense = steps["dense_softmax"](steps["dense_logits"](X, W), allowed, given)
        return ((F - dense) ** 2).sum() / 2 + sample.lam / 2 * (M * M).sum()

    def derivative(sample):
        found = np.empty(sample.M.shape)
        for place in np.ndindex(sample.M.shape):
            moved = sample.M.astype(complex)
            moved[place] += 1e-30j
            found[place] = loss(sample, moved).imag / 1e-30
        return found

    found = diagnose("gradient", [Observation(sample, (derivative(sample),)) for sample in CASES])
    assert found.ids == (id,)


@pytest.mark.parametrize("selection", _selections(0, FLOAT64)["close-values"], ids=lambda selection: selection.name)
def test_kept_instead_of_pruned_is_no_rounding_to_float32(selection):
    kept = smallest_first(selection.matrix, selection.count)
    _, ids = judge_zeros(kept.astype(float), selection, selection.matrix, flags_are_gone=False)
    assert ids == ("keeps-instead-of-prunes",)


def test_one_entry_too_few_but_not_the_smallest_has_no_name():
    selection = _selections(0, FLOAT64)["values"][0]
    largest = smallest_first(-selection.matrix, selection.count - 1)
    _, ids = judge_zeros(np.where(largest, 0.0, 1.0), selection, selection.matrix, flags_are_gone=False)
    assert ids == ("unknown",)


def test_a_name_has_to_explain_every_failure_of_a_check():
    one, two = Finding("failed", "first", ids=("ties-dropped", "low-precision")), Finding("failed", "second", ids=())
    assert explained([one]).ids == ("ties-dropped",)
    assert explained([one, replace(one, ids=("low-precision",))]).ids == ("low-precision",)
    assert explained([one, two]).ids == ("unknown",) and explained([one, two]).reason == "first"


@pytest.mark.parametrize("function", ["loss", "gradient", "relative_error"])
def test_nothing_but_nan_points_to_no_formula(function):
    """Formulas that leave a row without allowed positions give nan too, yet not everywhere."""
    nothing = [
        Observation(sample, tuple(np.full(part.value.shape, np.nan) for part in reference(function, sample)))
        for sample in CASES
        if sample.mask is not None
    ]
    found = diagnose(function, nothing)
    assert not found.named and "not finite" in found.words


def test_half_of_the_gradient_of_the_norm_is_no_mere_factor():
    """lam/2 ||M|| differentiated: the same factor 1/2 of M/||M|| everywhere, though each time a factor of M."""
    found = []
    for sample in CASES:
        (attention,) = attention_part("gradient", sample, RIGHT)
        found.append(Observation(sample, (attention + sample.lam / 2 * sample.M / np.linalg.norm(sample.M),)))
    assert diagnose("gradient", found).ids == ("regularizer-not-squared",)


def test_noise_just_above_the_tolerance_is_no_other_regulariser():
    """||M|| times the gradient of ||M|| is the right regulariser: no form may be allowed more noise than that one."""
    noisy = []
    for sample in CASES:
        noise = np.random.default_rng(sample.n).normal(size=sample.M.shape)
        (truth,), (allowed,) = reference("gradient", sample), tolerances("gradient", sample)
        noisy.append(Observation(sample, (truth.value + 1.2 * allowed * noise / np.linalg.norm(noise),)))
    assert not diagnose("gradient", noisy).named


def test_a_mistake_with_a_forgotten_regulariser():
    mistake = next(m for m in MISTAKES if m.id == "missing-softmax-correction")
    found = diagnose("gradient", observed("gradient", {**RIGHT, **mistake.steps}, regular=0.0))
    assert set(found.ids) == {"missing-softmax-correction", "missing-regularizer"}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda G: G + 1e-3 * (np.arange(G.size).reshape(G.shape) == 1), "exactly one entry"),
        (lambda G: G + 1e-3 * np.eye(len(G)), "only the diagonal"),
    ],
)
def test_what_has_no_name_is_described(spoil, said):
    observations = [Observation(sample, (spoil(trusted("gradient", sample)[0]),)) for sample in CASES[:3]]
    found = diagnose("gradient", observations, pairs=False)
    assert found.ids == ("unknown",) and said in found.words


def test_low_precision_is_told_from_a_small_shift():
    results = {sample: trusted("gradient", sample)[0] for sample in CASES}
    rounded = [Observation(sample, (np.float64(np.float32(G)),)) for sample, G in results.items()]
    assert diagnose("gradient", rounded).ids == ("low-precision",)
    shifted = [Observation(sample, (G + 1e-8,)) for sample, G in results.items()]
    assert diagnose("gradient", shifted, pairs=False).ids == ("unknown",)


def test_a_number_is_not_explained_by_any_two_factors():
    rng = np.random.default_rng(0)
    noise = [Observation(sample, (np.asarray(rng.random()),)) for sample in CASES]
    assert fits("loss", noise, RIGHT, None) is None
    assert fits("loss", noise[:1], RIGHT, None) is None


def test_a_factor_of_the_attention_matrix_is_described_not_named():
    found = diagnose("attention", observed("attention", RIGHT, attention=1.01), pairs=False)
    assert not found.named and "1.01 times" in found.words


def test_one_number_of_float32_is_no_short_factor():
    sample = next(sample for sample in regimes(0)["float32"] if sample.lam)
    for factor in np.linspace(0.9, 1.1, 50) + np.pi * 1e-3:
        one = [Observation(sample, tuple(map(np.float32, returned("loss", sample, RIGHT, attention=factor))))]
        assert fits("loss", one, RIGHT, None) is None


@pytest.mark.parametrize(("factor", "summed"), [(None, True), (1.01, False)])
def test_a_batch_is_summed_only_if_the_factor_is_its_size(factor, summed):
    samples = [*CASES, *(sample for sample in regimes(0)["batch"] if len(sample.X) > 1)]
    factors = {sample: 1.0 if sample.X.ndim == 2 else factor or len(sample.X) for sample in samples}
    found = [Observation(sample, returned("gradient", sample, RIGHT, attention=factors[sample])) for sample in samples]
    ids = diagnose("gradient", found, pairs=False).ids
    assert ids == (("batch-not-averaged",) if summed else ("gradient-scale",))


def test_an_attention_part_that_vanishes_here_and_there_has_no_factor():
    mixed = [
        Observation(sample, returned("loss", sample, RIGHT, attention=0.0 if sample.n == 4 else 1.0))
        for sample in CASES
    ]
    assert not diagnose("loss", mixed, pairs=False).named


def test_what_is_changed_on_entry_reaches_the_regulariser():
    rounded = [Observation(sample, trusted("gradient", sample.changed(M=np.round(sample.M)))) for sample in CASES]
    found = diagnose("gradient", rounded)
    assert found.ids == ("clips-or-rounds-M",) and "in the regulariser too" in found.words


def test_sentences_are_sentences():
    assert all(sentence and not sentence.endswith(".") for sentence in SENTENCES.values())
    assert {mistake.id for mistake in MISTAKES} <= set(SENTENCES)


@pytest.mark.parametrize("function", ["loss", "gradient", "layer_loss"])
@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("count", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_noise_has_no_name_and_no_sentence(function, precision, count):
    """Whatever is said of wrong numbers has to be a fit that chance does not give."""
    said = set()
    for regime, seed in (("full", 1), ("causal", 2), ("lam-large", 3), ("outside-box", 4)):
        rng = np.random.default_rng(seed)
        noise = [
            Observation(sample, tuple(rng.normal(size=part.value.shape) for part in reference(function, sample)))
            for sample in asked_samples(function, 0, regime, PRECISIONS[precision])[:count]
        ]
        found = diagnose(function, noise)
        assert not found.named, found
        said.add(found.words)
    assert said == {SENTENCES["unknown"]}


def test_a_single_number_is_not_a_multiple_and_two_are():
    """Of one number something is always true."""
    one, other = ((sample, reference("relative_error", sample)[0].value) for sample in CASES[:2])
    alone = diagnose("relative_error", [Observation(one[0], (0.239198 * one[1],))], pairs=False)
    assert "times" not in alone.words and not alone.named
    both = [Observation(sample, (0.239198 * truth,)) for sample, truth in (one, other)]
    assert "0.239198" in diagnose("relative_error", both, pairs=False).words


def test_a_factor_that_prints_as_one_is_told_from_it():
    found = diagnose("gradient", observed("gradient", RIGHT, attention=1 + 1e-7), pairs=False)
    assert found.ids == ("gradient-scale",) and "factor 1 + 1e-07" in found.words


def test_one_number_everywhere_does_not_depend_on_the_inputs():
    ones = [
        Observation(sample, tuple(np.ones_like(p.value) for p in reference("gradient", sample))) for sample in CASES
    ]
    assert diagnose("gradient", ones).ids == ("constant-output",)


def test_whatever_forbidden_positions_get_is_a_leak():
    leaking = []
    for sample in CASES:
        (truth,) = reference("attention", sample)
        leaking.append(Observation(sample, (np.where((truth.value == 0) & (truth.bound == 0), 1e-280, truth.value),)))
    assert diagnose("attention", leaking).ids == ("mask-leaks",)


def test_a_function_that_is_right_is_not_blamed_for_another(tmp_path):
    """The loss is wrong; the gradient, which disagrees with it, and both at once are right."""
    base = Path(__file__).with_name("wrong") / "base.py"
    text = base.read_text(encoding="utf-8")
    text = text.replace("def loss_and_gradient", "right_loss = loss\n\n\ndef loss_and_gradient")
    text = text.replace("return loss(M, X, W, lam, mask), grad", "return right_loss(M, X, W, lam, mask), grad")
    text += "\n\ndef loss(M, X, W, lam=0.0, mask=None):\n    return 2 * right_loss(M, X, W, lam, mask)\n"
    text = text.replace("np.mean([loss(M, x", "np.mean([right_loss(M, x")
    path = tmp_path / "subject.py"
    path.write_text(text, encoding="utf-8")
    names = ("loss:values:full", "gradient:derivative-of-loss", "loss_and_gradient:agrees")
    result = run_audit(str(path), only=names)
    assert set(result.diagnosis) == {"loss"}
    said = {one.id: one.reason for one in result.checks}
    assert "the subject's loss is not" in said[names[1]] and "the subject's loss is not" in said[names[2]]


@pytest.mark.parametrize(
    ("id", "names"),
    [
        ("fill -1000", ("mask-leaks",)),
        ("gd mask of MW", ("mask-of-other-M",)),
        ("binary M>=.5", ("wrong-count",)),
        ("nan_to_num", ("unstable-exp",)),
        ("descent keeps", ("keeps-instead-of-prunes",)),
        ("magnitude prunes nothing", ("prunes-nothing",)),
        pytest.param("float16 logits for float32", ("low-precision",), marks=pytest.mark.thorough),
        pytest.param("layer: frequencies of a/m", ("rope-frequency",), marks=pytest.mark.thorough),
    ],
)
def test_no_second_name(id, names, tmp_path):
    (wrong,) = (one for one in kill_matrix.catalogue().WRONG if one.id == id)
    assert kill_matrix.diagnoses(kill_matrix.audited(wrong, tmp_path, quick=True)) == names

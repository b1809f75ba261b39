"""Kernels of eight bits under declared recipes: honest ones inside every bound, wrong ones failed under their name."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.kernel.eight.problems import LENGTHS
from attnprune_verify.audit.kernel.problem.eight_bits import EIGHT_BITS
from attnprune_verify.cli.main import main
from attnprune_verify.spec import parametrize_with_kernel_checks
from tests.audit.kernel import eights
from tests.audit.kernel.eight_quotients import problems, quotient

ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy has formats of eight bits from ml_dtypes")
TEXT = Path(eights.__file__).read_text(encoding="utf-8")
SCALES = ("q_scale", "k_scale", "v_scale")


@pytest.mark.parametrize("kind", EIGHT_BITS)
def test_formats_are_those_of_ml_dtypes(kind):
    theirs, ours = np.dtype(getattr(ml_dtypes, kind)), EIGHT_BITS[kind]
    bits = np.arange(256, dtype=np.uint8)
    numbers = bits.view(theirs).astype(float)
    finite = np.isfinite(numbers)
    np.testing.assert_array_equal(ours.decoded(bits), np.where(finite, numbers, np.nan))
    rng = np.random.default_rng(0)
    some = np.sort(numbers[finite])
    given = np.concatenate([(some[1:] + some[:-1]) / 2, some, rng.standard_normal(10**4) * 2.0 ** rng.uniform(-20, 7)])
    given = given[np.abs(given) <= ours.largest]
    np.testing.assert_array_equal(ours.encoded(given), given.astype(theirs).view(np.uint8))


@pytest.mark.parametrize("name", eights.RECIPES)
def test_no_honest_program_is_above_the_worst_case(name):
    dtype, recipe, how = eights.RECIPES[name]
    kernel = eights.kernel(recipe, **{**how, "plain": False})
    found = {one.sample.name: quotient(kernel, one) for one in problems(dtype, recipe, 3)}
    assert max(found.values()) < 1, found
    assert max(found.values()) > 0.03, found  # and the bound is not so wide that it says nothing


ALONE = {
    f"{name} alone": (eights.E4M3, {**eights.OWN, **{part: "float32" for part in "qkvp" if part != name[0]}}, {})
    for name in ("queries", "keys", "values")
}
LINES = {
    "weights": ("one scale, weights before the sum", {"p": "float32"}),
    "weights after the sum": ("e5m2, a scale a row", {"rounded": "before"}),
    "the factor": ("one scale, weights before the sum", {"factor": 256.0}),
    "weights divided": ("blocks of 16, divided first", {"p": "float32"}),
    "inputs": ("stored by the kernel, a scale a row", {"q": "float32", "k": "float32"}),
    "queries": ("queries alone", {"q": "float32"}),
    "keys": ("keys alone", {"k": "float32"}),
    "values": ("values alone", {"v": "float32"}),
    "decoded": ("keys and values alone", {"decoded": "float32"}),
    "output": ("output in eight bits", {"o": "bfloat16"}),
}


@pytest.mark.parametrize("line", LINES)
def test_without_its_line_an_honest_program_is_above(line):
    name, without = LINES[line]
    dtype, recipe, how = {**eights.RECIPES, **ALONE}[name]
    kernel = eights.kernel(recipe, **{**how, "plain": False})
    inside, largest = 0.0, 0.0
    for problem in problems(dtype, recipe, 3):
        precision = problem.sample.precision
        less = replace(precision, recipe=replace(precision.recipe, **without))
        inside, largest = max(inside, quotient(kernel, problem)), max(largest, quotient(kernel, problem, less))
    assert inside < 1 < largest


@pytest.mark.parametrize("name", eights.RECIPES)
def test_honest_recipes_pass(name):
    dtype, recipe, how = eights.RECIPES[name]
    found = apv.check_attention(eights.kernel(recipe, **how), dtype=dtype, recipe=recipe, ignored=SCALES)
    assert found.outcome == "passed", found
    passed = {record.name for record in found.checks if record.status == "passed"}
    assert {f"values:length-{length}" for _, length in LENGTHS} | {"decoded", "ones:random"} <= passed
    assert ("future" in passed) == ("plain" not in how)


@pytest.mark.parametrize("name", eights.WRONG)
def test_wrong_kernels_fail_under_their_name(name):
    recipe, wrong, id = eights.WRONG[name]
    found = apv.check_attention(eights.kernel(recipe, **wrong), dtype=eights.E4M3, recipe=recipe, ignored=SCALES)
    assert (found.outcome, found.diagnosis) == ("failed", {"attention": (id,)}), found


def test_what_is_wrong_is_said():
    recipe, wrong, _ = eights.WRONG["e5m2 weights for e4m3"]
    found = apv.check_attention(eights.kernel(recipe, **wrong), dtype=eights.E4M3, recipe=recipe)
    words = next(record.words for record in found.checks if record.status == "failed")
    assert '"p": {"format": "float8_e5m2", "rounded": "before", "factor": 1.0}' in words
    recipe, wrong, _ = eights.WRONG["scale of v left out"]
    found = apv.check_attention(eights.kernel(recipe, **wrong), dtype=eights.E4M3, recipe=recipe)
    assert "the scale of v is not used" in next(record.words for record in found.checks if record.status == "failed")


def test_a_later_declaration_makes_a_deviation_right():
    recipe, wrong, _ = eights.WRONG["weights that sum to .64"]
    other = {**recipe, "p": eights.weights(eights.E4M3, "after")}
    found = apv.check_attention(eights.kernel(recipe, **wrong), dtype=eights.E4M3, recipe=other)
    assert found.outcome == "passed"
    said = next(record for record in found.checks if record.name == "ones:far-levels")
    assert said.status == "inconclusive" and "the recipe itself may move the output by" in said.reason


@pytest.fixture
def audited(tmp_path, capsys):
    """The exit code and the report, or what is said, of the command on a target with these lines."""

    def run(lines, *options):
        target = tmp_path / "target.py"
        target.write_text(f"{TEXT}\n\n{lines}\n", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main(["audit-kernel", str(target), "--dtype", "float8_e4m3fn", *options])
        said = capsys.readouterr()
        return ended.value.code, said.out or said.err

    return run


def test_a_target_is_judged_confined(audited):
    lines = "RECIPE, attention = FLASH3, kernel(FLASH3, 64)"
    code, said = audited(lines, "--format", "json")
    document = json.loads(said)
    assert (code, document["outcome"]) == (0, "passed") and "files" in document["confinement"]["closed"]
    assert "forward only in eight bits" in document["judged"] and "RECIPE = " in document["notes"]["attention"]
    code, said = audited(lines, "--plan")
    assert code == 0 and "19 of 19 checks apply" in said
    code, said = audited("RECIPE, attention = PLAIN, kernel(PLAIN, rounded='after')", "--only", "attention:ones:*")
    assert code == 1 and "weights-not-normalised" in said


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("", "dtype float8_e4m3fn needs a recipe"),
        ("RECIPE = 'e4m3'", "RECIPE must be a mapping of q, k, v, p, o, scale_block, inputs, decoded; got 'e4m3'"),
        ("RECIPE = {'q': E4M3, 'k': E4M3, 'v': E4M3, 'o': E4M3}", "p, scale_block missing"),
        ("RECIPE = {**PLAIN, 'scale_blok': 'row'}", "got 'scale_blok'; did you mean scale_block?"),
        ("RECIPE = {**PLAIN, 'v': 'e4m3'}", "in RECIPE v must be one of float8_e4m3fn, float8_e5m2, float32"),
        ("RECIPE = {**PLAIN, 'p': {'format': E4M3, 'rounded': 'late'}}", "in RECIPE rounded must be one of before,"),
        ("RECIPE = {**PLAIN, 'p': {'format': E4M3, 'factor': 300}}", "in RECIPE factor of p must be a number that"),
        ("RECIPE = {**PLAIN, 'p': {'rounded': 'after'}}", "p must be a format, or name format, rounded, factor"),
        ("RECIPE = {**PLAIN, 'scale_block': 'channel'}", "in RECIPE scale_block must be tensor, head, row"),
        ("RECIPE = {**PLAIN, 'scale_block': {'q': 'row', 'k': 0, 'v': 1}}", "in RECIPE scale_block must be"),
        ("RECIPE = stored('bfloat16', 'float32', 'float32', 'row')", "q, k, v or p must be of float8_e4m3fn"),
        ("RECIPE = stored(E5M2, E5M2, 'float32', 'row')", "dtype must be a format that RECIPE has for q, k, v or p"),
    ],
)
def test_wrong_declarations_are_refused(audited, lines, said):
    code, found = audited(f"attention = kernel(PLAIN)\n{lines}")
    assert code == 2 and said in " ".join(found.split())


def test_the_line_to_paste_is_a_recipe(audited):
    _, said = audited("attention = kernel(PLAIN)")
    line = "RECIPE = " + " ".join(said.split()).partition("RECIPE = ")[2]
    code, _ = audited(f"{line}\nattention = kernel(RECIPE, 32)")
    assert code == 0


def test_modes_are_refused(audited):
    code, said = audited("RECIPE, attention = PLAIN, kernel(PLAIN)", "--mode", "bitwise")
    assert code == 2 and "modes must be none beside float8_e4m3fn; got bitwise" in " ".join(said.split())


def test_layouts_sizes_and_aliases_are_declared(audited):
    lines = """
LAYOUT, SIZES, CAPABILITIES = "bnhm", {"m": (64, 128), "mv": "m", "l": {"multiple_of": 16}}, ("causal_only",)
RECIPE = FLASH3
mine = kernel(FLASH3, 16)
def attention(q, k, v, softmax_scale=None, q_descale=None, k_descale=None, v_descale=None, causal=False):
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    scales = dict(zip(("q_scale", "k_scale", "v_scale"), (q_descale, k_descale, v_descale)))
    return mine(q, k, v, causal=causal, scale=softmax_scale, **scales).swapaxes(1, 2)
"""
    code, said = audited(lines, "--format", "json")
    document = json.loads(said)
    assert code == 0, document
    assert {"causal", "scale"} <= set(document["judged"]) and document["not_exercised"] == []


def test_numbers_that_no_call_gave_are_reported(audited):
    lines = "RECIPE, attention = RECIPES['stored by the kernel, a scale a row'][1], kernel(OWN)"
    code, said = audited(lines, "--format", "json")
    assert code == 3 and json.loads(said)["not_exercised"] == list(SCALES)


@pytest.mark.parametrize(
    ("body", "code", "id"),
    [
        ("raise ValueError('no')", 3, None),
        ("return np.zeros(3, np.float32)", 1, "wrong-shape"),
        ("return q", 1, "wrong-dtype"),
        (
            "q[...] = 1\n    return kernel(PLAIN)(q, k, v)",
            1,
            "mutates-input",
        ),
        ("return typed(np.nan * q.astype(np.float32), 'bfloat16')", 1, "nan-output"),
        ("import os\n    os._exit(3)", 3, None),
    ],
)
def test_what_gives_no_numbers_does_not_pass(audited, body, code, id):
    lines = f"RECIPE = PLAIN\ndef attention(q, k, v, *, q_scale=None, k_scale=None, v_scale=None):\n    {body}"
    found, said = audited(lines, "--format", "json")
    document = json.loads(said)
    ids = {name for record in document["checks"] for name in record["diagnosis"] or ()}
    assert (found, ids) == (code, {id} if id else set()), document["checks"]


def test_torch_kernels_get_tensors_of_eight_bits():
    pytest.importorskip("torch")
    import torch

    def attention(q, k, v, *, is_causal=False, q_descale=None, k_descale=None, v_descale=None):
        assert (q.dtype, q_descale.dtype) == (torch.float8_e4m3fn, torch.float32)
        q, k, v = (x.float() * by[..., None, None] for x, by in ((q, q_descale), (k, k_descale), (v, v_descale)))
        s = q @ k.mT / q.shape[3] ** 0.5
        if is_causal:
            s = s.masked_fill(~torch.ones(s.shape[2:], dtype=torch.bool).tril(), -torch.inf)
        w = 256 * (s - s.amax(-1, keepdim=True)).exp()
        return (w.to(torch.float8_e4m3fn).float() @ v / w.sum(-1, keepdim=True)).bfloat16()

    recipe = {**eights.FLASH3, "scale_block": "head"}
    found = apv.check_attention(attention, dtype="float8_e4m3fn", recipe=recipe, framework="torch")
    assert found.outcome == "passed", found


def test_evaluators_and_tests_take_a_recipe():
    recipe, wrong, id = eights.WRONG["scale of v left out"]
    evaluator = apv.AttentionEvaluator("float8_e4m3fn", recipe=recipe, only="attention:decoded", seed=0)
    verdict = evaluator.evaluate(eights.kernel(recipe, **wrong))
    assert (verdict["correctness"], verdict["metadata"]["diagnosis"]) == (False, {"attention": [id]})
    assert evaluator.evaluate(eights.kernel(recipe))["correctness"]
    with pytest.raises(apv.InvalidInstance, match="dtype must be one of float64"):
        evaluator.questions()
    mark = parametrize_with_kernel_checks(
        eights.kernel(recipe), dtype="float8_e4m3fn", recipe=recipe, only="attention:decoded"
    )
    (check,) = mark.args[1]
    check.values[0]()

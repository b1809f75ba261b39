"""Pruning programs of other people: wrong ones fail by name, right ones pass once their conventions are declared."""

import re
from pathlib import Path

import pytest

from attnprune_verify.audit.covering import covered
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.functions.truth.layers import TABLE, together
from attnprune_verify.audit.functions.truth.precision import FLOAT64
from attnprune_verify.errors import InvalidInstance
from tests.audit.unseen import unseen

BASE = Path(__file__).with_name("pruning").joinpath("base.py").read_text(encoding="utf-8")


def audited(folder, source, function, **options):
    path = folder / "subject.py"
    path.write_text(source, encoding="utf-8")
    return run_audit(str(path), only=function, **options)


def edited(one):
    """The source with the edits of its function."""
    return unseen.edited(BASE, one["edits"], one["function"])


COUNT, ROWS, GONE = "count = int(weight.size * rho)", "int(columns * rho)", "    return gone"
WHOLE = "gone = smallest(scores.reshape(1, -1), int(scores.size * rho)).reshape(scores.shape)"
OTHERS = {
    "magnitude rounds": ("magnitude_mask", COUNT, "count = round(weight.size * rho)", "{'count': 'round'}"),
    "magnitude rounds up": ("magnitude_mask", COUNT, "count = int(np.ceil(weight.size * rho))", "{'count': 'ceil'}"),
    "magnitude rounds a half up": (
        "magnitude_mask", COUNT, "count = int(weight.size * rho + 0.5)", "{'count': 'round'}",
    ),
    "magnitude by rows": (
        "magnitude_mask", GONE, "    return smallest(sizes, int(sizes.shape[1] * rho))", "{'threshold': 'row'}",
    ),
    "magnitude keeps the first of equal ones": (
        "magnitude_mask", GONE,
        "    gone = np.argsort(np.argsort(-sizes.ravel(), kind='stable')).reshape(sizes.shape)\n"
        "    return gone >= sizes.size - count", "{'ties': 'kept-first'}",
    ),
    "magnitude prunes all equal ones": (
        "magnitude_mask", GONE, "    return sizes <= np.max(sizes[gone], initial=-1)", "{'ties': 'pruned-all'}",
    ),
    "magnitude keeps all equal ones": (
        "magnitude_mask", GONE, "    return gone & (sizes < np.min(sizes[~gone], initial=np.inf))",
        "{'ties': 'kept-all'}",
    ),
    "wanda rounds": ("wanda", ROWS, "round(columns * rho)", "{'count': 'round'}"),
    "wanda rounds up": ("wanda", ROWS, "int(np.ceil(columns * rho - 1e-9))", "{'count': 'ceil'}"),
    "wanda has one threshold a layer": (
        "wanda", f"gone = smallest(scores, {ROWS})",
        WHOLE, "{'threshold': 'matrix'}",
    ),
    "wanda by rounds of the layer": (
        "wanda", f"gone = smallest(scores, {ROWS})",
        WHOLE.replace("int", "round"),
        "{'count': 'round', 'threshold': 'matrix'}",
    ),
    "sparsegpt prunes an exact count": (
        "sparsegpt", "scores <= cut if rho else False",
        "smallest(scores.reshape(1, -1), int(scores.size * rho)).reshape(scores.shape)", "{'count': 'exact'}",
    ),
    "sparsegpt chooses in the whole matrix, before its first update": (
        "sparsegpt", "    for a in range(0, W.shape[1], blocksize):",
        "    every = W**2 / np.diag(U) ** 2\n"
        "    first = every <= np.sort(every, axis=None)[min(int(W.size * rho), W.size - 1)]\n"
        "    for a in range(0, W.shape[1], blocksize):", "{'threshold': 'matrix'}",
        ("scores <= cut if rho", "first[:, a:b] if rho"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "id", [*list(OTHERS)[:1], *(pytest.param(id, marks=pytest.mark.thorough) for id in list(OTHERS)[1:])]
)
def test_right_programs_pass_once_their_convention_is_declared(id, tmp_path):
    function, old, new, declared, *more = OTHERS[id]
    source = edited({"id": id, "function": function, "edits": [(old, new), *more]})
    result = audited(tmp_path, source, function)
    assert "convention" in result.diagnosis[function]
    (said,) = {
        re.search(r"declare CONVENTIONS = (\{.*?\}) if", one.reason)[1] for one in result.checks if one.diagnosis
    }
    assert said == declared
    result = audited(tmp_path, f"{source}\n\nCONVENTIONS = {said}\n", function)
    assert result.outcome == "passed", result
    wrong = audited(tmp_path, f"{BASE}\n\nCONVENTIONS = {said}\n", function, names="never")
    assert wrong.outcome == "failed"  # a declaration is verified


# A convention of the table above that is declared, and a mistake beside it: named as without the declaration.
BESIDE = {
    "absolute-values": ("magnitude by rows", "sizes = np.abs(weight)", "sizes = weight"),
    "threshold-off-by-one": ("magnitude rounds", 'kind="stable")[:count]', 'kind="stable")[:max(count - 1, 0)]'),
    "squared-norm": ("wanda rounds", "norms_of(X)", "norms_of(X) ** 2"),
    "baseline-score": ("wanda has one threshold a layer", "norms_of(X)", "np.abs(X).reshape(-1, X.shape[-1]).sum(0)"),
    "baseline-damping": ("sparsegpt prunes an exact count", "np.diag(H).mean()", "np.diag(H).max()"),
    "baseline-dead-inputs": ("sparsegpt prunes an exact count", "    W[:, dead] = 0\n", ""),
}


@pytest.mark.parametrize(
    "id", [*list(BESIDE)[:1], *(pytest.param(id, marks=pytest.mark.thorough) for id in list(BESIDE)[1:])]
)
def test_mistakes_beside_a_declared_convention_are_named(id, tmp_path):
    """A signed magnitude with a threshold a row was "unknown", SparseGPT's damping "baseline-update"."""
    convention, *edit = BESIDE[id]
    function, old, new, declared = OTHERS[convention]
    source = edited({"id": id, "function": function, "edits": [(old, new), edit]})
    result = audited(tmp_path, f"{source}\n\nCONVENTIONS = {declared}\n", function)
    assert result.outcome == "failed" and set(result.diagnosis[function]) <= {id, "baseline-score", "pattern-dropped"}


def test_a_declaration_of_what_is_none_is_refused(tmp_path):
    for declared in (
        "CONVENTIONS = {'count': 'some'}",
        "CONVENTIONS = {'size': 1}",
        "PATTERNS = '2:4'",
        "PATTERNS = ('4:2',)",
    ):
        with pytest.raises(InvalidInstance, match=r"CONVENTIONS|PATTERNS"):
            audited(tmp_path, f"{BASE}\n{declared}\n", "wanda")


PATTERN_ONLY = "    if (prune_n, prune_m) != (2, 4):\n        raise NotImplementedError('2:4 alone')\n    scores"


def test_a_program_of_one_pattern_is_judged_on_it(tmp_path):
    """It ended incomplete, nothing wrong was found: the first refusal ended each check."""
    one = {"id": "", "function": "wanda", "edits": [("    scores", PATTERN_ONLY)]}
    result = audited(tmp_path, edited(one), "wanda")
    assert result.outcome == "passed" and "refuses 1:4" in result.notes["wanda"]
    assert "refuses a ratio" in next(check.reason for check in result.checks if check.name == "values")
    one["edits"].append(("smallest(group, prune_n)", "smallest(group[:, ::-1], prune_n)"))
    assert audited(tmp_path, edited(one), "wanda", names="never").outcome == "failed"


def test_what_refuses_everything_is_incomplete(tmp_path):
    one = {"id": "", "function": "wanda", "edits": [("    scores", "    raise NotImplementedError\n    scores")]}
    assert audited(tmp_path, edited(one), "wanda", quick=True).outcome == "incomplete"


@pytest.mark.parametrize("patterns", [None, ("2:4",), ("2:4", "4:16")])
def test_every_two_levels_stand_together_in_a_layer(patterns):
    rows = together(0, FLOAT64, patterns)
    table = TABLE if patterns is None else {**TABLE, "kind": ("a ratio", *patterns)}
    seen, every = covered([layer.levels for layer in rows], table, 2)
    assert seen == every and {layer.kind for layer in rows} == set(table["kind"])
    assert {layer.weight.shape[1] % (layer.m or 1) for layer in rows} == {0}
    assert {layer.few for layer in rows} == {True, False}

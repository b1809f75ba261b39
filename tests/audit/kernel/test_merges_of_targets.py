"""`audit-kernel` on targets with merges: judged as by `check_merge`, in a process of their own."""

import json
from pathlib import Path

import pytest

import attnprune_verify as apv
from attnprune_verify.cli.main import main
from tests.audit.kernel import joins

TEXT = Path(joins.__file__).read_text(encoding="utf-8")
KERNEL = """
def attention(q, k, v):
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v
"""


@pytest.fixture
def audited(tmp_path, capsys):
    """The exit code and the report of the command on a target with these lines."""

    def run(lines, *options, before=TEXT):
        target = tmp_path / "target.py"
        target.write_text(f"{before}\n\n{lines}\n", encoding="utf-8")
        with pytest.raises(SystemExit) as ended:
            main(["audit-kernel", str(target), "--format", "json", *options])
        said = capsys.readouterr()
        return ended.value.code, json.loads(said.out) if said.out else said.err

    return run


def names(document):
    return {(record["function"], *record["diagnosis"]) for record in document["checks"] if record["status"] == "failed"}


@pytest.mark.parametrize("name", joins.WRONG)
def test_wrong_merges_fail_under_their_name(audited, name):
    code, document = audited(f"merge = WRONG[{name!r}][0]")
    assert (code, document["outcome"], names(document)) == (1, "failed", {("merge", joins.WRONG[name][1])})
    direct = apv.check_merge(joins.WRONG[name][0])
    assert [record["id"] for record in document["checks"] if record["status"] == "failed"] == [
        record.id for record in direct.checks if record.status == "failed"
    ]


@pytest.mark.parametrize("fn", joins.RIGHT)
def test_right_merges_pass_confined_and_alone(audited, fn):
    many = fn in (joins.many, joins.one_after_another)
    name = "merge_many" if many else "merge"
    code, document = audited(f"{name} = {fn.__name__}" + ("" if many else "\nmerge_backward = backward"))
    functions = [name] if many else [name, "merge_backward"]
    assert (code, document["judged"]) == (0, functions) and "files" in document["confinement"]["closed"]
    assert {record["status"] for record in document["checks"]} == {"passed"}
    assert len(document["checks"]) == document["expected_checks"] == 16 + 12 * (not many)


@pytest.mark.parametrize("name", joins.WRONG_BACKWARD)
def test_wrong_gradients_fail_under_their_name(audited, name):
    code, document = audited(f"merge, merge_backward = divided_last, WRONG_BACKWARD[{name!r}][0]")
    assert (code, names(document)) == (1, {("merge_backward", joins.WRONG_BACKWARD[name][1])})


def test_declared_conventions_are_those_of_the_merge(audited):
    assert audited("CONVENTIONS = {'lse_base': '2'}\nmerge = in_base_2")[0] == 0
    code, document = audited("CONVENTIONS = {'empty_lse': '+inf'}\nmerge = divided_last")
    assert (code, names(document)) == (1, {("merge", "merge-empty")})


def test_a_merge_is_judged_beside_attention_and_chosen_by_only(audited):
    wrong = KERNEL + "merge = WRONG['averaged'][0]"
    code, document = audited(wrong, "--only", "merge*", "--only", "attention:values:plain")
    assert (code, names(document)) == (1, {("merge", "merge-weights")})
    assert {record["function"] for record in document["checks"] if record["status"] == "passed"} == {"attention"}
    assert audited(wrong, "--only", "attention:values:plain")[0] == 0
    assert audited(KERNEL, "--only", "merge*")[0] == 2  # there is none


def test_a_helper_that_takes_other_arguments_is_no_merge(audited):
    code, document = audited(KERNEL + "def merge(states):\n    return states", "--only", "attention:values:plain")
    assert (code, {record["function"] for record in document["checks"]}) == (0, {"attention"})


@pytest.mark.parametrize(
    ("lines", "code", "status"),
    [
        ("def merge(o1, a, o2, b):\n    raise ValueError('no')", 1, "failed"),
        ("def merge(o1, a, o2, b):\n    return o1", 1, "failed"),
        ("import os\ndef merge(o1, a, o2, b):\n    os._exit(3)", 3, "could_not_run"),
    ],
)
def test_what_gives_no_answer_does_not_pass(audited, lines, code, status):
    found, document = audited(lines)
    assert (found, {record["status"] for record in document["checks"]}) == (code, {status})


IN_JAX = """
import jax
import jax.numpy as jnp

@jax.jit
def merge(o1, a, o2, b):
    top = jnp.maximum(a, b)
    top = jnp.where(jnp.isneginf(top), 0, top)
    e1, e2 = jnp.exp(a - top), jnp.exp(b - top)
    total = e1 + e2
    o = (e1[..., None] * o1 + e2[..., None] * o2) / jnp.where(total > 0, total, 1)[..., None]
    return o.astype(o1.dtype), top + jnp.log(total)

def merge_backward(*given):
    return jax.vjp(merge, *given[:4])[1](given[4:])
"""


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", set()),
        ("jnp.exp(", "jnp.exp2(", {("merge", "merge-weights"), ("merge_backward", "merge-weights")}),
        ("given[4:])", "(given[4], 0 * given[5]))", {("merge_backward", "merge-lse")}),
    ],
    ids=["right", "weights in base 2", "dlse left out"],
)
def test_merges_in_jax_are_judged(audited, old, new, found):
    pytest.importorskip("jax")
    code, document = audited(IN_JAX.replace(old, new) if old else IN_JAX, before="")
    assert (code, document["judged"]) == (int(bool(found)), ["merge", "merge_backward"])
    assert names(document) == found


def test_plans_have_merges(capsys, tmp_path):
    target = tmp_path / "target.py"
    target.write_text(f"{TEXT}\n\nmerge = divided_last\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["audit-kernel", "--plan", str(target)])
    assert "16 of 16 checks apply" in capsys.readouterr().out

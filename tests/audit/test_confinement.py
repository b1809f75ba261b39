"""Seeds, limits and confinement as options and in the result; the arena attacks them."""

import json
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

import attnprune_verify as apv
from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.subject import landlock, wire
from attnprune_verify.audit.subject.environment import CACHES, KEPT, ONE_THREAD, environment
from attnprune_verify.audit.subject.process import largest_answer
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.report.audit_findings import confined

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
SOURCE = "import numpy as np\ndef causal_mask(n):\n    return np.tri(n)\n"


@pytest.fixture
def subject(tmp_path):
    path = tmp_path / "subject.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


def test_the_result_holds_what_was_closed(subject):
    result = run_audit(subject, only="causal_mask", seed="random")
    schema = json.loads(files("attnprune_verify.report").joinpath("schemas/audit.schema.json").read_text("utf-8"))
    jsonschema.validate(result.as_dict(), schema)
    found = result.as_dict()["confinement"]
    assert set(found) == {"kind", "abi", "closed"} and found["abi"] == (landlock.abi() or None)
    assert ("files" in found["closed"]) == (found["kind"] == "landlock") == (landlock.abi() > 0)
    off = run_audit(subject, only=("causal_mask",), confine="off")
    assert off.confinement == {"kind": "off", "abi": None, "closed": []} and "--confine off" in confined(off)
    assert result.outcome == off.outcome == "passed" and off.seed == 0


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"seed": "any"}, "seed must be an integer"),
        ({"seed": -1}, "seed must be an integer"),
        ({"limit": 0}, "limit must be a positive number"),
        ({"limit": float("nan")}, "limit must be a positive number"),
        ({"call_limit": "1"}, "call_limit must be a positive number"),
        ({"confine": "yes"}, "confine must be one of"),
    ],
)
def test_terms_that_are_none(subject, terms, said):
    with pytest.raises(InvalidInstance, match=said):
        run_audit(subject, **terms)


@pytest.mark.parametrize(
    "options",
    [("--seed", "often"), ("--seed", "-1"), ("--limit", "0"), ("--limit", "nan"), ("--call-limit", "-3"),
     ("--confine", "maybe"), ("--limit", "inf")],
)  # fmt: skip
def test_options_that_are_none(subject, options, capsys):
    for command in ("audit", "audit-kernel"):
        with pytest.raises(SystemExit) as ended:
            main([command, subject, *options])
        assert (
            ended.value.code == 2
            and len(capsys.readouterr().err.splitlines()) <= 1
            or options == ("--confine", "maybe")
        )


def test_when_the_time_is_over_the_rest_could_not_run(subject):
    result = run_audit(subject, only="causal_mask", limit=1e-6)
    assert result.outcome == "incomplete" and {record.status for record in result.checks} == {"could_not_run"}
    assert "limit of 1e-06 s" in result.checks[0].reason


def test_every_variable_of_a_subject_is_listed_in_the_documentation():
    listed = re.findall(r"`([A-Z][A-Z0-9_]+)`", PAGE.read_text("utf-8").partition("## What the subject can reach")[2])
    fixed = ("HOME", "PYTHONUSERBASE", "PYTHONDONTWRITEBYTECODE")
    assert {*KEPT, *CACHES, *ONE_THREAD, *fixed} <= set(listed)


def test_an_answer_may_be_as_large_as_the_contract_makes_it():
    import numpy as np

    X, head = np.zeros((1, 1100, 4)), {"heads": 4, "W_Q": np.zeros((4, 16))}
    assert largest_answer([head, X]) >= 4 * 1100**2 * 8  # the attention of every head
    assert largest_answer([1100]) >= 1100**2 * 8  # causal_mask(n)
    assert largest_answer([10**9]) == 1 << 26
    heads = np.broadcast_to(0.0, (1, 128, 128, 192))
    assert largest_answer([heads] * 4) >= 3 * heads.nbytes > 1 << 26  # the gradients of many heads, on a whole tile


def test_arrays_keep_their_values_and_layouts_on_the_way():
    import numpy as np

    rng = np.random.default_rng(5)
    base = rng.standard_normal((3, 4, 6))
    every = [base, base.T, base[..., ::2], base.astype("f2"), base > 0, np.asfortranarray(base[0]), np.zeros((0, 3))]
    header, content, spans = wire.placed({"arguments": every})
    memory = bytearray(content)
    taken = wire.taken(header, memory)["arguments"]
    for sent, got in zip(every, taken, strict=True):
        assert sent.dtype == got.dtype and np.array_equal(sent, got) and got.flags.writeable
        assert sent.flags.c_contiguous == got.flags.c_contiguous and sent.flags.f_contiguous == got.flags.f_contiguous
    taken[2][0, 0, 0] += 1.0
    assert wire.changed(spans, content, bytes(memory)) == [2] and wire.changed(spans, content, content) == []
    back = wire.decode(wire.encode({"parts": every})[8:])["parts"]
    assert all(np.array_equal(sent, got) for sent, got in zip(every, back, strict=True))


def test_a_folder_elsewhere_is_closed_until_it_is_named(tmp_path):
    library, folder = tmp_path / "library", tmp_path / "target"
    for place in (library, folder):
        place.mkdir()
    (library / "helpers_of_a_kernel.py").write_text("BASE = 2.0\n")
    target = folder / "needing.py"
    target.write_text(
        f"import sys\nsys.path.append({str(library)!r})\nimport helpers_of_a_kernel\n"
        "def attention(q, k, v):\n    return helpers_of_a_kernel.BASE * v\n"
    )
    only = ("attention:dtype",)
    assert apv.run_kernel_audit(str(target), only=only, path=str(library)).checks[0].status == "passed"
    assert apv.run_kernel_audit(str(target), only=only, confine="off").checks[0].status == "passed"
    with pytest.raises(InvalidInstance, match="path must be a folder"):
        apv.run_kernel_audit(str(target), only=only, path=(str(tmp_path / "missing"),))
    if apv.run_kernel_audit(str(target), only=only, path=str(library)).confinement["kind"] == "landlock":
        with pytest.raises(InvalidInstance, match=r"helpers_of_a_kernel.*--path FOLDER.*--confine off"):
            apv.run_kernel_audit(str(target), only=only)


def test_the_interpreter_of_triton_is_let_through():
    assert environment("/x", confined=True, own={"TRITON_INTERPRET": "1", "TOKEN": "s"})["TRITON_INTERPRET"] == "1"

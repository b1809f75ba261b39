"""One statement: judged alone, shown with the numbers that decide it, kept for the next time."""

import json
import subprocess
import sys
from importlib import resources

import jsonschema
import pytest

from attnprune_verify.claims import registry, run
from attnprune_verify.claims.cases.relation import at_least, at_most, equal, numbers
from attnprune_verify.claims.judging import text_cache, verdict_cache
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.run import rerun, run_claims
from attnprune_verify.cli.main import main
from attnprune_verify.errors import InvalidInstance

SCHEMA = json.loads((resources.files("attnprune_verify.report") / "schemas" / "claims.schema.json").read_text("utf-8"))
BRIEF = Effort(0, 0, 0, 0)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNPRUNE_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def judged_once(tmp_path_factory):
    """A cache that the tests below share: what one of them has judged, with whatever effort, the next one reads."""
    return tmp_path_factory.mktemp("judged") / "cache"


@pytest.fixture
def shared_cache(judged_once, monkeypatch):
    monkeypatch.setenv("ATTNPRUNE_CACHE", str(judged_once))


def show(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main([*arguments, "--quiet"])
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


def test_a_verdict_is_kept_and_said_to_be(capsys):
    code, out, _ = show(capsys, "show", "lem:bound_c", "--format", "json")
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(out))
    assert code == 0 and not any(one["kept"] for one in json.loads(out)["claims"])
    again = json.loads(show(capsys, "show", "lem:bound_c", "--format", "json")[1])["claims"]
    assert all(one["kept"] for one in again)


def test_a_counterexample_can_be_evaluated_again(capsys, shared_cache):
    code, out, _ = show(capsys, "show", "lem:PL_ineq", "--reading", "full", "--format", "json")
    (row,) = json.loads(out)["claims"]
    found = row["witness"]
    assert (code, row["statement"], found["relation"]) == (0, "refuted", ">=")
    assert found["lhs"] < found["rhs"] and found["n"] * found["d"] <= 16
    again = rerun("lem:PL_ineq", "full", found["inputs"])
    assert again.certain is False
    assert numbers(again.relation) == (found["lhs"], found["rhs"])
    capsys.readouterr()
    for more in ([], ["--all"]):
        text = show(capsys, "show", "lem:PL_ineq", *more)[1]
        assert "; false here: lhs = " in text.replace("\n  ", " ")
        assert "kept from an earlier run" in text and "fix:PL_ineq" in text
        assert max(map(len, text.splitlines())) <= 80 and not any(line.endswith(" ") for line in text.splitlines())


def test_a_summary_has_about_ten_lines_and_all_has_everything(capsys, shared_cache):
    brief = show(capsys, "show", "lem:PL_ineq")[1]
    whole = show(capsys, "show", "lem:PL_ineq", "--all")[1]
    one, other, hint = brief.removesuffix("\n").split("\n\n")
    assert one.startswith("lem:PL_ineq (full)   refuted") and other.startswith("lem:PL_ineq (causal)   vacuous")
    assert max(text.count("\n") + 1 for text in (one, other)) <= 11 and hint.startswith("  --all prints")
    for word in (
        "  if\n    n >= 2\n",
        "rerun('lem:PL_ineq'",
        "proofs_check/coq/analysis/PLRefuted.v",
        "theorem PL_ineq_full",
    ):
        assert word in whole and word not in brief
    assert "--all prints" not in whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "lem:PL_inq"], "did you mean lem:PL_ineq"),
        (["show", "PL_ineq"], "lem:PL_ineq"),
        (["claims", "nothing:of-the-kind"], "got 'nothing:of-the-kind'"),
        (["show", "lem:PL_ineq", "--reading", "upside-down"], "--reading must be one of full, causal"),
        (["show", "lem:PL_ineq", "--reading", "casual"], "got 'casual'; did you mean causal?"),
        (["claims", "--verdict", "refutd"], "; did you mean refuted?"),
        (["claims", "lem:PL_ineq", "--verdict", "wrong"], "--verdict must be one of holds, refuted"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(capsys, arguments, message):
    code, out, err = show(capsys, *arguments)
    assert code == 2 and out == "" and message in err and err.count("\n") == 1


def test_without_an_id_all_are_listed(capsys):
    code, out, err = show(capsys, "show")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [*dict.fromkeys(claim.id for claim in registry.claims())]


def test_claims_takes_ids_and_verdicts(capsys, shared_cache):
    code, out, _ = show(capsys, "claims", "rem:practical", "fac:mean_value", "--verdict", "refuted", "--format", "json")
    assert code == 0
    assert [(row["id"], row["statement"]) for row in json.loads(out)["claims"]] == [("rem:practical", "refuted")]


def test_only_what_is_asked_for_and_its_ancestors_are_judged():
    told = []
    found = run_claims(BRIEF, lambda done, total: told.append(total), ids=["lem:grad_sum"])
    assert {record.claim.id for record in found.records} == {"lem:grad_sum"}
    needed = registry.with_ancestors(["lem:grad_sum"])
    assert told[0] == sum(claim.id in needed for claim in registry.claims()) < len(registry.claims())
    with pytest.raises(InvalidInstance, match="an id must be a label"):
        run_claims(BRIEF, ids=["lem:grad_summ"])


def test_a_verdict_is_kept_for_its_effort_and_its_code_alone(monkeypatch):
    (claim,) = [claim for claim in registry.claims() if claim.test_id == "lem:PL_ineq-full"]
    judged = run_claims(BRIEF, ids=["lem:PL_ineq"], keep_verdicts=True).records[0].judgement
    assert verdict_cache.kept(claim, BRIEF).statement is judged.statement
    assert verdict_cache.kept(claim, BRIEF._replace(examples=1)) is None
    monkeypatch.setattr(verdict_cache, "code_and_libraries", lambda: "other code")
    assert verdict_cache.kept(claim, BRIEF) is None


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"statement": "true"}', b"\xff"])
def test_a_damaged_cache_is_no_verdict(content):
    claim = next(claim for claim in registry.claims() if claim.id == "fac:mean_value")
    run_claims(BRIEF, ids=["fac:mean_value"], keep_verdicts=True)
    assert verdict_cache.kept(claim, BRIEF) is not None
    for path in text_cache.folder().rglob("*.json"):
        path.write_bytes(content)
    assert verdict_cache.kept(claim, BRIEF) is None


def test_a_cache_that_cannot_be_written_to_is_done_without(monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("ATTNPRUNE_CACHE", str(tmp_path / "file" / "below"))
    assert run_claims(BRIEF, ids=["fac:mean_value"], keep_verdicts=True).records[0].judgement.kept is False


def test_the_sides_of_a_relation_are_those_of_its_worst_entry():
    assert numbers(equal([1.0, 2.0], [1.0, 5.0])) == (2.0, 5.0)
    assert numbers(at_most([1.0, 4.0], [3.0, 3.0])) == (4.0, 3.0)
    assert numbers(at_least([1.0, 4.0], [3.0, 3.0])) == (1.0, 3.0)
    assert numbers(equal([1.0], [1.0, 2.0, 3.0][:0])) == (None, None)


def test_no_statement_is_judged_twice(capsys, monkeypatch):
    """The work is counted, not the time: what is asked for, its repair and what both rest on, each once."""
    judged = []
    monkeypatch.setattr(run, "judge_safely", lambda claim, _: judged.append(claim.test_id) or judge(claim, BRIEF))
    assert show(capsys, "show", "lem:PL_ineq")[0] == 0
    needed = registry.with_ancestors(["lem:PL_ineq"])
    assert set(judged) <= {claim.test_id for claim in registry.claims() if claim.id in needed}
    assert {"lem:PL_ineq-full", "lem:PL_ineq-causal", "fix:PL_ineq-any"} <= set(judged)
    assert show(capsys, "show", "lem:PL_ineq", "fix:PL_ineq")[0] == 0 and len(judged) == len(set(judged))


def test_a_refuted_ancestor_spares_the_others(monkeypatch):
    """The main theorem rests on the refuted PL inequality: one of some forty that a full run asks, same answer."""
    judged = []
    monkeypatch.setattr(run, "judge_safely", lambda claim, _: judged.append(claim.id) or judge(claim, BRIEF))
    alone = run_claims(BRIEF, ids=["thm:our_convergence"])
    assert len(judged) <= 12 < len(registry.with_ancestors(["thm:our_convergence"]))
    assert not any(record.ancestors_hold for record in alone.records)


@pytest.mark.thorough
def test_one_statement_alone_is_what_a_full_run_finds():
    """Every field of the report of every statement, ancestors included, whatever is judged before it."""
    whole = {(row["id"], row["reading"]): row for row in run_claims(BRIEF).as_dict()["claims"]}
    for id_ in sorted({name for name, _ in whole})[::4]:
        for row in run_claims(BRIEF, ids=[id_]).as_dict()["claims"]:
            assert row == whole[row["id"], row["reading"]]


def test_what_is_kept_is_shown_without_loading_what_computed_it(capsys, monkeypatch):
    monkeypatch.setattr(run, "judge_safely", lambda claim, _: judge(claim, BRIEF))
    first = show(capsys, "show", "lem:PL_ineq", "--all")[1]
    program = "import sys\nfrom attnprune_verify.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
    program += "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    command = [sys.executable, "-c", program, "show", "lem:PL_ineq", "--all", "--quiet"]
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "flint", "mpmath", "autograd", "hypothesis"} & set(again.stderr.split())
    sentence = "    This verdict is kept from an earlier run of the same code; --fresh judges\n    anew.\n"
    assert again.stdout.replace(sentence, "") == first and sentence in again.stdout


def test_a_drawn_case_does_not_depend_on_what_is_loaded():
    """The same verdict, cases and slack, whatever modules stand beside (a library's strategies read their sources).

    This process has loaded Hypothesis and pytest, the other one neither.
    """
    program = (
        "import sys\nfrom attnprune_verify.claims.judging.falsifier import Effort\n"
        "from attnprune_verify.claims.run import run_claims\n"
        "(one,) = run_claims(Effort(0, 10, 0, 0), ids=['def:exp_func']).records\n"
        "found = [one.judgement.tried, one.judgement.slack, one.judgement.best]"
    )
    apart = program + "\nprint(found, 'hypothesis' in sys.modules or 'pytest' in sys.modules)"
    other = subprocess.run([sys.executable, "-c", apart], capture_output=True, text=True, check=True).stdout
    exec(program, here := {})
    assert "hypothesis" in sys.modules and other == f"{here['found']} False\n"

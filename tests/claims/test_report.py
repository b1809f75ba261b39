"""The run, its JSON against the schema, the text, the page, and the command with its exit codes."""

import io
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click import UsageError
from click.testing import CliRunner, Result
from rich.console import Console

from attnprune_verify.claims import registry
from attnprune_verify.claims.cases.relation import at_most
from attnprune_verify.claims.core import Verdict
from attnprune_verify.claims.formulas.scope import sentence
from attnprune_verify.claims.judging import falsifier, verdict_cache
from attnprune_verify.claims.judging.falsifier import Effort
from attnprune_verify.claims.judging.judge import Judgement
from attnprune_verify.claims.run import ClaimsResult, rerun, run_claims, witness
from attnprune_verify.cli.claims import command
from attnprune_verify.files import dumps
from attnprune_verify.report.claims_html import render_page
from attnprune_verify.report.claims_text import closing_sentence, render_claims

SCHEMA = json.loads((resources.files("attnprune_verify.report") / "schemas" / "claims.schema.json").read_text("utf-8"))
BRIEF = Effort(0, 0, 0, 0)


@pytest.fixture(scope="module")
def result() -> ClaimsResult:
    return run_claims(BRIEF)


def test_the_closing_sentence_counts_statements_not_readings(result: ClaimsResult) -> None:
    """Two readings of one lemma are one statement, and a sentence about an experiment is none of the paper's."""
    kept = {"lem:bound_c", "lem:lower_bound_p", "fac:algebra", "exp:momentum", "exp:xi_vanishes", "fix:bound_c"}
    some = ClaimsResult(tuple(record for record in result.records if record.claim.id in kept))
    assert closing_sentence(some) == (
        "2 of 3 statements of the paper hold under every reading, 1 of 1 sentences of its text, and 0 of 1 consequences"
        " drawn from it; 1 of 1 repaired or new statements hold and none fails. Outcome: judged."
    )
    papers = ClaimsResult(tuple(record for record in some.records if record.claim.id == "lem:lower_bound_p"))
    verdicts = "lem:lower_bound_p (full) holds; lem:lower_bound_p (causal) vacuous"
    assert papers.outcome == "passed"
    assert closing_sentence(papers) == f"0 of 1 statements of the paper hold. {verdicts}. Outcome: judged."


def test_json_follows_its_schema(result: ClaimsResult) -> None:
    report = json.loads(dumps(result.as_dict()))
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    assert sum(report["counts"].values()) == len(report["claims"]) == len(registry.claims())
    keys = [(claim["id"], claim["reading"]) for claim in report["claims"]]
    assert len(set(keys)) == len(keys)
    assert result.outcome == "passed"


def test_every_name_in_the_json_exists(result: ClaimsResult) -> None:
    ids = {record.claim.id for record in result.records}
    for claim in result.as_dict()["claims"]:
        assert set(claim["uses"]) <= ids
        assert claim["repaired_by"] is None or claim["repaired_by"] in ids
        assert all((Path(__file__).parents[2] / file).is_file() for file in claim["evidence_files"])


def test_ancestors(result: ClaimsResult) -> None:
    mark = {record.claim.test_id: record.ancestors_hold for record in result.records}
    assert mark["thm:mat_view_l-any"]  # rests on fac:calculus, which is ill-posed and repaired
    assert mark["fix:PL_ineq-any"]
    assert not mark["thm:our_convergence-full"]  # rests on the refuted PL lemma
    assert mark["lem:lower_bound_p-causal"]  # vacuous itself, but its row version holds under any mask
    assert not mark["lem:lower_bound_p_informal-causal"]  # which rests on it


def test_every_printed_snippet_runs_and_says_what_the_report_says(result: ClaimsResult) -> None:
    ran = 0
    for record in result.records:
        code = record.as_dict()["rerun"]
        if code is None or record.statement not in (Verdict.REFUTED, Verdict.HOLDS) or ran >= 60:
            continue
        values = re.search(r"rerun\('([^']+)', '([^']+)', (.*)\)$", code, re.DOTALL)
        assert values is not None
        trial = rerun(values[1], values[2], eval(values[3], {"nan": float("nan"), "inf": float("inf")}))
        if record.statement is Verdict.REFUTED:
            assert trial.certain is False, record.claim.test_id
        else:
            assert trial.certain is not False and trial.failed is None, record.claim.test_id
        ran += 1
    assert ran >= 40


def test_a_snippet_runs_in_a_fresh_python(result: ClaimsResult) -> None:
    record = next(r for r in result.records if r.claim.test_id == "lem:PL_ineq-full")
    code = record.as_dict()["rerun"]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "lem:PL_ineq-full: certainly violated" in done.stdout, done.stderr


@pytest.mark.parametrize("width", [80, 200])
def test_text_has_a_line_for_every_claim(result: ClaimsResult, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO(), highlight=False)
    console.print(render_claims(result), markup=False)
    text = console.export_text()
    for record in result.records:
        name = f"{record.claim.id} ({record.claim.reading.name})"
        assert re.search(rf"^{record.statement.value} +{re.escape(name)}(  .*|)$", text, re.MULTILINE), name
    assert not re.search(r"^(formal|certified|exact|measured)", text, re.MULTILINE)  # wrapped to the margin
    assert "G Convergence of Gradient Descent" in text and " ".join(text.split()).endswith("Outcome: judged.")


def test_where_something_was_measured_is_said_once_above_what_was_measured_there(result: ClaimsResult) -> None:
    """Under its heading a sentence is the whole one again; what was not measured stands under none."""
    console = Console(width=10**4, record=True, file=io.StringIO(), highlight=False)
    console.print(render_claims(result), markup=False)
    text = console.export_text()
    records = {f"{one.claim.id} ({one.claim.reading.name})": one for one in result.records}
    verdicts = {verdict.value for verdict in Verdict}
    where, name, said = "", "", {}
    for line in text.splitlines():
        if line.startswith("Measured on "):
            assert line != f"{where.removesuffix('.')}:"  # once
            where = f"{line.removesuffix(':')}."
        elif line.startswith(" "):
            if not line.strip().startswith(("Found: ", "Evidence: ")):
                said[name] = f"{line.strip()} {where}".strip()
        elif line.split(" ")[0] in verdicts and len(said) < len(records):
            name = re.fullmatch(r"\S+ +(\S+ \(.*?\))(?:  .*)?", line)[1]
        elif line:
            where = ""  # a section begins
    assert said.keys() == records.keys()
    for name, record in records.items():
        tautology = " It restates a definition: a tautology." if "tautology" in record.claim.tags else ""
        assert said[name] == sentence(record.claim) + tautology, name
    measured = [record for record in result.records if "measured" in record.claim.tags]
    assert 1 < text.count("Measured on") < len(measured) / 2
    assert all("Measured on " in record.as_dict()["says"] for record in measured)


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[str] = []
        self.edges = 0
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        if found.get("class") == "node":
            self.nodes.append(str(found["data-id"]))
        self.edges += found.get("class") == "edge"
        self.loaded += [str(found[key]) for key in ("src", "href") if found.get(key)]


def test_the_page_is_whole_and_loads_nothing(result: ClaimsResult) -> None:
    page = render_page(result)
    parsed = _Page()
    parsed.feed(page)
    ids = {record.claim.id for record in result.records}
    assert sorted(parsed.nodes) == sorted(ids)
    assert parsed.edges == len({(r.claim.id, use) for r in result.records for use in r.claim.uses})
    assert [address for address in parsed.loaded if not address.startswith("data:")] == []
    assert "@@" not in page
    assert not re.search(r"url\((?!#)", page)
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None and len(json.loads(data[1])) == len(result.records)


def test_nodes_do_not_overlap(result: ClaimsResult) -> None:
    from attnprune_verify.report.claims_layout import HEIGHT, WIDTH, arrange

    layout = arrange(result.records)
    for index, one in enumerate(layout.nodes):
        assert 0 <= one.x <= layout.width - WIDTH and 0 <= one.y <= layout.height - HEIGHT
        for other in layout.nodes[:index]:
            assert abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT


def test_sections_are_in_the_papers_order(result: ClaimsResult) -> None:
    """The main text, whose sections have numbers, then the appendix, whose sections have letters; so in the text."""
    from attnprune_verify.report.claims_layout import arrange

    titles = [band.title for band in arrange(result.records).bands if not band.title.startswith("In the text")]
    assert titles == sorted(titles) and titles[0][0].isdigit() and titles[-1][0].isalpha()
    console = Console(width=200, record=True, file=io.StringIO(), highlight=False)
    console.print(render_claims(result), markup=False)
    text = console.export_text()
    assert [text.index(f"\n{title}\n") for title in titles] == sorted(text.index(f"\n{title}\n") for title in titles)


def test_text_in_the_page_is_escaped(result: ClaimsResult) -> None:
    record = result.records[0]
    claim = replace(record.claim, title="</script><b>", says="<img src=x>")
    evil = ClaimsResult((replace(record, judgement=replace(record.judgement, claim=claim)),))
    page = render_page(evil)
    assert "<img src=x>" not in page and "</script><b>" not in page


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The command with the shortest search, from an unrelated folder."""
    monkeypatch.setattr(falsifier, "QUICK", BRIEF)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_command_writes_json(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    some = registry.claims()[:40]
    monkeypatch.setattr(registry, "claims", lambda: some)
    done = _run("--format", "json", "--out", "claims.json")
    assert done.return_value == 0, done.output
    report = json.loads((quick / "claims.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    assert sorted(path.name for path in quick.iterdir()) == ["claims.json"]


def _with(monkeypatch: pytest.MonkeyPatch, **changes: object) -> None:
    """The command on a list of one claim, changed."""
    template = replace(registry.find("fix:bound_c", "any"), uses=(), repairs=None, **changes)
    monkeypatch.setattr(registry, "claims", lambda: (template,))


def test_nothing_is_left_in_the_folder_one_is_in(tmp_path: Path) -> None:
    """Hypothesis would make a folder of its own there."""
    code = (
        "from attnprune_verify.claims import registry, run\nfrom attnprune_verify.claims.judging import falsifier\n"
        "some = registry.claims()[:3]\n"
        "registry.claims = lambda: some\n"
        "print(run.run_claims(falsifier.Effort(0, 10, 0, 0)).outcome)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "passed", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_exit_codes(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(q: object) -> None:
        raise RuntimeError("broken check")

    _with(monkeypatch)
    assert _run().return_value == 0
    _with(monkeypatch, margin=lambda q: at_most(q.number(2.0), q.number(1.0)))
    assert _run("--quiet").return_value == 1
    _with(monkeypatch, margin=broken)
    done = _run("--format", "html")
    assert done.return_value == 3 and "could not be run: RuntimeError: broken check" in done.output
    _with(monkeypatch, id="lem:bound_c", margin=lambda q: at_most(q.number(2.0), q.number(1.0)))
    assert _run().return_value == 0  # a refuted statement of the paper is a finding


def test_bad_output_is_refused_before_any_work(quick: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "claims", lambda: pytest.fail("worked before looking at --out"))
    done = _run("--format", "json", "--out", "nowhere/claims.json")
    assert isinstance(done.exception, UsageError)
    assert str(done.exception) == "--out must name a file in a folder that exists; got 'nowhere/claims.json'"


def test_open_verdicts_are_worded(result: ClaimsResult) -> None:
    conjecture = next(r for r in result.records if r.claim.id == "new:row_third_derivative")
    assert conjecture.statement is Verdict.OPEN and "a conjecture" in conjecture.note
    assert Judgement(conjecture.claim).statement is Verdict.OPEN  # the default, never `holds`


def test_every_refuted_statement_has_numbers(result: ClaimsResult) -> None:
    refuted = [
        record
        for record in result.records
        if record.statement in (Verdict.REFUTED, Verdict.MISSTATED, Verdict.ILL_POSED)
    ]
    assert len(refuted) > 20
    for record in refuted:
        found = witness(record)
        assert found is not None and found["lhs"] is not None and found["rhs"] is not None, record.claim.test_id
        assert found.get("inputs") or found.get("measured"), record.claim.test_id


def test_what_is_kept_is_what_was_found(result: ClaimsResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record of each kind, read back from the cache, is the record that was put there."""
    monkeypatch.setenv("ATTNPRUNE_CACHE", str(tmp_path))
    kinds = {
        (type(one.claim.supply), one.claim.arithmetic, one.judgement.statement, one.judgement.witness is None): one
        for one in result.records
    }
    assert len(kinds) > 15
    for record in kinds.values():
        verdict_cache.keep(record.judgement, BRIEF)
        again = verdict_cache.kept(record.claim, BRIEF)
        assert again is not None, record.claim.test_id
        for name in ("statement", "slack", "attained", "tried", "met", "failed", "reason", "certified"):
            np.testing.assert_equal(getattr(again, name), getattr(record.judgement, name), err_msg=record.claim.test_id)
        for name in ("worst", "witness", "smallest"):
            old, new = getattr(record.judgement, name), getattr(again, name)
            assert (old is None) == (new is None)
            if old is not None:
                assert str(old.case.as_json()) == str(new.case.as_json()), record.claim.test_id

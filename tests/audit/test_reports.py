"""The audit's reports: JSON by its schema, JUnit that parses, one page that escapes, snippets that run."""

import contextlib
import io
import json
import re
import sys
from html import unescape
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

from attnprune_verify.audit.functions.run import run_audit
from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.files import dumps
from attnprune_verify.report.audit_contract import contract_text
from attnprune_verify.report.audit_findings import _where, closing_sentence, unsettled
from attnprune_verify.report.audit_html import audit_html
from attnprune_verify.report.audit_junit import audit_junit
from attnprune_verify.report.audit_text import render_audit

SOURCE = """
__version__ = "1.2"
import numpy as np

def causal_mask(n):
    return np.tri(n)

def binary_mask(M, rho):
    return (M > np.sort(M, axis=None)[min(int(rho * M.size), M.size - 1)]) * 1.0

def magnitude_mask(weight, rho):
    raise ValueError("<b>\\x00 & 'quotes'")

def attention(X, W, mask=None):
    A = X @ W @ X.T / np.sqrt(len(W))
    A = A if mask is None else np.where(mask == 1, A, -np.inf)
    A = np.exp(A - A.max(1, keepdims=True))
    return A / A.sum(1, keepdims=True)
"""


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    path = tmp_path_factory.mktemp("subject") / "subject.py"
    path.write_text(SOURCE, encoding="utf-8")
    return str(path)


@pytest.fixture(scope="module")
def result(subject):
    return run_audit(subject, only=("causal_mask", "binary_mask", "magnitude_mask", "attention"))


def test_json_obeys_the_published_schema(result):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(files("attnprune_verify.report").joinpath("schemas/audit.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(dumps(result.as_dict()))
    jsonschema.validate(document, schema)
    assert document["schema"] == schema["$id"] == "attnprune-verify/audit/1"
    assert document["target"]["version"] == "1.2" and document["outcome"] == "failed"
    assert document["expected_checks"] == len(document["checks"]) == sum(document["counts"].values())
    assert document["largest_matrix"]["binary_mask"]["rows"] >= 4
    order = ["failed", "could_not_run", "inconclusive", "waived", "passed", "not_applicable"]
    met = [order.index(check["status"]) for check in document["checks"]]
    assert met == sorted(met) and document["checks"][0]["status"] == "failed"
    broken = {**document, "outcome": "fine"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)
    undiagnosed = json.loads(json.dumps(document))
    next(check for check in undiagnosed["checks"] if check["status"] == "failed")["diagnosis"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(undiagnosed, schema)


# The layout that readers of JUnit files agree on: the attributes that have to be there, those that may, the children.
JUNIT = {
    "testsuites": ({"name", "tests", "failures", "errors", "time"}, {"disabled"}, ["testsuite"]),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time"},
        {"disabled", "timestamp", "hostname", "id", "package"},
        ["properties", "testcase", "system-out", "system-err"],
    ),
    "properties": (set(), set(), ["property"]),
    "property": ({"name", "value"}, set(), []),
    "testcase": (
        {"name", "classname", "time"},
        {"status", "assertions"},
        ["skipped", "error", "failure", "system-out", "system-err"],
    ),
    "skipped": ({"message"}, {"type"}, []),
    "failure": ({"message", "type"}, set(), []),
    "error": ({"message", "type"}, set(), []),
}


def obeys(element):
    required, optional, children = JUNIT[element.tag]
    assert required <= set(element.keys()) <= required | optional, element.attrib
    places = [children.index(child.tag) for child in element]
    assert places == sorted(places)
    for count in ("tests", "failures", "errors", "skipped"):
        assert int(element.get(count, "0")) >= 0
    assert float(element.get("time", "0")) >= 0
    for child in element:
        obeys(child)


def test_junit_has_the_usual_shape_and_counts_what_it_lists(result):
    root = ElementTree.fromstring(audit_junit(result))
    obeys(root)
    (suite,) = root
    cases = suite.findall("testcase")
    assert root.tag == "testsuites" and int(suite.get("tests")) == len(cases) == result.expected_checks
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{tag}"))
    assert int(suite.get("failures")) == int(root.get("failures")) == result.counts()["failed"] > 0
    assert int(suite.get("errors")) == int(root.get("errors")) == result.counts()["could_not_run"] > 0
    messages = [failure.get("message") for failure in suite.iter("failure")]
    assert any("logit-scale" in message for message in messages)
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)


def test_the_same_error_at_other_sizes_is_listed_once():
    def record(status, reason):
        return Record(reason, "attention", None, "", True, status, reason)

    raised = [record("could_not_run", f"ValueError: no {size} keys, on a sample") for size in (7, 8)]
    undecided = [record("inconclusive", f"the bound is {size} times the result") for size in (7, 8)]
    found = unsettled(SimpleNamespace(checks=raised + undecided))
    assert [one.records for one in found] == [tuple(raised), *((each,) for each in undecided)]


def test_junit_has_the_times_the_checks_took(result):
    suite = ElementTree.fromstring(audit_junit(result))[0]
    times = [float(case.get("time")) for case in suite.iter("testcase")]
    assert len(set(times)) > 10 and max(times) > 0.01
    assert float(suite.get("time")) == pytest.approx(sum(times), abs=1e-4 * len(times))


def test_what_the_target_does_not_have_is_no_row_and_no_case(subject):
    result = run_audit(subject, only=("causal_mask", "loss", "gradient"))
    suite = ElementTree.fromstring(audit_junit(result))[0]
    assert [case.get("classname") for case in suite.iter("testcase")] == ["audit.causal_mask"]
    page = audit_html(result)
    assert (
        "loss:values" not in page and "Not in the target: loss, gradient." in page
    )  # what nobody asked for is not said
    assert "not_applicable" not in page.partition("</style>")[2]


def test_junit_reports_missing_checks():
    result = AuditResult("t", None, None, 0, 3, (Record("loss:x", "loss", None, "s", True, "passed", "r"),))
    suite = ElementTree.fromstring(audit_junit(result))[0]
    assert suite.get("errors") == "1" and suite.get("tests") == "2"
    assert "2 of 3 checks did not run" in suite.find("testcase/error").get("message")


def test_html_is_one_page_and_escapes(result):
    page = audit_html(result)
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "<b>" not in page and "&lt;b&gt;" in page
    assert "http" not in page.replace("https://json", "") and "<script" not in page and "src=" not in page
    assert "logit-scale" in page and "threshold-off-by-one" in page and "attention:values:full" in page


def test_every_finding_is_linked_from_the_box_at_the_top(result):
    page = audit_html(result)
    box = page.partition('<div class="verdict failed">')[2].partition("</div>")[0]
    anchors = {unescape(one) for one in re.findall(r'id="([^"]+)"', page)}
    assert len(anchors) == len(re.findall(r'id="[^"]+"', page))
    links = [unescape(one) for one in re.findall(r'href="#([^"]+)"', page)]
    assert set(links) <= anchors
    linked = [unescape(one) for one in re.findall(r'href="#([^"]+)"', box)]
    assert "finding-attention:values:full" in linked and "finding-binary_mask:values" in linked
    assert "magnitude_mask:values" in linked
    assert {record.id for record in result.checks if record.status == "failed"} <= set(links)
    assert page.index("<h2>Mistakes") < page.index("<h2>Checks") < page.index("without a finding")


def test_text_says_the_verdict_and_the_mistake(result):
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=120).print(render_audit(result), markup=False)
    text = " ".join(out.getvalue().split())
    assert "diagnosis: logit-scale" in text and "Outcome: failed." in text and "sees errors above" in text
    assert "could not run magnitude_mask:values" in text
    assert "attention (logit-scale" in closing_sentence(result)
    assert text.index("Outcome: failed.") < text.index("diagnosis: logit-scale") < text.index("could not run")
    assert text.count("failed attention") == 1 and "wrong on" not in text  # one finding, on the smallest instance


def test_text_prints_the_detection_power():
    result = run_audit("attnprune_verify", only=("attention",))
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=120).print(render_audit(result), markup=False)
    row = next(line for line in out.getvalue().splitlines() if line.startswith("attention "))
    powers = [float(word) for word in row.split() if "e-" in word]
    assert powers and 1e-16 < powers[0] < 1e-12
    said = closing_sentence(result)
    assert said.startswith("Right in every regime") and re.search(r"up to n = \d+ and d = \d+, and no larger", said)


def test_sizes_are_said_function_by_function():
    passed = Record("loss:x", "loss", None, "says", True, "passed", "r")
    largest, matrices = {"loss": (1100, 70), "attention": (9, 6)}, {"binary_mask": (300, 5)}
    result = AuditResult("t", None, None, 0, 1, (passed,), largest=largest, matrices=matrices)
    said = closing_sentence(result)
    assert "n = 1100 and d = 70 (loss)" in said and "n = 9 and d = 6 (attention)" in said
    assert "matrices of 300 x 5 (binary_mask), and no larger" in said


def test_what_is_waived_is_not_called_right():
    records = (
        Record("loss:x", "loss", None, "says", True, "passed", "r"),
        Record("loss:y", "loss", None, "says", True, "waived", "r"),
    )
    assert closing_sentence(AuditResult("t", None, None, 0, 2, records)).startswith("Nothing wrong but what is waived")


def test_text_says_when_nothing_was_asked():
    skipped = Record("loss:x", "loss", None, "says", True, "waived", "skipped: slow")
    result = AuditResult("subject", None, None, 0, 1, (skipped,))
    assert closing_sentence(result) == (
        "Nothing passed: 1 checks were waived, the others do not apply. Outcome: incomplete."
    )


@pytest.mark.parametrize("function", ["attention", "binary_mask"])
def test_the_snippet_runs_and_shows_the_failure(result, function, monkeypatch):
    monkeypatch.delitem(sys.modules, "subject", raising=False)  # of another test in this process
    record = next(r for r in result.checks if r.function == function and r.status == "failed")
    names = {}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(record.snippet, "snippet", "exec"), names)
    assert printed.getvalue()
    assert np.shape(names["result"]) == np.shape(names["expected"])
    assert np.abs(names["result"] - names["expected"]).max() > 1e-6


def test_the_instance_is_shrunk(result):
    record = next(r for r in result.checks if r.id == "attention:values:full")
    assert "Smallest: " in record.reason and "smallest found (n=2" in record.instance


def test_the_docs_show_the_contract():
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text(encoding="utf-8")
    assert contract_text() in page


def test_the_sizes_that_most_functions_were_judged_at_are_told_first():
    sizes = {"gradient": (8, 4), "loss": (64, 32), "attention": (64, 32)}
    said = _where(SimpleNamespace(dtype="float32", largest=sizes, matrices={"magnitude": (9, 5)}))
    assert said == (
        " in float32, up to n = 64 and d = 32 (loss, attention); n = 8 and d = 4 (gradient); "
        "matrices of 9 x 5 (magnitude), and no larger"
    )

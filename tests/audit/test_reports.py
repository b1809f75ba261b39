"""The audit's reports: JSON by its schema, JUnit that parses, one page that escapes, snippets that run."""

import contextlib
import io
import json
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from attnprune_verify.audit.record import Record
from attnprune_verify.audit.run import AuditResult, run_audit
from attnprune_verify.files import dumps
from attnprune_verify.report.audit_contract import contract_text
from attnprune_verify.report.audit_html import audit_html
from attnprune_verify.report.audit_junit import audit_junit
from attnprune_verify.report.audit_text import closing_sentence, render_audit

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
def result(tmp_path_factory):
    path = tmp_path_factory.mktemp("subject") / "subject.py"
    path.write_text(SOURCE, encoding="utf-8")
    return run_audit(str(path), only=("causal_mask", "binary_mask", "magnitude_mask", "attention"))


def test_json_obeys_the_published_schema(result):
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(files("attnprune_verify.report").joinpath("schemas/audit.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    document = json.loads(dumps(result.as_dict()))
    jsonschema.validate(document, schema)
    assert document["schema"] == schema["$id"] == "attnprune-verify/audit/1"
    assert document["target"]["version"] == "1.2" and document["outcome"] == "failed"
    assert document["expected_checks"] == len(document["checks"]) == sum(document["counts"].values())
    broken = {**document, "outcome": "fine"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema)
    undiagnosed = json.loads(json.dumps(document))
    next(check for check in undiagnosed["checks"] if check["status"] == "failed")["diagnosis"] = []
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(undiagnosed, schema)


def test_junit_counts_what_it_lists(result):
    root = ElementTree.fromstring(audit_junit(result))
    (suite,) = root
    cases = suite.findall("testcase")
    assert root.tag == "testsuites" and int(suite.get("tests")) == len(cases) == result.expected_checks
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute)) == int(root.get(attribute)) == len(suite.findall(f"testcase/{tag}"))
    assert int(suite.get("failures")) == result.counts()["failed"] > 0
    assert int(suite.get("errors")) == result.counts()["could_not_run"] > 0
    messages = [failure.get("message") for failure in suite.iter("failure")]
    assert any("logit-scale" in message for message in messages)
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)


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


def test_text_says_the_verdict_and_the_mistake(result):
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=120).print(render_audit(result), markup=False)
    text = " ".join(out.getvalue().split())
    assert "diagnosis: logit-scale" in text and "Outcome: failed." in text and "sees errors above" in text
    assert "could not run magnitude_mask:values" in text
    assert "attention (logit-scale" in closing_sentence(result)


def test_text_prints_the_detection_power():
    result = run_audit("attnprune_verify", only=("attention",))
    from rich.console import Console

    out = io.StringIO()
    Console(file=out, width=120).print(render_audit(result), markup=False)
    row = next(line for line in out.getvalue().splitlines() if line.startswith("attention "))
    powers = [float(word) for word in row.split() if "e-" in word]
    assert powers and 1e-16 < powers[0] < 1e-12
    assert closing_sentence(result).startswith("Right in every regime")


def test_text_says_when_nothing_was_asked():
    skipped = Record("loss:x", "loss", None, "says", True, "waived", "skipped: slow")
    result = AuditResult("subject", None, None, 0, 1, (skipped,))
    assert closing_sentence(result) == (
        "Nothing passed: 1 checks were waived, the others do not apply. Outcome: incomplete."
    )


@pytest.mark.parametrize("function", ["attention", "binary_mask"])
def test_the_snippet_runs_and_shows_the_failure(result, function):
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

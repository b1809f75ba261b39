"""The text of `audit` says what the result holds, for every combination of statuses."""

import re
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest

from attnprune_verify.audit.record import Record
from attnprune_verify.audit.result import AuditResult
from attnprune_verify.report.audit_text import render_audit
from tests.report.reading import known, text_of, unknown

STATUSES = ("passed", "failed", "inconclusive", "could_not_run", "could_not_judge", "waived", "not_applicable")
SHOWN = {
    "inconclusive": "undecided", "could_not_run": "not run", "could_not_judge": "not judged", "not_applicable": "n/a",
}  # fmt: skip


def made(*statuses: str) -> AuditResult:
    """A result of five checks of two functions, one status after the other."""
    names = ["loss:value", "loss:lam", "gradient:value", "gradient:sign", "gradient:mask"]
    records = tuple(
        Record(name, name.partition(":")[0], None, f"{name} is right", True, status, f"because of {name}",
               diagnosis=("unknown",) if status == "failed" else (), error=0.25, bound=0.125, power=0.5, seed=7)
        for name, status in zip(names, statuses, strict=True)
    )  # fmt: skip
    return AuditResult("target", "1.2", "ab" * 32, 7, len(records), records, largest={"loss": (5, 3)})


COMBINATIONS = [*product(STATUSES, repeat=2)]


@pytest.mark.parametrize(("first", "other"), COMBINATIONS)
def test_audit(first: str, other: str) -> None:
    result = made("passed", first, first, other, "not_applicable")
    text = text_of(render_audit(result))
    (last,) = [line for line in text.splitlines() if "Outcome:" in line]
    assert last.endswith(f"Outcome: {result.outcome}.")
    assert last.startswith("Wrong") is (result.outcome == "failed")
    assert ("Nothing wrong" in last) is (
        result.outcome == "incomplete" or (result.outcome == "passed" and waived(result))
    )
    assert last.startswith("Right in every") is (result.outcome == "passed" and not waived(result))
    closing(result, text)
    table(result, text)
    assert unknown(text, [*known(result.as_dict()), *counts(result)]) == []


WORDS = {
    "could_not_run": r"(\d+) checks could not run",
    "could_not_judge": r"(\d+) broke attnprune-verify itself",
    "failed": r"(\d+) of \d+ checks failed",
    "inconclusive": r"(\d+) were not decided",
    "passed": r"(\d+) of \d+ checks passed",
    "waived": r"(\d+) (?:waived|checks were waived)",
}
"""Phrases of the closing sentence: each number counts the records of its status."""


def closing(result: AuditResult, text: str) -> None:
    """Each number of the closing sentence is the count that its words name; what was asked is what applies."""
    line = text.replace("\n", " ")
    for status, phrase in WORDS.items():
        for found in re.findall(phrase, line):
            assert int(found) == sum(one.status == status for one in result.checks), (status, line)
    applying = sum(one.status != "not_applicable" for one in result.checks)
    assert all(int(found) == applying for found in re.findall(r"\d+ of (\d+) checks (?:passed|failed)", line))
    phrases = {
        "passed": ["passed"],
        "failed": ["failed"],
        "incomplete": ["could_not_run", "could_not_judge", "waived", "inconclusive"],
    }
    assert any(re.search(WORDS[status], line) for status in phrases[result.outcome])


def waived(result: AuditResult) -> bool:
    return any(record.status == "waived" for record in result.checks)


def counts(result: AuditResult) -> list[float]:
    every = [one.status for one in result.checks]
    asked = len(every) - every.count("not_applicable")
    of_each = Counter((one.function, one.status) for one in result.checks)
    return [asked, len(every), *map(every.count, STATUSES), *of_each.values()]


def table(result: AuditResult, text: str) -> None:
    """Each cell counts the records of its function and status."""
    lines = text.splitlines()
    (head,) = [line for line in lines if line.startswith("function ")]
    columns = re.split(r"\s{2,}", head.strip())[1:]
    for function in ("loss", "gradient"):
        (line,) = [line for line in lines if re.match(rf"{function} {{2,}}", line)]
        cells = dict(zip(columns, line.split()[1:], strict=False))
        for status in STATUSES:
            count = sum(one.function == function and one.status == status for one in result.checks)
            shown = cells.get(SHOWN.get(status, status), "-")
            assert int(shown.replace("-", "0")) == count, (function, status)


@pytest.mark.parametrize("status", ["failed", "inconclusive", "could_not_run", "could_not_judge"])
def test_each_finding_is_named(status: str) -> None:
    text = text_of(render_audit(made("passed", status, "passed", "passed", "passed")))
    assert f"{status.replace('_', ' ')} loss:lam" in text and "because of loss:lam" in text
    assert "loss:value" not in text.partition("function ")[0]


@pytest.mark.parametrize("powers", [(0.5, 0.25), (0.25, 0.5), (1e-9, None), (None, 0.125), (None, None)])
def test_the_coarsest_power_is_shown(powers: tuple[float | None, float | None]) -> None:
    """Passed checks have a power: errors below the largest of their powers may have gone unnoticed in one of them."""
    result = made("passed", "passed", "failed", "passed", "passed")
    given = iter((*powers, *[1e-3] * 3))
    changed = replace(result, checks=tuple(replace(one, power=next(given)) for one in result.checks))
    text = text_of(render_audit(changed))
    (line,) = [line for line in text.splitlines() if re.match(r"loss {2,}", line)]
    seen = [power for power in powers if power is not None]
    assert line.split()[-1] == (f"{max(seen):.1g}" if seen else "-")

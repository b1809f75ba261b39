"""Run tests on mutants: a pytest plugin that forks for each, after everything is imported and collected.

    python -m pytest -n0 -p tests.mutants.plugin --mutants 'ID;...' TEST...

With --mutants-explore every collected test is tried on every mutant until one fails, and its name is printed; without,
a mutant's own catcher only.
"""

import json
import os
import time
from typing import Any

import pytest

from attnprune_verify.claims.registry import claims
from tests.mutants.patching import Mutant, apply


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mutants")
    group.addoption("--mutants", default="", help="ids, separated by semicolons; none means all")
    group.addoption("--mutants-explore", action="store_true", help="try every collected test on every mutant")
    group.addoption("--mutants-out", default="", help="JSON file for what caught what")


def chosen(config: pytest.Config) -> list[Mutant]:
    from tests.mutants.catalogue import MUTANTS

    ids = set(filter(None, config.getoption("--mutants").split(";")))
    unknown = ids - {one.id for one in MUTANTS}
    if unknown:
        raise pytest.UsageError(f"no such mutant: {', '.join(sorted(unknown))}")
    return [one for one in MUTANTS if not ids or one.id in ids]


def covers(name: str, item: pytest.Item) -> bool:
    """Return True where the item is the named test, whose parameters may be left out."""
    return item.nodeid == name or item.nodeid.startswith(name + "[")


def pytest_runtestloop(session: pytest.Session) -> bool:
    explore, found = session.config.getoption("--mutants-explore"), {}
    mutants = chosen(session.config)
    if any(one.catcher.startswith("tests/claims/") for one in mutants):
        claims()  # built once, before the first fork, as are the modules
    for mutant in mutants:
        mutant.module  # noqa: B018
    for mutant in mutants:
        items = [item for item in session.items if explore or covers(mutant.catcher, item)]
        start = time.perf_counter()
        caught = _in_a_child(session, mutant, items)
        found[mutant.id] = caught
        print(f"{mutant.id}: {caught or 'SURVIVES'} ({time.perf_counter() - start:.1f} s)", flush=True)
    out = session.config.getoption("--mutants-out")
    if out:
        with open(out, "w", encoding="utf-8") as file:
            json.dump(found, file)
    return True


def _in_a_child(session: pytest.Session, mutant: Mutant, items: list[pytest.Item]) -> str:
    """The first test that fails on the mutant, "" if none does, "error: ..." where the mutant cannot be made."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        try:
            answer = _first_failure(session, mutant, items)
        except BaseException as error:  # noqa: BLE001  # whatever it is, the parent must hear of it
            answer = f"error: {type(error).__name__}: {error}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode()
    os.waitpid(child, 0)
    return answer


def _first_failure(session: pytest.Session, mutant: Mutant, items: list[pytest.Item]) -> str:
    from _pytest.runner import runtestprotocol

    apply(mutant)
    for index, item in enumerate(items):
        following = items[index + 1] if index + 1 < len(items) else None
        reports: list[Any] = runtestprotocol(item, log=False, nextitem=following)
        if any(report.failed for report in reports):
            return item.nodeid
    return ""

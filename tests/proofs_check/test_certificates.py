"""Every committed certificate is accepted, and no tampering with it is."""

import copy
import json
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from proofs_check.checker import judge_bytes, judge_file

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "proofs_check" / "certificates").glob("*.json"))
IDS = [file.stem for file in FILES]


def _one_of_each_form() -> list[Any]:
    """All certificates; all but the shortest of each statement and kind in the thorough profile only."""
    shortest: dict[tuple[str, str], Path] = {}
    for file in sorted(FILES, key=lambda file: (file.stat().st_size, file.name)):
        shortest.setdefault((file.stem.split("-")[0], json.loads(file.read_text())["kind"]), file)
    long = pytest.mark.thorough
    return [pytest.param(file, id=file.stem, marks=() if file in shortest.values() else long) for file in FILES]


def load(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "proofs_check" / "certificates" / f"{name}.json").read_text())


def verdict(document: Any) -> Any:
    return judge_bytes(json.dumps(document).encode())


def changed(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    result = copy.deepcopy(document)
    target = result
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return result


def objects(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    if isinstance(value, dict):
        yield path, value
        for key, part in value.items():
            yield from objects(part, (*path, key))


def test_there_are_certificates() -> None:
    assert len(FILES) >= 50


@pytest.mark.parametrize("file", _one_of_each_form())
def test_accepted(file: Path) -> None:
    """All of them are judged where the index is computed (`test_producer_and_evidence`), which stops at a rejection."""
    found = judge_file(file)
    assert found.accepted, found.reason


@pytest.mark.parametrize("file", _one_of_each_form())
def test_every_tampering_is_rejected(file: Path) -> None:
    """Relation, kind, hash, schema, statement, unknown and missing keys at every level, every enclosure moved,
    emptied or pinned.
    """
    document = json.loads(file.read_text())
    tampered = {
        "hash": changed(document, ("paper_sha256",), "0" * 64),
        "schema": changed(document, ("schema",), "attnprune-cert/2"),
        "statement": changed(document, ("statement",), "lem:bound_c"),
        "kind": changed(document, ("kind",), "confirmation" if document["kind"] == "refutation" else "refutation"),
    }
    for relation in ("lhs<rhs", "lhs>=rhs", "lhs>rhs", "lhs<=rhs", "zeros!=wanted", "zeros==wanted", "lhs==rhs"):
        if relation != document["claim"]["relation"]:
            tampered[f"relation {relation}"] = changed(document, ("claim", "relation"), relation)
    for path, table in objects(document):
        tampered[f"unknown key in {path}"] = changed(document, (*path, "comment"), "1/1")
        for key in table:
            missing = copy.deepcopy(document)
            target = missing
            for step in path:
                target = target[step]
            del target[key]
            tampered[f"missing {(*path, key)}"] = missing
    for group in ("hypotheses", "quantities"):
        for key, value in document[group].items():
            if key in ("psd_pivots", "gram_pivots"):
                tampered[f"pivot of {key}"] = changed(document, (group, key, 0), str(Fraction(value[0]) + 1))
                tampered[f"length of {key}"] = changed(document, (group, key), [*value, "1/1"])
            elif key in ("zeros", "wanted"):
                tampered[f"count in {key}"] = changed(document, (group, key, 0), 7)
            else:
                low, high = map(Fraction, value)
                step = abs(high) + 1
                tampered[f"{key} moved up"] = changed(document, (group, key), [str(high + step), str(high + 2 * step)])
                tampered[f"{key} moved down"] = changed(document, (group, key), [str(low - 2 * step), str(low - step)])
                tampered[f"{key} reversed"] = changed(document, (group, key), [str(high + 1), str(low - 1)])
                tampered[f"{key} not a pair"] = changed(document, (group, key), [str(low)])
    accepted = [name for name, changed_document in tampered.items() if verdict(changed_document).accepted]
    assert not accepted
    assert len(tampered) >= 30


def with_input(name: str, key: str, value: Any) -> dict[str, Any]:
    return changed(load(name), ("inputs", key), value)


REFUTED = "PL_ineq-refutation-interior-mask"
CAUSAL = "PL_ineq-refutation-causal"
SMALL = "PL_ineq-refutation-small-weights-1e-1"

PL_TAMPERINGS = {
    "delta larger than min f": with_input(REFUTED, "delta", "51/100"),
    "delta not positive": with_input(REFUTED, "delta", "0/1"),
    "beta larger": with_input(REFUTED, "beta", "101/100"),
    "beta smaller, same pivots": with_input(REFUTED, "beta", "99/100"),
    "beta not positive": with_input(REFUTED, "beta", "-1/1"),
    "lambda above 1": with_input(REFUTED, "lambda", "11/10"),
    "lambda negative": with_input(REFUTED, "lambda", "-1/10"),
    "lambda so large that the inequality holds": with_input(REFUTED, "lambda", "1/10"),
    "M above 1": with_input(REFUTED, "M", [["1/2", "1/2"], ["1/2", "11/10"]]),
    "M below 0": with_input(REFUTED, "M", [["1/2", "1/2"], ["1/2", "-1/10"]]),
    "another M": with_input(REFUTED, "M", [["1/2", "1/2"], ["1/2", "1/3"]]),
    "another W": with_input(REFUTED, "W", [["1/10", "1/10"], ["1/10", "1/10"]]),
    "another X": with_input(REFUTED, "X", [["1/1", "0/1"], ["1/5", "1/1"]]),
    "n wrong": with_input(REFUTED, "n", 3),
    "n too large": with_input(REFUTED, "n", 65),
    "n boolean": with_input(REFUTED, "n", True),
    "inputs.mask causal, reading full": with_input(REFUTED, "mask", "causal"),
    "reading causal, inputs.mask full": changed(load(REFUTED), ("reading", "mask"), "causal"),
    "reading given, no mask": changed(load(REFUTED), ("reading", "mask"), "given"),
    "another mask": with_input(REFUTED, "mask", [["1", "0"], ["1", "1"]]),
    "mask with an empty row": with_input(REFUTED, "mask", [["0", "0"], ["1", "1"]]),
    "mask entry 2": with_input(REFUTED, "mask", [["2", "1"], ["1", "1"]]),
    "corrected mu": changed(load(REFUTED), ("reading", "mu"), "2*(wmin*beta*delta)^2"),
    "delta over all positions of a causal mask": changed(load(CAUSAL), ("reading", "mu"), "2*wmin*beta*delta"),
    "causal instance called full": changed(load(CAUSAL), ("reading", "mask"), "full"),
    "unknown mu": changed(load(REFUTED), ("reading", "mu"), "2*wmin*beta"),
    "lower end of min f below delta": changed(load(REFUTED), ("hypotheses", "delta_le_min_f", 0), "46/100"),
    "float": changed(load(REFUTED), ("inputs", "n"), 2.0),
    "number as a decimal": with_input(REFUTED, "beta", "1.0"),
    "division by zero": with_input(REFUTED, "beta", "1/0"),
}


@pytest.mark.parametrize("name", PL_TAMPERINGS)
def test_tampered_pl_certificate_is_rejected(name: str) -> None:
    assert not verdict(PL_TAMPERINGS[name]).accepted


@pytest.mark.parametrize("quantity", ["c_sq", "lhs", "rhs"])
def test_enclosure_beside_the_number_is_rejected_however_close(quantity: str) -> None:
    """The number is irrational: an interval that ends 1e-18 of its size before it is false, and one that reaches it
    is true.
    """
    document = load(SMALL)
    low, high = map(Fraction, document["quantities"][quantity])
    wider = changed(document, ("quantities", quantity), [str(low - abs(low)), str(high + abs(high))])
    assert verdict(wider).accepted
    above = changed(document, ("quantities", quantity), [str(high), str(high + abs(high))])
    below = changed(document, ("quantities", quantity), [str(low - abs(low)), str(low)])
    assert not verdict(above).accepted
    assert not verdict(below).accepted


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-O", "-m", "proofs_check", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.thorough  # `.ci/run` begins with this command
def test_command_accepts_all_and_names_each() -> None:
    done = run()
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("ACCEPT ") == len(FILES)


def test_command_fails_if_one_file_is_rejected(tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(PL_TAMPERINGS["delta larger than min f"]))
    done = run(str(FILES[0]), str(bad), str(tmp_path / "absent.json"))
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].startswith("ACCEPT ") and lines[1].startswith("REJECT bad.json: ")
    assert lines[2] == "UNDECIDED absent.json: cannot be read: No such file or directory"
    assert done.stderr == ""

"""Each field of what a kept result depends on, changed once: another key, or a refusal to resume."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attnprune_verify.audit.subject.target import fingerprint as fingerprint_of_source
from attnprune_verify.claims import registry
from attnprune_verify.claims.campaign.draw import Sizes
from attnprune_verify.claims.campaign.plan import CampaignPlan
from attnprune_verify.claims.judging import text_cache, verdict_cache
from attnprune_verify.claims.judging.falsifier import QUICK
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.layer import run as layer
from attnprune_verify.experiments.layer.plan import LayerPlan, LayerRun
from attnprune_verify.experiments.perplexity import run as perplexity
from attnprune_verify.experiments.perplexity.plan import PerplexityPlan, PerplexityRun
from attnprune_verify.experiments.stored.record import StoredRecord
from attnprune_verify.state import digests
from attnprune_verify.state.digests import of_document
from attnprune_verify.state.keeper import Keeper
from attnprune_verify.whole_model import fingerprint
from attnprune_verify.whole_model.plan import Plan
from attnprune_verify.whole_model.request import effort

CHANGES: dict[Any, dict[str, Any]] = {
    Plan(rho=0.5): {
        "attention": "wanda", "rest": "wanda", "rho": 0.25, "pattern": "2:4", "budget": "measured", "only": (0,),
        "dense_inputs": True, "hold": (1,), "seed": 1, "reconstruct": 3, "loss_windows": 4, "keep_zeros": False,
    },
    PerplexityPlan("model"): {
        "attention": ("wanda",), "rest": ("wanda",), "rhos": (0.25,), "patterns": ("2:4",), "budgets": ("owl",),
        "hold": (1,), "ks": (4,), "n": 9, "seeds": 2, "windows": 3, "by_layer": True,
        "model": "other", "calibration": ("a",), "held_out": ("b",),
    },
    PerplexityRun("dense", "wanda", 0.5, None, "matrix", 8, 0, None, ()): {
        "rest": "wanda", "attention": "sparsegpt", "rho": 0.25, "pattern": "2:4", "budget": "owl", "k": 4, "seed": 1,
        "layer": 0, "hold": (1,),
    },
    LayerRun("wanda", 0.5, 8, 0): {"method": "sparsegpt", "rho": 0.25, "n": 9, "seed": 1},
    LayerPlan("model", calibration=("a", "b"), held_out=("c",)): {
        "model": "other", "calibration": ("a",), "held_out": ("d",), "layers": (0,), "held_out_n": 9, "k": 4,
        "methods": ("wanda",), "rhos": (0.25,), "ns": (9,), "seeds": 2,
    },
    CampaignPlan(("a",), 1, 0, Sizes((2, 2), (2, 2))): {
        "ids": ("b",), "instances": 2, "seed": 1, "sizes": Sizes((2, 3), (2, 2)),
    },
    Sizes((2, 3), (4, 5)): {"n": (2, 4), "d": (4, 6)},
}  # fmt: skip
"""What a key is made of, and another value of each field."""
RECORD = StoredRecord("layer", "command", {"k": 8}, {"file": "0"}, {"version": "1"}, "kernel", 2, {"": 0.5})
OF_RECORD = {
    "experiment": "synthetic", "command": "other", "plan": {"k": 4}, "inputs": {"file": "1"}, "code": {"version": "2"},
    "kernel": "other", "rows": 3, "moved": {"": 0.25},
}  # fmt: skip
ELSEWHERE = {LayerPlan: {"methods", "rhos", "ns", "seeds"}, PerplexityPlan: {"model", "calibration", "held_out"}}
"""Fields that choose runs, whose own keys hold them; paths, whose contents are digested."""


def changed(base: Any, name: str, value: object) -> Any:
    also = {"rho": None} if name == "pattern" and getattr(base, "rho", None) is not None else {}
    return dataclasses.replace(base, **{**also, name: value})


def key_of_a_run(run: LayerRun) -> str:
    """The key in the journal of an experiment with this run alone."""
    keys: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer, "_model", lambda _: SimpleNamespace(layers=[]))
        patch.setattr(layer, "complete", lambda runs, *_, **__: keys.extend(runs) or [])
        plan: Any = SimpleNamespace(model="", layers=[], ns=[], fingerprint=str, runs=lambda: [run])
        layer.run_layers(plan, Path())
    return keys[0]


def key(given: Any, folder: Path) -> str:
    """The key under which the program keeps what this gives."""
    if isinstance(given, Plan):
        return of_document([given.settings(), effort(given, 8)])
    if isinstance(given, PerplexityRun):
        return perplexity._key({}, given)
    if isinstance(given, LayerPlan):
        for name in ("model", "other"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name / "config.json").write_text(name)
        for name in "abcd":
            (folder / name).write_text(name)
        paths = {part: tuple(str(folder / one) for one in getattr(given, part)) for part in ("calibration", "held_out")}
        return dataclasses.replace(given, model=str(folder / given.model), **paths).fingerprint()
    if isinstance(given, PerplexityPlan):
        return of_document(given.fields())
    if isinstance(given, LayerRun):
        return key_of_a_run(given)
    return of_document(given.as_dict())


@pytest.mark.parametrize("base", CHANGES, ids=lambda base: type(base).__name__)
def test_each_field_changes_the_key(base: Any, tmp_path: Path) -> None:
    values = CHANGES[base]
    names = base._fields if hasattr(base, "_fields") else [field.name for field in dataclasses.fields(base)]
    assert sorted(values) == sorted(names), "a field without another value here"
    before = key(base, tmp_path)
    replace = base._replace if hasattr(base, "_fields") else None
    for name, value in values.items():
        other = replace(**{name: value}) if replace else changed(base, name, value)
        if name not in ELSEWHERE.get(type(base), ()):
            assert key(other, tmp_path) != before, name
        elif isinstance(base, LayerPlan):
            assert other.runs() != base.runs(), name


def test_each_field_of_a_stored_record_changes_its_digest() -> None:
    assert sorted(OF_RECORD) == sorted(field.name for field in dataclasses.fields(StoredRecord))
    for name, value in OF_RECORD.items():
        assert dataclasses.replace(RECORD, **{name: value}).digest(b"table") != RECORD.digest(b"table"), name  # type: ignore[arg-type]
    assert RECORD.digest(b"tables") != RECORD.digest(b"table")


def test_texts_and_model_of_perplexities_are_in_the_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    content = {"model": "0", "calibration": ["0"], "held_out": ["0"]}
    monkeypatch.setattr(perplexity, "_length", lambda _: 8)
    monkeypatch.setattr(perplexity, "ModelFolder", str)
    monkeypatch.setattr(perplexity, "Source", lambda _: SimpleNamespace(digests={"config.json": content["model"]}))
    monkeypatch.setattr(perplexity, "_texts", lambda _, part: content[part])
    (plan,) = (base for base in CHANGES if isinstance(base, PerplexityPlan))
    found = [of_document(perplexity._fields(plan, None))]  # type: ignore[arg-type]
    for name in content:
        monkeypatch.setitem(content, name, "1" if name == "model" else ["1"])
        found.append(of_document(perplexity._fields(plan, None)))  # type: ignore[arg-type]
    assert len({*found}) == 1 + len(content)


def test_each_number_of_an_effort_and_each_reading_has_its_own_verdict() -> None:
    first, *rest = registry.claims()
    names = {verdict_cache._name(claim, QUICK) for claim in [first, *rest]}
    assert len(names) == len(rest) + 1
    for number in QUICK._fields:
        other = QUICK._replace(**{number: 1 + getattr(QUICK, number)})
        assert verdict_cache._name(first, other) not in names


@pytest.mark.parametrize("library", text_cache._LIBRARIES)
def test_another_version_of_a_library_has_other_verdicts(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = text_cache.code_key.__wrapped__(())
    version = digests.version
    monkeypatch.setattr(digests, "version", lambda name: "another" if name == library else version(name))
    assert text_cache.code_key.__wrapped__(()) != before


def resumed(folder: Path, request: Mapping[str, Any]) -> None:
    with Keeper(folder, request).claimed():
        pass


NAMES = ("python", "machine", *fingerprint._PACKAGES)


@pytest.mark.parametrize("name", NAMES)
def test_another_version_refuses_to_resume(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What computes is asked by its own name each time; the claim of the folder says what is another."""
    plan = LayerPlan(str(tmp_path))
    before = plan.fingerprint()
    resumed(tmp_path / "kept", {"versions": fingerprint.versions()})
    resumed(tmp_path / "kept", {"versions": fingerprint.versions()})
    version = digests.version
    monkeypatch.setattr(digests, "version", lambda package: "another" if package == name else version(package))
    for part in ("python_version", "machine"):
        if part.startswith(name):
            monkeypatch.setattr(fingerprint.platform, part, lambda: "another")
    with pytest.raises(InvalidInstance, match=f"another versions.{name}"):
        resumed(tmp_path / "kept", {"versions": fingerprint.versions()})
    assert plan.fingerprint() != before


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "first.safetensors", "second.safetensors"])
def test_each_file_of_a_model_that_decides_numbers_is_in_the_fingerprint(name: str) -> None:
    files = dict.fromkeys(("config.json", "tokenizer.json", "first.safetensors", "second.safetensors", "README"), "0")
    assert fingerprint.model_fields(files | {name: "1"}) != fingerprint.model_fields(files)
    assert fingerprint.model_fields(files | {"README": "1"}) == fingerprint.model_fields(files)


def test_what_moves_from_one_file_to_the_next_is_seen(tmp_path: Path) -> None:
    """Contents one after the other are the same: of a package's files, and of texts for calibration and judging."""
    package = tmp_path / "package"
    package.mkdir()
    seen = set()
    for first, second in (("ab", "c"), ("a", "bc")):
        for name, text in {"__init__.py": "", "one.py": first, "two.py": second}.items():
            (package / name).write_text(text)
        seen.add(fingerprint_of_source(str(package / "__init__.py")))
    (package / "two.py").rename(package / "three.py")
    assert len({*seen, fingerprint_of_source(str(package / "__init__.py"))}) == 3
    (plan,) = (base for base in CHANGES if isinstance(base, LayerPlan))
    swapped = dataclasses.replace(plan, calibration=("a",), held_out=("b", "c"))
    assert key(plan, tmp_path) != key(swapped, tmp_path)

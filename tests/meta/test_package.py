"""What the wheel carries, and what is said of the package."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

import attnprune_verify

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_checker_in_the_wheel_needs_nothing_that_the_wheel_lacks(tmp_path):
    """The files that the wheel takes, alone in a folder, check a certificate without any site-packages."""
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    for name in (one for one in wheel["only-include"] if one.startswith("proofs_check/")):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, target)
    (tmp_path / "elsewhere").mkdir()
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import runpy; "
    program += "sys.argv = ['proofs_check', *sys.argv[1:]]; runpy.run_module('proofs_check', run_name='__main__')"
    smallest = min((tmp_path / "proofs_check" / "certificates").glob("*.json"), key=lambda path: path.stat().st_size)
    command = [sys.executable, "-I", "-S", "-c", program, str(smallest)]
    done = subprocess.run(command, cwd=tmp_path / "elsewhere", capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("ACCEPT"), done.stderr
    assert not (tmp_path / "proofs_check" / "coq").exists()


@pytest.mark.parametrize("base", ["https://host.example/files/", ""])
def test_the_long_description_has_no_relative_link(base, monkeypatch):
    """Asked of the function that the build calls, without what builds."""
    interface = SimpleNamespace(MetadataHookInterface=object)
    monkeypatch.setitem(sys.modules, "hatchling.metadata.plugin.interface", interface)
    for name in ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin"):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__path__=[]))
    scope = {"__name__": "hatch_build"}
    exec(compile((ROOT / "hatch_build.py").read_text(encoding="utf-8"), "hatch_build.py", "exec"), scope)
    text = scope["absolute"]((ROOT / "README.md").read_text(encoding="utf-8"), base)
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []
    assert "docs/audit.md" in text


def test_what_the_tests_read_is_in_the_source_distribution():
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    tracked = {"attnprune_verify", "tests", "proofs_check", "notebooks", "benchmarks", "docs", ".ci", "conftest.py"}
    assert tracked <= set(included)


def test_the_citation_is_of_this_version_and_of_the_works_authors():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == attnprune_verify.__version__ == PROJECT["project"]["version"]
    (paper,) = citation["references"]
    assert [one["family-names"] for one in paper["authors"]] == ["Liang", "Long", "Shi", "Song", "Zhou"]
    assert paper["type"] == "article" and {"value": "arXiv:2410.11261"}.items() <= paper["identifiers"][0].items()

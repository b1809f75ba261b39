"""Pages show what happens: their commands are run, one that ends otherwise fails, files land where they say."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from attnprune_verify.audit.mistakes import MISTAKES

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_site"))

import fences  # noqa: E402  # beside the site it builds
import generated  # noqa: E402

PAGES = sorted(path for path in (ROOT / "docs").glob("*/*.md"))
GENERATED = (
    "claims/",
    "reference/",
    "claims_graph.html",
    "measured.md",
    "mistakes.md",
    "notation.md",
    "contributing.md",
    "changelog.md",
    "kill_matrix.md",
    "kernel_kill_matrix.md",
)
NEEDS = re.compile(r'^```python needs="([^"]+)"\n(.*?)^```$', flags=re.DOTALL | re.MULTILINE)


def test_outputs_stand_below_their_commands():
    page = (
        "```console run\n$ echo one; echo two\n$ echo a \\\n  b\nold output\n```\n\nand ```python run``` in a sentence"
    )
    assert fences.played(page) == (
        "```console\n$ echo one; echo two\none\ntwo\n$ echo a \\\n  b\na b\n```\n\nand ```python run``` in a sentence"
    )


def test_long_outputs_are_cut_and_say_so():
    assert "1\n2\n... (3 more lines)\n" in fences.played("```console run lines=2\n$ seq 5\n```")


@pytest.mark.parametrize(
    "page",
    [
        "```console run\n$ false\n```",
        "```console run exit=1\n$ true\n```",
        "```console run exit=3\n$ true\n$ exit 1\n```",
        "```console run exit=1\n$ exit 1\n$ exit 1\n```",  # only the last may fail
        "```python run\nraise SystemExit(2)\n```",
    ],
)
def test_a_page_that_says_what_does_not_happen_fails(page):
    with pytest.raises(fences.PageFailed, match="must end with"):
        fences.played(page)


def test_what_runs_without_a_command_fails():
    with pytest.raises(fences.PageFailed, match="must begin with"):
        fences.played("```console run\necho hello\n```\n")


def test_every_mistake_is_in_the_table():
    assert generated._mistakes().count("\n| `") == len(MISTAKES)


def test_files_and_programs_share_a_folder_of_the_page():
    page = '```python title="mine.py"\nVALUE = 7\n```\n```python run\nimport mine\nprint(mine.VALUE + 1)\n```'
    assert fences.played(page).endswith("```text\n8\n```")
    assert not (ROOT / "mine.py").exists()


def test_pictures_that_a_page_draws_are_handed_on():
    drawn = {}
    fences.played("```console run\n$ printf abc > it.svg; printf x > it.txt\n```", "page", drawn)
    assert drawn == {"it.svg": b"abc"}


def test_words_of_a_statement_are_shown_as_they_are():
    assert generated._text("D^{-1} a_b*c <d|e> ~ $x$ #1") == (
        r"D^\{-1\} a\_b\*c &lt;d&#124;e> ~ &#36;x&#36; \#1"
    )  # Markdown shows a backslash before ^ and ~


def test_every_page_is_in_the_navigation_and_its_links_lead_somewhere():
    docs = ROOT / "docs"
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    for page in docs.rglob("*.md"):
        name, text = page.relative_to(docs).as_posix(), page.read_text(encoding="utf-8")
        assert f": {name}\n" in navigation, f"{name} is missing under nav in mkdocs.yml"
        drawn = set(re.findall(r"--out (\S+\.svg)", text))
        for target in re.findall(r"\]\(([^)\s#]+)", re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)):
            if target.startswith(("http:", "https:")) or target in drawn:
                continue
            place = (page.parent / target).resolve()
            made = place.relative_to(docs).as_posix() if place.is_relative_to(docs) else ""
            assert place.exists() or made.startswith(GENERATED), f"{name} leads to {target}, which is not there"


def test_the_tutorials_show_what_a_newcomer_types():
    pages = {path.stem: path.read_text(encoding="utf-8") for path in PAGES if path.parent.name == "tutorial"}
    typed = {name: re.findall(r"^\$ attnprune-verify (\S+)", text, flags=re.MULTILINE) for name, text in pages.items()}
    assert "show" in typed["statement"] and "audit" in typed["audit"]
    assert {"check", "prune", "prune-model"} <= set(typed["prune"])


@pytest.mark.thorough
@pytest.mark.parametrize("page", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_page_shows_what_happens(page, tmp_path, monkeypatch):
    text = page.read_text(encoding="utf-8")
    if "prune-model" in text or "prune_model" in text or "experiment perplexity" in text:
        pytest.importorskip("safetensors", reason="models need the extra 'real'")
        pytest.importorskip("tokenizers", reason="models need the extra 'real'")
    assert "```console run" not in fences.played(text, page.name)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "page", [page for page in PAGES if NEEDS.search(page.read_text("utf-8"))], ids=lambda p: p.stem
)
def test_what_a_page_does_with_other_libraries(page):
    found = NEEDS.findall(page.read_text(encoding="utf-8"))
    missing = {name for needs, _ in found for name in needs.split() if importlib.util.find_spec(name) is None}
    if missing:
        pytest.skip(f"not installed: {', '.join(sorted(missing))}")
    fences.played("\n\n".join(f"```python run\n{body}```" for _, body in found), page.name)

"""What README shows is what happens."""

import re
from pathlib import Path

import pytest

from attnprune_verify.claims.judge import judge
from attnprune_verify.claims.registry import claims, find

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def test_the_python_example_runs(capsys):
    (example,) = blocks("python")
    exec(compile(example, "README.md", "exec"), {})
    assert capsys.readouterr().out == "(8, 8)\npassed ['delta']\n"


def test_continuous_integration_runs_the_commands_of_the_readme():
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    first, second = (block.strip() for block in blocks("console"))
    assert first == "pip install . && attnprune-verify check" and second == "pip install '.[test]' && pytest"
    assert first.replace("pip install", "pip install -q") in script
    assert second.replace("pip install", "pip install -q") in script


def verdict_rows():
    for line in README.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4 and "`" in cells[0] and cells[1] in {"any", "full", "causal", "literal"}:
            (label,) = re.findall(r"`([^`]+)`", cells[0])
            yield pytest.param(label, cells[1], cells[2], re.findall(r"`([^`]+)`", cells[3]), id=f"{label}-{cells[1]}")


@pytest.mark.parametrize(("label", "reading", "verdict", "instead"), list(verdict_rows()))
def test_the_table_of_verdicts_is_what_the_judge_finds(label, reading, verdict, instead):
    assert judge(find(label, reading)).statement.value == verdict
    for ours in instead:
        assert all(judge(claim).statement.value == "holds" for claim in claims() if claim.id == ours)
        assert any(claim.id == ours for claim in claims())


def test_the_table_has_rows():
    assert len(list(verdict_rows())) >= 9


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target

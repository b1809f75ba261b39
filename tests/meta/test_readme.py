"""What README shows is what happens."""

import re
from pathlib import Path

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


def test_every_link_leads_somewhere():
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target

"""What README shows is what happens."""

import math
import re
import shlex
from pathlib import Path

import pytest

from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import run_claims
from attnprune_verify.cli.main import program
from attnprune_verify.report.claims_text import closing_sentence
from tests.meta.readme_commands import printed, sessions

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


NUMBER = r"\d+\.\d+"


@pytest.mark.thorough
def test_each_command_prints_what_stands_below_it(tmp_path):
    """Words and counts are the same; other numbers within 2 %: perplexity in torch and in NumPy differ by rounding."""
    for command, exits, output in sessions():
        found = printed(command, exits, tmp_path)
        assert re.sub(NUMBER, "#", found) == re.sub(NUMBER, "#", output), command
        pairs = zip(re.findall(NUMBER, found), re.findall(NUMBER, output), strict=True)
        assert all(math.isclose(float(one), float(other), rel_tol=0.02) for one, other in pairs), (found, output)
    assert len(sessions()) == 2


def test_three_people_find_their_part_in_a_short_text():
    assert len(README.splitlines()) <= 150


def test_the_workflow_is_one_and_its_commands_exist():
    yaml = pytest.importorskip("yaml")
    text = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/howto/ci.md").read_text("utf-8"), flags=re.DOTALL)[0]
    workflow = yaml.safe_load(text)
    assert set(workflow) == {"name", True, "jobs"}  # `on` is a truth value to YAML 1.1
    (job,) = workflow["jobs"].values()
    assert job["runs-on"] and all(("uses" in step) ^ ("run" in step) for step in job["steps"])
    (line,) = [step["run"] for step in job["steps"] if step.get("run", "").startswith("attnprune-verify")]
    _, name, *rest = shlex.split(line)
    command = program.get_command(None, name)
    command.make_context(name, rest)  # click's own reading: an option that is none raises


def test_every_command_line_is_one_that_the_program_takes():
    """The options exist: names of files and folders are not looked up."""
    lines = re.findall(r"^(?:\$ )?(attnprune-verify .*)$", README, flags=re.MULTILINE)
    lines += [one for one in re.findall(r"`(attnprune-verify [^`]+)`", README) if "..." not in one]
    assert len(lines) > 8
    for line in lines:
        _, *rest = shlex.split(line)
        command, path = program, []
        while hasattr(command, "get_command") and rest and command.get_command(None, rest[0]):
            path.append(rest[0])
            command, rest = command.get_command(None, rest[0]), rest[1:]
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        used = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
        assert path and used <= known | {"--help"}, line


def said_counts():
    (said,) = re.findall(r"a test compares -->\n> (.*?)\n<!-- end", README, flags=re.DOTALL)
    return " ".join(said.replace("\n> ", " ").split())


def test_the_statements_that_are_counted_are_all_there_are():
    """`attnprune-verify claims --quiet` prints the line that README.md quotes; to be replaced when a claim is added."""
    groups = {claim.id: claim.group for claim in claims()}
    totals = [list(groups.values()).count(name) for name in ("paper", "text", "consequence", "own")]
    assert [int(total) for total in re.findall(r"\d+ of (\d+)", said_counts())] == totals


@pytest.mark.thorough
def test_the_counts_are_those_of_a_run():
    assert said_counts() == closing_sentence(run_claims())

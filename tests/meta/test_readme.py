"""What README shows is what happens."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from attnprune_verify.claims.judge import judge
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.run import run_claims
from attnprune_verify.cli.main import program
from attnprune_verify.report.claims_text import closing_sentence

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


def fences():
    """(language, words behind it, body) of every block, in order."""
    return re.findall(r"^```(\w+)([^\n]*)\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)


def words_of(command):
    return shlex.split(command.replace("\\\n", " "))


@pytest.mark.thorough
def test_the_first_five_minutes_happen_as_they_are_told(tmp_path):
    """Every block marked `run`, in order, in one folder; then the block for torch, where torch is."""
    (tmp_path / "tests").symlink_to(ROOT / "tests", target_is_directory=True)
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    search = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])  # `jupyter` is beside Python
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": search}
    ran = 0
    for language, words, body in fences():
        if " run" not in words:
            continue
        commands = [[sys.executable, "-c", body]] if language == "python" else []
        for line in re.findall(r"^\$ (.*)$", body, flags=re.MULTILINE):
            name, *rest = words_of(line)
            commands.append(
                [sys.executable, "-m", "attnprune_verify", *rest] if name == "attnprune-verify" else [name, *rest]
            )
        for command in commands:
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
            assert done.returncode == 0, (command, done.stderr)
            ran += 1
    assert ran == 6 and (tmp_path / "pruned" / "pruning.json").exists() and list((tmp_path / "curves").glob("*.png"))
    executed = json.loads((tmp_path / "notebooks" / "executed.ipynb").read_text(encoding="utf-8"))
    assert all(cell["execution_count"] for cell in executed["cells"] if cell["cell_type"] == "code" and cell["source"])
    (body,) = [body for _, words, body in fences() if "transformers" in words]
    if not all(importlib.util.find_spec(name) for name in ("torch", "transformers")):
        pytest.skip("saved and looked at; not loaded in torch, which needs the packages torch and transformers")
    subprocess.run([sys.executable, "-c", body], cwd=tmp_path, check=True)


def test_the_workflow_is_one_and_its_commands_exist():
    yaml = pytest.importorskip("yaml")
    (text,) = blocks("yaml")
    workflow = yaml.safe_load(text)
    assert set(workflow) == {"name", True, "jobs"}  # `on` is a truth value to YAML 1.1
    (job,) = workflow["jobs"].values()
    assert job["runs-on"] and all(("uses" in step) ^ ("run" in step) for step in job["steps"])
    (line,) = [step["run"] for step in job["steps"] if step.get("run", "").startswith("attnprune-verify")]
    _, name, *rest = words_of(line)
    command = program.get_command(None, name)
    command.make_context(name, rest)  # click's own reading: an option that is none raises


def test_every_command_line_is_one_that_the_program_takes():
    """The options exist: names of files and folders are not looked up."""
    lines = re.findall(r"^(?:\$ )?(attnprune-verify .*)$", README, flags=re.MULTILINE)
    lines += [one for one in re.findall(r"`(attnprune-verify [^`]+)`", README) if "..." not in one]
    assert len(lines) > 12
    for line in lines:
        _, *rest = words_of(line)
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

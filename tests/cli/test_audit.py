"""``attnprune-verify audit``: exit codes, formats, files, bad input in one line."""

import json
import os
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from attnprune_verify.audit.waivers import load_waivers
from attnprune_verify.cli.audit import command
from attnprune_verify.cli.main import _run

RIGHT = "import numpy as np\ndef causal_mask(n):\n    return np.tri(n)\n"
WRONG = RIGHT.replace("tri(n)", "tri(n, k=-1)")
RAISES = RIGHT + "def binary_mask(M, rho):\n    raise RuntimeError('later')\n"


@pytest.fixture
def subject(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(source):
        (tmp_path / "subject.py").write_text(source, encoding="utf-8")
        return "subject.py"

    return write


@pytest.mark.parametrize(("source", "code"), [(RIGHT, 0), (WRONG, 1), (RAISES, 3), ("x = 1", 2), ("1 /", 2)])
def test_exit_codes(subject, source, code, capsys):
    assert _run(["audit", subject(source), "--format", "json"]) == code
    printed = capsys.readouterr()
    if code == 2:
        assert printed.out == "" and printed.err.startswith("Error: TARGET") and printed.err.count("\n") == 1
    else:
        assert json.loads(printed.out)["outcome"] == {0: "passed", 1: "failed", 3: "incomplete"}[code]
        assert printed.err == ""


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        (["subject.py", "--out", "subject.py"], "--out must not name TARGET"),
        (["subject:causal_mask", "--out", "subject.py"], "--out must not name TARGET"),
        (["./subject.py:causal_mask", "--out", "link.py"], "--out must not name TARGET"),
        (["subject.py", "--out", "dev.toml", "--deviations", "dev.toml"], "--out must not name the file of --dev"),
        (["subject.py", "--waive-current", "subject.py"], "--waive-current must not name TARGET"),
        (["subject.py", "--waive-current", "new", "--out", "new"], "--out must not name the file of --waive-current"),
    ],
)
def test_no_report_takes_the_place_of_what_is_read(subject, tmp_path, more, rule, capsys):
    subject(RIGHT)
    (tmp_path / "link.py").symlink_to("subject.py")
    (tmp_path / "dev.toml").write_text("")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for command_, *rest in (["audit", *more], ["audit-kernel", *more])[: 1 if "--waive-current" in more else 2]:
        assert _run([command_, *rest]) == 2
        assert rule in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("form", ["text", "json", "junit", "html"])
def test_out_writes_the_whole_report(subject, tmp_path, form, capsys):
    assert _run(["audit", subject(WRONG), "--format", form, "--out", "report"]) == 1
    out, said = capsys.readouterr()
    assert out == "" and said.startswith("Wrong: causal_mask") and said.endswith("Written to report\n")
    text = (tmp_path / "report").read_text(encoding="utf-8")
    assert "mask-strict" in text
    if form == "junit":
        ElementTree.fromstring(text)
    assert {path.name for path in tmp_path.iterdir()} == {"subject.py", "report"}


@pytest.mark.parametrize("out", [".", "", "pipe"])
def test_out_takes_the_place_of_nothing_but_a_file(subject, tmp_path, out, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert _run(["audit", subject(RIGHT), "--out", out]) == 2
    assert "--out must name a file" in capsys.readouterr().err
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("form", ["text", "json", "junit", "html"])
def test_a_file_name_that_is_no_text_is_reported_readably(subject, tmp_path, form):
    name = os.fsdecode(b"caf\xe9.py")
    try:
        os.replace(subject(RIGHT), name)
    except OSError:
        pytest.skip("this file system takes text only")
    assert _run(["audit", name, "--format", form, "--out", "report"]) == 0
    assert "caf\ufffd.py" in (tmp_path / "report").read_text(encoding="utf-8")


def test_nothing_is_written_on_bad_input(subject, tmp_path, capsys):
    assert _run(["audit", "missing.py", "--out", "report"]) == 2
    assert _run(["audit", subject(RIGHT), "--out", "no/such/folder/report"]) == 2
    assert _run(["audit", subject(RIGHT), "--deviations", "missing.toml"]) == 2
    assert _run(["audit", subject(RIGHT), "--seed", "-1"]) == 2
    assert capsys.readouterr().err.count("\n") == 4
    assert not (tmp_path / "report").exists()


def test_deviations(subject, tmp_path, capsys):
    (tmp_path / "known.toml").write_text('[[waive]]\ncheck = "binary_mask:*"\nreason = "later"\n', encoding="utf-8")
    assert _run(["audit", subject(RAISES), "--deviations", "known.toml", "--quiet"]) == 0
    assert "waived" in capsys.readouterr().out


def test_help_has_an_example():
    text = CliRunner().invoke(command, ["--help"]).output
    assert "Example:" in text and "package.module:object" in text and "Exit code" in text


def test_what_fails_now_can_be_waived(subject, tmp_path, capsys):
    assert _run(["audit", subject(WRONG), "--waive-current", "known.toml", "--quiet"]) == 0
    assert _run(["audit", "subject.py", "--deviations", "known.toml", "--quiet"]) == 3
    assert "waived" in capsys.readouterr().out
    assert "mask-strict" in (tmp_path / "known.toml").read_text(encoding="utf-8")


def test_contract_and_list(capsys):
    assert _run(["audit", "--contract", "wanda_mask"]) == 0
    assert "True = pruned" in capsys.readouterr().out
    assert _run(["audit", "--list", "--only", "causal_mask"]) == 0
    assert capsys.readouterr().out.startswith("causal_mask:values ")
    assert _run(["audit", "--contract", "nothing"]) == 2
    assert _run(["audit", "--list", "--only", "nothing"]) == 2
    assert _run(["audit"]) == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["subject.py", "--only", "causal_maks"], "did you mean causal_mask"),
        (["subject.py", "--only", "values:full"], "did you mean *:values:full"),
        (["subject.py", "--only", "loss"], "has no loss"),
        (["subjcet.py"], "did you mean subject.py?"),
        (["subject.py", "--only", "full"], "did you mean '*full*'?"),
        (["--contract", "gradinet"], "did you mean gradient"),
        (["--list", "--only", "wnda"], "did you mean wanda"),
        (["subject.py", "--deviations", "stale.toml"], "did you mean causal_mask:values?"),
    ],
)
def test_wrong_names_get_suggestions(subject, tmp_path, arguments, said, capsys):
    subject(RIGHT)
    (tmp_path / "stale.toml").write_text('[[waive]]\ncheck = "causal_mask:value"\nreason = "x"\n', encoding="utf-8")
    assert _run(["audit", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and said in printed.err and printed.err.count("\n") == 1


def test_earlier_waivers_stay_in_the_new_file(subject, tmp_path, capsys):
    (tmp_path / "old.toml").write_text('[[waive]]\ncheck = "binary_mask:*"\nreason = "later"\n', encoding="utf-8")
    target = subject(RAISES.replace("tri(n)", "tri(n, k=-1)"))
    assert _run(["audit", target, "--deviations", "old.toml", "--waive-current", "new.toml", "--quiet"]) == 0
    assert [one.check for one in load_waivers(tmp_path / "new.toml")] == ["binary_mask:*", "causal_mask:values"]
    assert _run(["audit", target, "--deviations", "new.toml", "--quiet"]) == 3
    assert "waived" in capsys.readouterr().out


def test_nothing_is_left_behind(subject, tmp_path):
    assert _run(["audit", subject(WRONG), "--quiet"]) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"subject.py"}

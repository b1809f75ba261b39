"""The command: exit codes, strict JSON on stdout, progress on stderr, and the same result whatever ends a run."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib import resources
from importlib.util import find_spec

import jsonschema
import pytest

from attnprune_verify.claims import registry
from attnprune_verify.claims.campaign import plan, run
from attnprune_verify.claims.campaign.run import run_campaign
from attnprune_verify.claims.core import mutant
from attnprune_verify.cli import campaign as command
from attnprune_verify.cli.main import main

_REPORT = resources.files("attnprune_verify.report")
SCHEMA = json.loads((_REPORT / "schemas" / "campaign.schema.json").read_text("utf-8"))
SMALL = ("--instances", "6e1", "--sizes", "n=2,d=2")


def campaign(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(["campaign", *arguments])
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


def test_json_is_all_that_stdout_gets(capsys, tmp_path):
    out = ("--out", str(tmp_path / "new" / "run"))
    code, text, err = campaign(capsys, "lem:PL_ineq", "fix:lip_f", *SMALL, *out, "--format", "json")
    report = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(report)
    assert code == 0 and err == "" and not report["resumed"] and report["statements"][0]["violations"] > 0
    code, text, err = campaign(capsys, "lem:PL_ineq", "fix:lip_f", *SMALL, *out, "--format", "json")
    again = json.loads(text)
    assert code == 0 and again["resumed"] and again["statements"] == report["statements"]
    assert "60 of 60 instances were there already" in err


def test_text_names_what_was_found(capsys):
    code, text, _ = campaign(capsys, "lem:PL_ineq", *SMALL)
    assert code == 0 and "Violated statements of the paper: lem:PL_ineq. Outcome: judged." in " ".join(text.split())
    ours = campaign(capsys, "fix:lip_f", *SMALL, "--quiet")[1]
    assert ours == "No statement of the paper was violated. Outcome: passed.\n"


def test_a_violated_statement_of_ours_ends_with_1(capsys, monkeypatch):
    claim = registry.find("fix:lip_grad_l", "any")
    wrong = mutant(claim, claim.wrong[1])
    monkeypatch.setattr(plan.registry, "claims", lambda: (wrong,))
    code, text, _ = campaign(capsys, "fix:lip_grad_l", "--instances", "200", "--sizes", "n=2,d=2")
    assert code == 1 and "which is an error: fix:lip_grad_l" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("lem:PL_inq",), "did you mean lem:PL_ineq"),
        (("exp:momentum",), "nearest are"),
        (("fix:lip_f", "--instances", "1.5"), "whole number"),
        (("fix:lip_f", "--instances", "many"), "whole number"),
        (("fix:lip_f", "--sizes", "n=2..x"), "sizes must read like"),
        (("fix:lip_f", "--seed", "-1"), "seed must"),
        (("fix:lip_f", "--jobs", "0"), "jobs must"),
        (("fix:lip_f", "--index", "-1"), "index must"),
        (("fix:lip_f", "--out", __file__), "must be empty, new or"),
        (("fix:lip_f", "--out", os.path.dirname(__file__)), "must be empty, new or"),
        ((), "STATEMENT must be given"),
    ],
)
def test_usage_errors_are_one_line(capsys, arguments, message):
    code, out, err = campaign(capsys, *arguments)
    assert code == 2 and out == "" and message in err and err.count("\n") == 1


def test_one_instance_alone(capsys):
    whole = run_campaign("lem:PL_ineq", 60, sizes="n=2,d=2").as_dict()["statements"][0]["worst"]
    code, text, _ = campaign(
        capsys, "lem:PL_ineq", "--index", str(whole["index"]), "--sizes", "n=2,d=2", "--format", "json"
    )
    full = json.loads(text)["statements"][0]
    assert code == 0 and full["slack"] == whole["slack"] and full["in_balls"] == "violated"
    assert len(full["inputs"]["X"]) == 2
    code, text, _ = campaign(capsys, "lem:PL_ineq", "--index", "3", "--sizes", "n=2,d=2")
    assert code == 0 and "slack" in text and "W = " in text


def test_an_interrupt_is_130_and_keeps_the_checkpoint(capsys, tmp_path, monkeypatch):
    def interrupted(*rest):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "perform", interrupted)
    code, _, err = campaign(capsys, "fix:lip_f", *SMALL, "--out", str(tmp_path / "run"))
    assert code == 130 and err.strip() == "Interrupted." and (tmp_path / "run" / "campaign.json").exists()


def test_progress_is_a_line_now_and_then(capsys):
    seconds = iter([0.0, 0.0, 1.0, 20.0, 25.0, 60.0])
    tell = command._line(lambda: next(seconds))
    for done in (0, 1000, 4000, 9000):
        tell(done, 10_000)
    assert capsys.readouterr().err.splitlines() == [
        "1,000 of 10,000 instances, 50/s, 3 min 0 s left",
        "9,000 of 10,000 instances, 150/s, 7 s left",
    ]


# real processes

IDS = ["lem:PL_ineq", "thm:mat_view_l", "fix:lip_grad_l"]
LONG = {"instances": 12_000, "seed": 3, "sizes": "n=3..4,d=3"}


def started(folder, *more):
    arguments = ["--instances", str(LONG["instances"]), "--seed", "3", "--sizes", LONG["sizes"], "--out", str(folder)]
    # every group is written down at once, so that a kill finds some done and some not
    program = (
        "from attnprune_verify.claims.campaign import checkpoint; checkpoint._EVERY = 0.0\n"
        "from attnprune_verify.cli.main import main; main()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, "campaign", *IDS, *arguments, "--format", "json", *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def finished(process):
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(text)


def settled(report):
    return [report[key] for key in report if key not in ("instances_per_second", "resumed")]


def groups_done(folder):
    try:
        ranges = json.loads((folder / "campaign.json").read_text()).get("done", [])
    except FileNotFoundError:
        return 0
    return sum(last - first + 1 for first, last in ranges)


def wait_for_a_group(folder, process):
    while groups_done(folder) == 0:
        assert process.poll() is None
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted():
    return run_campaign(IDS, **LONG).as_dict()


@pytest.mark.thorough
@pytest.mark.parametrize("more", [(), ("--jobs", "2")])
def test_killed_and_resumed_it_is_identical(tmp_path, uninterrupted, more):
    folder = tmp_path / "run"
    with started(folder, *more) as process:
        wait_for_a_group(folder, process)
        workers = pytest.importorskip("psutil").Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
    assert not pytest.importorskip("psutil").wait_procs(workers, timeout=60)[1]  # nobody stays behind
    assert 0 < groups_done(folder) < 32
    report = finished(started(folder, *more))
    assert report["resumed"] and settled(report) == settled(uninterrupted)


@pytest.mark.thorough
def test_a_local_worker_that_is_killed_is_replaced(tmp_path, uninterrupted):
    psutil = pytest.importorskip("psutil")
    folder = tmp_path / "run"
    process = started(folder, "--jobs", "2")
    wait_for_a_group(folder, process)
    workers = [p for p in psutil.Process(process.pid).children(recursive=True) if "loky" in " ".join(p.cmdline())]
    busiest = max(workers, key=lambda p: sum(p.cpu_times()[:2]))
    busiest.kill()
    assert settled(finished(process)) == settled(uninterrupted)


@pytest.mark.thorough
@pytest.mark.skipif(find_spec("distributed") is None, reason="dask is not installed")
@pytest.mark.filterwarnings("default")
def test_on_a_cluster_of_two_workers_one_of_which_dies(tmp_path, uninterrupted):
    """A real LocalCluster with two processes; one is killed, for good, while both compute."""
    import distributed

    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        victim = list(cluster.workers.values())[0].process.process.pid
        killed = []

        def kill_one(done, total):
            if done > total / 4 and not killed:
                killed.append(victim)
                os.kill(victim, signal.SIGKILL)

        result = run_campaign(IDS, **LONG, scheduler=cluster.scheduler_address, progress=kill_one)
    assert killed and settled(result.as_dict()) == settled(uninterrupted)


@pytest.mark.skipif(find_spec("distributed") is None, reason="dask is not installed")
@pytest.mark.thorough
def test_a_scheduler_that_does_not_answer(capsys):
    code, _, err = campaign(capsys, "fix:lip_f", *SMALL, "--scheduler", "tcp://127.0.0.1:9")
    assert code == 2 and "must be a Dask scheduler that answers" in err

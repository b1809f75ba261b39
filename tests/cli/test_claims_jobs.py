"""Statements judged in several processes: the same report to the byte, deaths survived, interruptions clean."""

import os
import pickle
import signal
import subprocess
import sys
import time

import pytest

from attnprune_verify.claims import registry
from attnprune_verify.claims.judging import in_processes
from attnprune_verify.claims.judging.falsifier import QUICK, THOROUGH, Effort
from attnprune_verify.claims.run import run_claims
from attnprune_verify.files import dumps
from attnprune_verify.state.processes import DEATHS, WorkersLost, unordered


def test_few_statements_are_judged_without_processes():
    assert in_processes.worthwhile(2, QUICK, 8) == in_processes.worthwhile(273, Effort(0, 0, 0, 0), 8) == 1
    assert in_processes.worthwhile(273, QUICK, 1) == 1 and in_processes.worthwhile(273, THOROUGH, 8) == 8


def test_what_comes_from_a_process_is_what_one_process_computes(monkeypatch):
    """Tasks and results pass through pickles, as between processes; the last statements come first."""
    order = []

    def elsewhere(function, tasks, processes, *, importable):
        assert processes == 2 and importable
        order.extend(tasks)
        through = pickle.loads(pickle.dumps((function, tasks)))
        return ((place, pickle.loads(pickle.dumps(through[0](task)))) for place, task in enumerate(through[1]))

    monkeypatch.setattr(in_processes, "_SHARE", 1)
    monkeypatch.setattr(in_processes, "unordered", elsewhere)
    ids, effort = ("lem:PL_ineq", "fix:PL_ineq", "fac:norm_bound"), Effort(0, 1, 0, 0)
    alone, shared = (run_claims(effort, ids=ids, processes=processes) for processes in (1, 2))
    assert dumps(shared.as_dict()) == dumps(alone.as_dict())
    names = [claim.test_id for claim in registry.claims()]
    assert [names.index(one) for one in order] == sorted(map(names.index, order), reverse=True)


@pytest.mark.thorough
def test_processes_change_no_byte(monkeypatch):
    monkeypatch.setattr(in_processes, "_SHARE", 1)
    brief, told = Effort(0, 2, 0, 0), []
    alone = run_claims(brief)
    shared = run_claims(brief, lambda done, total: told.append((done, total)), processes=2)
    assert dumps(shared.as_dict()) == dumps(alone.as_dict())
    assert told == [(done, len(alone.records)) for done in range(len(alone.records))]


@pytest.mark.thorough
def test_a_main_module_without_a_guard_is_not_run_again(tmp_path):
    script = tmp_path / "mine.py"
    script.write_text(
        "print('begun')\nimport attnprune_verify.claims.judging.in_processes as processes\nprocesses._SHARE = 1\n"
        "from attnprune_verify.claims.judging.falsifier import Effort\n"
        "from attnprune_verify.claims.run import run_claims\n"
        "print(len(run_claims(Effort(0, 1, 0, 0), processes=2).records))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == ["begun", str(len(registry.claims()))] and not done.stderr


def die_once(path):
    """Kill this process the way the kernel does, the first time."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return os.path.basename(path)
    os.kill(os.getpid(), signal.SIGKILL)


def die(_):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(task):
    raise ValueError(f"task {task}")


@pytest.mark.thorough
def test_a_task_whose_process_died_is_run_again(tmp_path):
    tasks = [str(tmp_path / name) for name in "abc"]
    assert sorted(unordered(die_once, tasks, 2)) == [(0, "a"), (1, "b"), (2, "c")]
    with pytest.raises(WorkersLost, match=f"{DEATHS + 1} worker processes died"):
        list(unordered(die, [1, 2], 2))


@pytest.mark.thorough
def test_an_error_of_a_task_is_the_callers():
    with pytest.raises(ValueError, match="task 1"):
        list(unordered(refuse, [1], 2))


@pytest.mark.thorough
@pytest.mark.parametrize("moment", ["at once", "at work"])
def test_an_interruption_leaves_no_process(moment):
    command = [sys.executable, "-m", "attnprune_verify", "claims", "--jobs", "2"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while workers(process.pid) < 2:
        assert process.poll() is None, "it ended before its processes started"
        time.sleep(0.02)
    time.sleep(0.0 if moment == "at once" else 3.0)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    out, err = process.communicate()
    assert process.returncode == 130 and out == ""
    assert "Traceback" not in err and err.splitlines()[-1] == "Interrupted."
    for _ in range(50):  # those that were ended are gone a moment later
        if not alive(process.pid):
            return
        time.sleep(0.1)
    raise AssertionError(alive(process.pid))


def alive(group):
    """Return the command lines of the group's processes, but of those that ended and that nobody waited for."""
    command = ["ps", "-ww", "-o", "stat,args", "--no-headers", "-g", str(group)]
    listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return [line for line in listed if not line.startswith("Z")]


def workers(group):
    return sum("spawn_main" in line or "popen_loky" in line for line in alive(group))

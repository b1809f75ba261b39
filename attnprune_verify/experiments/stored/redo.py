"""``python -m attnprune_verify.experiments.stored check|measure``: repeating stored runs.

`check` repeats a sample of the runs and compares; `measure NAME` does all runs and writes the record anew.
"""

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

from attnprune_verify.errors import InvalidInput
from attnprune_verify.experiments.runs import Progress, complete, computing
from attnprune_verify.experiments.stored.kind import BETWEEN_KERNELS, TOLERANCE, Row
from attnprune_verify.experiments.stored.kinds import KINDS, Stored
from attnprune_verify.experiments.stored.record import StoredRecord, code, kernel, once, read, table_of, times
from attnprune_verify.state.digests import of_file
from attnprune_verify.state.journal import Journal

DISTURBANCE = 1e-12
"""Of M_0, to test whether a run is chaotic: above rounding, and a calm run's numbers stay within `TOLERANCE`."""

NEIGHBOURS = 8
"""Starts beside a chaotic run's own: seven of one row of `figure2` had errors from 0.010 to 0.025, 0.0087 elsewhere."""


def sample(
    path: Path, seed: str, seconds: float, folder: str = "", *, chaotic: bool = True, long: bool = False
) -> tuple[Stored, list[Any]]:
    """Draw runs of a record that take about `seconds` together, to be repeated here.

    They are drawn by the seed and by the table itself: whoever changes a number cannot choose which are repeated.
    Chaotic runs are drawn only with `chaotic`, runs that take longer than `seconds` only with `long`: if such a run
    comes first, it is the whole sample with probability `seconds` / (its time). So every run can be drawn.
    """
    record, _ = read(path)
    stored = KINDS[record.experiment](record.plan, folder)
    if stored.needs_model and not folder:
        return stored, []
    if stored.inputs() != record.inputs:
        raise InvalidInput(f"{path.name} must be repeated on the model and texts it was measured on")
    costs = times(path)
    if not chaotic:
        runs = stored.runs()
        costs = [math.inf if is_chaotic(record, stored, run) else cost for run, cost in zip(runs, costs, strict=True)]
    of_table = hashlib.sha256(table_of(path)).hexdigest()
    return stored, [stored.runs()[place] for place in _drawn(costs, Random(f"{seed} {of_table}"), seconds, long)]


def _drawn(costs: Sequence[float], draw: Random, seconds: float, long: bool) -> list[int]:
    """Return the places of the runs in a sample; runs of infinite cost are in none."""
    places = [place for place, cost in enumerate(costs) if cost < math.inf]
    draw.shuffle(places)
    if long and places and costs[places[0]] > seconds > draw.random() * costs[places[0]]:
        return places[:1]
    chosen = []
    for place in places:
        if costs[place] <= seconds:
            chosen.append(place)
            seconds -= costs[place]
    return chosen


def odds(path: Path, seconds: float, *, draws: int = 4000) -> tuple[float, float]:
    """Estimate, from `draws` samples, the least and the mean probability that a run of the record is in a sample."""
    costs = times(path)
    drawn = Counter(place for seed in range(draws) for place in _drawn(costs, Random(seed), seconds, True))
    found = [drawn[place] / draws for place in range(len(costs))]
    return min(found), sum(found) / len(found)


def is_chaotic(record: StoredRecord, stored: Stored, run: Any) -> bool:
    """Return True where `DISTURBANCE` moved the numbers of the run's setting, or was never tried on that setting."""
    setting = stored.setting(run)
    return bool(setting) and record.moved.get(setting, math.inf) > TOLERANCE


def folder_of(path: Path, folders: Sequence[str]) -> str:
    """Return the folder that holds the model on which a record was measured; "" if none does."""
    wanted = {name: digest for name, digest in read(path)[0].inputs.items() if name.endswith(".safetensors")}
    for folder in folders if wanted else ():
        files = {name: Path(folder) / name for name in wanted}
        if all(file.is_file() for file in files.values()) and wanted == {
            name: of_file(file) for name, file in files.items()
        }:
            return folder
    return ""


def differences(path: Path, stored: Stored, runs: list[Any]) -> Iterator[str]:
    """Repeat these runs and yield a line for every number that differs from the record's.

    If rounding decides which entries are kept (chaotic runs, and `Stored.by_rounding`) and this machine rounds
    otherwise, only the errors are compared, within `BETWEEN_KERNELS`: with those of the run itself and, if they are far
    off, with those of its `NEIGHBOURS`.
    """
    record, every = read(path)
    identity = [name for name in stored.columns if name not in stored.measured]
    held = {tuple(map(row.get, identity)): row for row in every}
    for run in runs:
        other = kernel() != record.kernel
        tolerance = stored.tolerance_elsewhere if other else stored.tolerance
        elsewhere = other and (is_chaotic(record, stored, run) or stored.by_rounding(run))
        neighbours = cache(partial(_neighbours, stored, run))
        for place, row in enumerate(stored.rows(run)):
            before = held.get(tuple(map(row.get, identity)), row)
            for name in stored.errors if elsewhere else stored.measured:
                allowed = BETWEEN_KERNELS if elsewhere else tolerance(run, name)
                near = partial(_equal, before.get(name), tolerance=allowed)
                if not near(row.get(name)) and not (elsewhere and any(near(r[place].get(name)) for r in neighbours())):
                    where = ", ".join(f"{key} = {row[key]}" for key in identity if key in row)
                    yield f"{path.name}: {name} is {before.get(name)}, and {row.get(name)} when done again ({where})"


def _neighbours(stored: Stored, run: Any) -> list[list[Row]]:
    """Return the rows of the run from starts beside its own, each disturbed twice as much as the one before."""
    every = (stored.disturbed(run, DISTURBANCE * 2**power) for power in range(NEIGHBOURS))
    return [rows for rows in every if rows is not None]


def _equal(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float | int) and isinstance(other, float | int):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=TOLERANCE)
    return bool(one == other)


def measure(path: Path, folder: str = "", progress: Progress | None = None) -> None:
    """Do every run of the record's plan and write record, rows and times anew.

    Finished runs are kept in ``NAME.runs.jsonl`` of the working directory: after an interruption the same command,
    with the same code, resumes from there.
    """
    before, _ = read(path)
    stored, journal = KINDS[before.experiment](before.plan, folder), Path(f"{path.name}.runs.jsonl")
    inputs = stored.inputs()
    same = f"{code()['source']}|{kernel()}|{json.dumps([before.plan, inputs], sort_keys=True)}"
    runs = {f"{same}|{number}": run for number, run in enumerate(stored.runs())}
    done = complete(runs, partial(_timed, stored), journal, progress=progress)
    rows = [row for one in done for row in one["rows"]]
    record = StoredRecord(before.experiment, stored.command, before.plan, inputs, code(), kernel(), len(rows))
    for run, one in zip(runs.values(), done, strict=True):
        _note(record, stored, run, one["moved"])
    seconds = " ".join(str(one["seconds"]) for one in done)
    record.write(path, once(path, record, rows, stored), seconds)
    Journal(journal, computing()).remove()


def disturb(path: Path, folder: str = "", progress: Progress | None = None) -> None:
    """Disturb every run of the settings recorded as calm, and record how far their numbers move; the rows stay.

    A setting is calm only if all of its draws are: one seed decides nothing about the next.
    """
    record, _ = read(path)
    stored, journal = KINDS[record.experiment](record.plan, folder), Path(f"{path.name}.disturbed.jsonl")
    thought = [run for run in stored.runs() if stored.setting(run) and not is_chaotic(record, stored, run)]
    runs = {f"{code()['source']}|{kernel()}|{number}": run for number, run in enumerate(thought)}
    for run, one in zip(thought, complete(runs, partial(_timed, stored), journal, progress=progress), strict=True):
        _note(record, stored, run, one["moved"])
    record.write(path, table_of(path))
    Journal(journal, computing()).remove()


def _note(record: StoredRecord, stored: Stored, run: Any, moved: float | None) -> None:
    if moved is not None:
        setting = stored.setting(run)
        record.moved[setting] = max(record.moved.get(setting, 0.0), moved)


def _timed(stored: Stored, run: Any) -> dict[str, Any]:
    """Rows and seconds of a run, and how far it moves when disturbed."""
    start = time.process_time()
    rows = stored.rows(run)
    seconds = round(time.process_time() - start, 2)
    disturbed = stored.disturbed(run, DISTURBANCE) if stored.setting(run) else None
    moved = None if disturbed is None else max(map(partial(_moved, stored), rows, disturbed))
    return {"rows": rows, "seconds": seconds, "moved": moved}


def _moved(stored: Stored, row: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest relative difference of two rows' measured numbers; 1 where words differ."""
    found = [0.0]
    for name in stored.measured:
        one, two = row.get(name), other.get(name)
        if isinstance(one, float | int) and isinstance(two, float | int):
            found.append(abs(one - two) / max(abs(one), abs(two), 1.0))
        elif one != two:
            found.append(1.0)
    return float(f"{max(found):.2g}")

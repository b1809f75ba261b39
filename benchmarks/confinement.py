"""Processor time of audits with and without confinement: ``python -m benchmarks.confinement [PROGRAM...]``.

Right programs are audited in turns, ``required`` and ``off``, so that whatever else the machine does falls on both.
Printed per program: the outcome under ``required``, the medians of the processor time of audit and subject together,
and their ratio.
"""

import statistics
import sys
import time
from pathlib import Path
from unittest import mock

from attnprune_verify import run_audit
from attnprune_verify.audit.subject import limits
from attnprune_verify.audit.subject.line import Line

RIGHT = Path(__file__).parents[1] / "tests" / "audit" / "right"
PROGRAMS = ("einsum", "torch_autograd", "jax_jit")
TURNS = 3  # chosen: a whole audit takes ten seconds and more, and the ratio moves by some per cent


def seconds_of(program: str, confine: str) -> tuple[float, str]:
    """Processor seconds of one audit, its subject included, and its outcome.

    The subject's are read before its end: a first process in namespaces takes them with it.
    """
    subjects: list[float] = []
    ending = Line.close

    def close(line: Line) -> None:
        pids = [line.pid, *limits.descendants(line.pid)] if line.alive else []
        subjects.append(sum(limits.processor_seconds(pids).values()))
        ending(line)

    before = time.process_time()
    with mock.patch.object(Line, "close", close):
        result = run_audit(str(RIGHT / f"{program}.py"), confine=confine)
    return time.process_time() - before + sum(subjects), result.outcome


def main(programs: tuple[str, ...]) -> None:
    """Print a line a program."""
    for program in programs:
        pairs = [(seconds_of(program, "required"), seconds_of(program, "off")) for _ in range(TURNS)]
        required, off = (statistics.median(pair[index][0] for pair in pairs) for index in (0, 1))
        outcomes = ", ".join(sorted({pair[0][1] for pair in pairs}))
        ratio = statistics.median(pair[0][0] / pair[1][0] for pair in pairs)
        print(f"{program}: {outcomes}; required {required:.2f} s, off {off:.2f} s, median ratio {ratio:.3f}")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or PROGRAMS)

"""`python -m proofs_check.steps [-v]`: the table of all steps; exit 0 when exactly the recorded steps fail."""

import sys

from proofs_check.steps.record import FAILS
from proofs_check.steps.table import PROOFS, replay


def main(arguments: list[str]) -> int:
    as_recorded = True
    for slug in PROOFS:
        label, steps, expected = replay(slug)
        failing = [step for step in steps if step.status == FAILS]
        as_recorded &= expected
        note = "" if expected else "   NOT AS RECORDED"
        print(f"{label}: {len(steps)} steps, {len(failing)} fail{note}")
        for step in steps if "-v" in arguments else failing:
            print(f"    {step.status:5} {step.label}: {step.says}\n          {step.witness[:400]}")
    return 0 if as_recorded else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

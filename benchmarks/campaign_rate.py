"""``python benchmarks/campaign_rate.py``: instances a processor second of campaigns, statement by statement.

Each statement is judged alone on groups of 1024 instances of n = d = 4, so that nothing is shared with another one.
The clock is processor time; the best group of several is printed beside the median.
"""

import argparse
import os
import statistics

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from attnprune_verify.claims.campaign.draw import LANES_A_GROUP, Quota  # noqa: E402
from attnprune_verify.claims.campaign.plan import CampaignPlan  # noqa: E402
from attnprune_verify.claims.campaign.workers import judge_group  # noqa: E402

STATEMENTS = (
    "thm:mat_view_l",
    "thm:lip_grad_l",
    "fix:lip_grad_l",
    "lem:lip_f",
    "fix:lip_f",
    "lem:PL_ineq",
    "fix:PL_ineq",
    "new:PL_global",
    "new:PL_sharp",
)


def main() -> None:
    """Print one line a statement, and one for all of them together."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("statements", nargs="*", default=STATEMENTS)
    parser.add_argument("--sizes", default="n=4,d=4")
    parser.add_argument("--groups", type=int, default=9)
    options = parser.parse_args()
    print(f"{'statement':<28}{'readings':>9}{'median/s':>12}{'best/s':>12}")
    for ids in ([one] for one in options.statements):
        _line(ids[0], ids, options)
    _line("all of them", list(options.statements), options)


def _line(name: str, ids: list[str], options: argparse.Namespace) -> None:
    plan = CampaignPlan.of(ids, LANES_A_GROUP, 0, options.sizes)
    judge_group(plan, Quota(0, 8))  # what is computed once
    seconds = [judge_group(plan, Quota(number, LANES_A_GROUP)).seconds for number in range(options.groups)]
    rates = [LANES_A_GROUP * len(plan.claims) / one for one in seconds]
    print(f"{name:<28}{len(plan.claims):>9}{statistics.median(rates):>12,.0f}{max(rates):>12,.0f}", flush=True)


if __name__ == "__main__":
    main()

"""Draw the picture of README.md: both sides of the PL inequality on its counterexample, over the size of the weights.

    python benchmarks/readme_picture.py [docs/assets/pl_inequality.svg]

X = I_2, |W| = w with signs + - - +, M = 0, lam = 0. The sides are those that `attnprune-verify claims` judges.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np

from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import numbers
from attnprune_verify.claims.registry import find

WEIGHTS = np.geomspace(1e-3, 10, 60)


def sides(id_: str, reading: str) -> np.ndarray:
    """(60, 2): left and right side of the first relation of a statement, weight by weight."""
    signs = np.array([[1.0, -1.0], [-1.0, 1.0]])
    case = Case({"X": np.eye(2), "W": signs, "M": np.zeros((2, 2)), "lam": 0.0, "mask": None})
    relation = find(id_, reading).margin
    found = [relation(Quantities(case.but(W=w * signs))) for w in WEIGHTS]
    return np.array(
        [numbers(one[0] if isinstance(one, list | tuple) and not hasattr(one, "kind") else one) for one in found]
    )


def main(out: str = "docs/assets/pl_inequality.svg") -> None:
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "attnprune-verify"  # the same file every time
    from matplotlib import pyplot as plt

    printed, repaired = sides("lem:PL_ineq", "full"), sides("fix:PL_ineq", "any")
    figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
    axes.loglog(WEIGHTS, printed[:, 0], "k-", label="left side: squared norm of the gradient")
    axes.loglog(WEIGHTS, printed[:, 1], "--", color="tab:red", label="right side as printed")
    axes.loglog(WEIGHTS, repaired[:, 1], ":", color="tab:blue", lw=2.5, label="right side, repaired")
    wrong = printed[:, 0] < printed[:, 1]
    axes.fill_between(WEIGHTS, printed[:, 0], printed[:, 1], where=wrong, color="0.9", label="here the lemma is false")
    axes.set(xlabel="|W|, every entry", ylabel="both sides of lem:PL_ineq", ylim=(1e-13, None))
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(Path(out), metadata={"Date": None})
    Path(out).write_text(" ".join(Path(out).read_text("utf-8").split()) + "\n", "utf-8")  # on one line


if __name__ == "__main__":
    main(*sys.argv[1:])

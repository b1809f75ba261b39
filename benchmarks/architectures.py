"""``python benchmarks/architectures.py [TYPE]...``: tiny random models of many types pruned, judged, as a table.

For every type: how many parameters of its blocks are pruned and stay dense, and the squared change of the states after
every block, relative to their size, by output-obs, every matrix by rho and no steps, and as a ratio to that by
SparseGPT and by magnitude. With its defaults (budgets, reconstruction) output-obs prunes it too. A type of which not
every matrix (with defaults: not the model) has exactly its zeros and everything else its bytes, or which transformers
does not read again as it was, ends the program with an error. Needs torch and transformers.
"""

import copy
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch  # noqa: E402  # after the path
import transformers  # noqa: E402

from attnprune_verify.errors import InvalidInstance  # noqa: E402
from attnprune_verify.torch import prune_  # noqa: E402
from tests.whole_model import decoders  # noqa: E402

PLAIN = {"budget": "matrix", "reconstruct": 0}
CASES = {name: {"attention": name, "rest": name} | PLAIN for name in ("sparsegpt", "magnitude", "output-obs")}


def row(kind: str) -> str:
    """One line of the table."""
    dense = decoders.tiny(kind)
    before, damages = decoders.bytes_of(dense), {}
    try:
        for name, case in {**CASES, "defaults": {}}.items():
            model = copy.deepcopy(dense)
            report = prune_(model, decoders.IDS, 0.5, **case)
            damages[name] = decoders.damage(dense, model, decoders.IDS)
            if name in ("output-obs", "defaults"):
                judge(before, model, report, divided=name == "defaults")
    except InvalidInstance as error:
        return f"| {kind} | refused: {error} | | | | |"
    ours = damages["output-obs"]
    ratios = f"{ours / damages['sparsegpt']:.2f} | {ours / damages['magnitude']:.2f}"
    return f"| {kind} | {len(report['tensors'])} | {len(report['dense'])} | {ours:.2e} | {ratios} |"


def judge(before: Any, model: Any, report: Any, *, divided: bool) -> None:
    """Raise unless zeros are exact, everything else is as before, and transformers reads the same again."""
    after = decoders.bytes_of(model)
    decoders.judge(before, after, report, 0.5, divided=divided)
    with tempfile.TemporaryDirectory() as folder:
        again = decoders.bytes_of(decoders.reloaded(model, folder))
    assert again.keys() == after.keys() and all(torch.equal(again[name], after[name]) for name in after)


def main() -> None:
    """Print the table."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}\n")
    print("| type | pruned | dense | output-obs | over SparseGPT | over magnitude |\n|---|---|---|---|---|---|")
    for kind in sys.argv[1:] or [*decoders.TYPES, *decoders.REFUSED]:
        print(row(kind), flush=True)


if __name__ == "__main__":
    main()

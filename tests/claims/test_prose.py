"""The sentences of the text: judged at the paper's own sizes, by numbers read from it, as kindly as it allows."""

import hashlib
import json
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from attnprune_verify.claims import excerpts, reported
from attnprune_verify.claims.cases.case import Case
from attnprune_verify.claims.cases.quantities import Quantities
from attnprune_verify.claims.cases.relation import decide
from attnprune_verify.claims.core import Verdict
from attnprune_verify.claims.judging.judge import judge
from attnprune_verify.claims.registry import claims, find
from attnprune_verify.claims.statements import prose_experiments, prose_models, prose_theory
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.experiments.perplexity.sentences import _TABLE_1
from attnprune_verify.experiments.stored.findings import measured
from attnprune_verify.theory.numbers.arithmetic import BALL, EXACT


def readings(id_: str) -> dict[str, Verdict]:
    return {claim.reading.name: judge(claim).statement for claim in claims() if claim.id == id_}


def test_synthetic_sentences_are_checked_at_the_papers_sizes() -> None:
    assert (reported.synthetic().tokens, reported.synthetic().features) == (128, 64)
    for id_ in ("exp:step_size", "exp:full_rank_tokens", "exp:supports_theory", "exp:exp_is_computable"):
        for claim in (claim for claim in claims() if claim.id == id_):
            shapes = {np.shape(case["X"]) for case in claim.supply.families(np.random.default_rng(0))}
            assert shapes == {(128, 64)}, claim.test_id
            assert "128" in claim.says or "128" in claim.formula, claim.test_id


def test_the_step_is_too_long_on_every_draw_and_a_short_one_on_none() -> None:
    """One row of one sample bounds L from below: it must do so with room to spare, and not whatever the step."""
    for case in find("exp:step_size", "causal").supply.families(np.random.default_rng(0)):
        q = Quantities(case, BALL)
        assert decide(prose_experiments._step(q)) is False
        assert decide(prose_experiments._step(q, Fraction(1, 10**9))) is True


def test_one_row_bounds_the_curvature_from_below() -> None:
    """Against the Hessian of the whole loss along V, on a small instance."""
    rng = np.random.default_rng(3)
    X, W, V = rng.standard_normal((4, 3)), rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    case = Case({"X": X, "W": W, "M": np.ones((3, 3)), "lam": 0.0, "mask": "causal", "V": V})
    q = Quantities(case)
    whole = float((q.directional(V, lambda m: m.G) * V).sum() / (V * V).sum())
    rows = [float(prose_experiments._bend(Quantities(case.but(row=i)))) * 16 for i in range(4)]
    assert sum(rows) == pytest.approx(whole) and all(0 <= row <= whole for row in rows)


def test_ranks_are_exact() -> None:
    tiny = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])
    assert prose_experiments._rank(tiny) == 2
    assert prose_experiments._rank(np.outer([1.0, 2.0**-60], [3.0, 5.0])) == 1


def test_the_algorithm_divides_the_regulariser_by_k() -> None:
    """Section 6.1's eta lam~ is 12.8 for the loss of the definition and 0.8 for the algorithm's line at k = 16."""
    assert readings("exp:divergent_step") == {"definition": Verdict.REFUTED, "algorithm": Verdict.HOLDS}
    assert "12.8" in find("exp:divergent_step", "definition").finding
    assert "0.8 at k = 16 and 0.2 at k = 64" in find("exp:divergent_step", "algorithm").finding


def test_full_rank_is_what_the_paper_says_and_not_what_its_theorem_needs() -> None:
    assert readings("exp:full_rank_tokens") == {"rank": Verdict.HOLDS, "theorem": Verdict.REFUTED}


def test_both_hypotheses_fail_and_not_only_one() -> None:
    """With beta > 0 under a causal mask, or without a mask at n > d, the sentence would not be refuted as it stands."""
    wide = {"X": np.eye(2), "W": np.eye(2), "M": np.ones((2, 2)), "lam": 0.1, "mask": "causal"}
    tall = {"X": np.eye(3)[:, :2], "W": np.eye(2), "M": np.ones((2, 2)), "lam": 0.1, "mask": None}
    for values in (wide, tall):
        assert decide(prose_experiments._both_positive(Quantities(Case(values), BALL))) is True


def test_the_gradient_is_bounded_in_the_box_and_nowhere_else() -> None:
    assert readings("exp:gradient_bounded") == {"any": Verdict.REFUTED, "box": Verdict.HOLDS}


def test_the_whole_model_is_under_half_under_every_way_to_count() -> None:
    shares = prose_models._pruned_shares()
    assert len(shares) == 4 and shares["last layer, of all parameters"] == Fraction(197888, 603425)
    assert max(shares.values()) < Fraction(1, 2)
    found = find("exp:whole_model_ratio", "Llama-3.2-1B").finding
    assert f"{float(min(shares.values())):.1%}" in found and f"{float(max(shares.values())):.1%}" in found


def test_a_threshold_is_not_blamed_for_where_positions_are_counted_from() -> None:
    """Of distinct entries counting from 1 leaves floor(rho d^2) zeros: only ties refute the sentence."""
    values = {"M": np.arange(9.0).reshape(3, 3), "rho": Fraction(1, 2)}
    assert prose_theory._printed_zeros(values["M"], values["rho"]) == {4, 5}
    assert decide(prose_theory._proportion(Quantities(Case(values), EXACT))) is True
    tied = Case(values | {"M": np.ones((3, 3))})
    assert decide(prose_theory._proportion(Quantities(tied, EXACT))) is False


def test_no_0_1_mask_with_half_zeros_meets_the_bound() -> None:
    (case,) = find("exp:near_optimal_mask", "full").supply.families(np.random.default_rng(0))
    assert decide(prose_theory._rounded(Quantities(case, BALL))) is False
    near = case.but(W=case["W"] * 1e-3)  # weights that hardly matter: pruning costs next to nothing
    assert decide(prose_theory._rounded(Quantities(near, BALL))) is True


def test_reported_numbers_come_from_the_papers_lines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    taken = Path(excerpts.__file__).parent / "excerpts.json"
    document = json.loads(taken.read_text("utf-8"))
    entry = document["excerpts"]["setup:real"]
    for line in entry["lines"]:
        line["text"] = line["text"].replace("0.0025", "0.0015")
    (tmp_path / "excerpts.json").write_text(json.dumps(document))
    monkeypatch.setattr(excerpts.resources, "files", lambda name: tmp_path)
    reported.real.cache_clear()
    with pytest.raises(InvalidInstance, match="was changed since"):
        reported.real()
    text = "\n".join(line["text"] for line in entry["lines"])
    entry["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    (tmp_path / "excerpts.json").write_text(json.dumps(document))
    assert reported.real().delta == Fraction(15, 10000)
    reported.real.cache_clear()


def test_what_is_quoted_of_table_1_stands_in_it() -> None:
    says = measured()["exp:table1-wanda-everywhere-beats-sparsegpt"].says
    rows = dict(re.findall(r"(\w+) MLP \+ \1 Attn & ([\d.]+)", excerpts.excerpt("tab:ppl")))
    assert f"{float(rows['Wanda']):.1f} against {float(rows['SparseGPT']):.1f} in Table 1" in says
    (sentences,) = re.findall(r"\$(\d+)\$ sentences in the C4 training", excerpts.excerpt("setup:perplexity"))
    assert f"with {sentences} sentences" in says


def test_table_1_is_judged_at_its_own_ratio() -> None:
    assert float(reported.perplexity().of_attention) == _TABLE_1

"""Campaigns: what instances are, that batches say what single cases say, that wrong formulas are found."""

import json
import sys
from dataclasses import replace
from importlib import resources

import jsonschema
import numpy as np
import pytest

from attnprune_verify.claims import registry
from attnprune_verify.claims.campaign import judge, plan, run, workers
from attnprune_verify.claims.campaign.decide import HOLDS, NOT_MET, VIOLATED, decide_lanes
from attnprune_verify.claims.campaign.draw import Draw, Quota, Sizes, groups, index_of, locate
from attnprune_verify.claims.campaign.examine import examine
from attnprune_verify.claims.campaign.forms import FORMS
from attnprune_verify.claims.campaign.plan import as_sizes
from attnprune_verify.claims.campaign.run import run_campaign
from attnprune_verify.claims.campaign.tally import LeastSlack, Tally
from attnprune_verify.claims.core import mutant
from attnprune_verify.claims.judging.trial import try_case
from attnprune_verify.errors import InvalidInstance
from attnprune_verify.state import processes
from attnprune_verify.theory.numbers.arithmetic import BALL, FLOAT, working_precision

SCHEMA = json.loads(
    (resources.files("attnprune_verify.report") / "schemas" / "campaign.schema.json").read_text("utf-8")
)
SIZES = Sizes((2, 3), (2, 3))
ATTACKED = [claim for claim in registry.claims() if judge.attackable(claim)]
MUST_BE_BATCHED = """
    thm:mat_view_l thm:mat_view_l_informal thm:lip_grad_l thm:lip_grad_l_informal lem:lip_f lem:lip_c lem:lip_f_circ_c
    lem:lip_diag lem:lip_diag_f fix:lip_f fix:lip_c fix:lip_f_circ_c fix:lip_grad_l new:lip_diag new:lip_diag_f
    lem:PL_ineq lem:PL_ineq_informal fix:PL_ineq new:PL_global new:PL_additive_free new:PL_sharp new:PL_constants
    new:gradient_inner_product lem:bound_c lem:bound_diag_f fix:bound_c new:curvature_range new:row_hessian
    lem:grad_loss_func lem:mat_view_b1 lem:mat_view_b2 def:p
""".split()
"""The others are where their code allows it, and one by one where it looks at plain values."""


def drawn(group=0, count=6, sizes=SIZES, seed=1):
    return judge.Group(Draw.of(seed, sizes, group, 0, count))


# what an instance is


def test_an_instance_depends_on_seed_and_index_alone():
    together = Draw.of(5, SIZES, 3, 0, 40)
    for lane in (0, 17, 39):
        alone = Draw.of(5, SIZES, 3, lane, 1)
        assert alone.n == together.n and alone.boxed == together.boxed
        assert all((alone.values[name][0] == together.values[name][lane]).all() for name in alone.values)
    other = Draw.of(6, SIZES, 3, 0, 40)
    assert other.n != together.n or (other.values["X"] != together.values["X"]).any()


def test_every_index_is_in_one_group():
    for instances in (1, 31, 32, 33, 40_000):
        found = [index_of(group.number, lane) for group in groups(instances) for lane in range(group.lanes)]
        assert sorted(found) == list(range(instances))
    assert all(index_of(*locate(index)) == index for index in (0, 31, 32, 32767, 32768, 10**12 + 7))


def test_the_draws_are_what_they_say():
    values = Draw.of(0, Sizes((4, 4), (4, 4)), 1, 0, 20_000).values
    V = values["V"].ravel()
    assert abs(V.mean()) < 0.01 and abs(V.std() - 1) < 0.01 and abs((V**4).mean() - 3) < 0.1
    assert set(values["lam"]) == {0.0, 1e-6, 0.04, 1.0} and np.isfinite(values["X"]).all()
    wide = Draw.of(0, SIZES, 0, 0, 5)
    assert wide.random_mask.any(axis=1).all()
    assert len({Draw.of(0, SIZES, g, 0, 1).values["X"].shape for g in range(40)}) == 4


# batches against single cases


class OneByOne(Exception):
    """The claim has no batched form."""


@pytest.mark.parametrize("claim", ATTACKED, ids=lambda claim: claim.test_id)
def test_a_batch_says_what_single_cases_say(claim, monkeypatch):
    """The claim's own margin in ordinary floats, or in balls for an identity, on the same instances."""

    def one_by_one(*_):
        raise OneByOne

    monkeypatch.setattr(judge, "_one", one_by_one)
    group = drawn(4 if claim.reading.name == "any" else 1)
    try:
        found = judge.decide(claim, group)
    except OneByOne:
        assert claim.id not in MUST_BE_BATCHED
        return
    for place in range(4):
        case = judge.case_of(claim, group.draw, place)
        with working_precision():
            trial = try_case(claim, case, FLOAT if claim.arithmetic == "float" else BALL)
        state = int(found.state[place])
        if state == NOT_MET:  # or it starts from "a number > 0" that is not certainly so, and says nothing
            assert trial.failed is not None or trial.slack > 0.999
            continue
        assert trial.failed is None
        if claim.arithmetic == "float" and state in (HOLDS, VIOLATED) and trial.relation.kind != "==":
            assert found.slack[place] == pytest.approx(trial.slack, rel=1e-6, abs=1e-9)
        if state == HOLDS:
            assert trial.certain is not False and trial.slack > -1e-9
        if state == VIOLATED:
            assert trial.certain is not True and trial.slack < 0


@pytest.mark.thorough
@pytest.mark.parametrize("claim", ATTACKED, ids=lambda claim: claim.test_id)
def test_nothing_of_ours_is_violated(claim):
    found = judge.tally(claim, drawn(5, 20))
    assert found.instances == 20 and (not claim.own or found.violations == 0)


def test_the_forms_stand_for_claims():
    assert set(FORMS) <= {claim.id for claim in ATTACKED}


# wrong formulas


def violations(claim, margin=None, count=256, of=range(4)):
    total = 0
    for number in of:
        group = drawn(number, count)
        quantities = group.lanes_of(claim)
        if group.draw.n >= claim.supply.least_tokens:
            total += (decide_lanes(claim, quantities, count, margin).state == VIOLATED).sum()
    return total


@pytest.mark.parametrize(
    ("core", "lam"),
    [
        (lambda q: q.p1, 1),
        (lambda q: q.p.T, 1),
        (lambda q: q.p, 2),
        (lambda q: q.p1 - q.p1.sum(axis=1)[:, None] * q.f, 1),
    ],
    ids=["p2 left out", "p transposed", "lam doubled", "dense softmax in the correction"],
)
def test_a_wrong_gradient_is_found(core, lam, monkeypatch):
    claim = registry.find("thm:mat_view_l", "any")
    right = violations(claim, FORMS[claim.id])

    def wrong(q):
        closed = q.W * (q.X.T @ core(q) @ q.X) + q.M * q.lam * lam
        return FORMS[claim.id](q)._replace(rhs=(closed * q.V).sum())

    assert right == 0 and violations(claim, wrong) > 100


@pytest.mark.parametrize(
    ("id_", "says"),
    [
        ("thm:lip_grad_l", "half of lam alone"),
        ("fix:lip_grad_l", "lam left out"),
        ("fix:lip_f", "K/4"),
        ("new:gradient_inner_product", "<G, M> >= 0"),
        ("new:PL_sharp", "1.1 times the right side"),
    ],
)
def test_a_wrong_bound_is_found(id_, says):
    claim = next(claim for claim in registry.claims() if claim.id == id_)
    wrong = next(wrong for wrong in claim.wrong if wrong.says == says)
    assert violations(claim) == 0 and violations(mutant(claim, wrong), of=range(8)) > 0


def test_a_violated_statement_of_ours_is_a_failure(monkeypatch):
    claim = registry.find("fix:lip_grad_l", "any")
    wrong = replace(mutant(claim, claim.wrong[1]), printed=True)
    listed = tuple(wrong if one.key == claim.key else one for one in registry.claims())
    monkeypatch.setattr(plan.registry, "claims", lambda: listed)
    result = run_campaign("fix:lip_grad_l", 200, sizes="n=2,d=2")
    assert result.outcome == "failed" and result.confirmed == (False,)


def test_the_papers_pl_inequality_is_found_violated():
    result = run_campaign("lem:PL_ineq", 400, sizes="n=2..3,d=3")
    full = result.as_dict()["statements"][0]
    assert result.outcome == "passed" and full["violations"] > 10
    assert full["worst"]["in_balls"] == "violated" and full["worst"]["slack"] < 0


# one result, whatever happens on the way


IDS, ASKED = ["lem:PL_ineq", "thm:mat_view_l", "fix:lip_f", "fac:norm_bound"], 40


@pytest.fixture(scope="module")
def whole():
    return run_campaign(IDS, ASKED, seed=2, sizes=SIZES)


def same(one, other):
    return [
        {k: v for k, v in r.as_dict().items() if k not in ("instances_per_second", "resumed")} for r in (one, other)
    ]


def test_the_report_keeps_its_schema(whole):
    jsonschema.Draft202012Validator(SCHEMA).validate(whole.as_dict())
    assert [row["instances"] for row in whole.as_dict()["statements"]] == [ASKED] * 5


def test_the_order_does_not_matter(whole, monkeypatch):
    forward = workers.perform
    monkeypatch.setattr(run, "perform", lambda plan, groups, *rest: forward(plan, groups[::-1], *rest))
    one, other = same(whole, run_campaign(IDS[::-1], ASKED, seed=2, sizes=SIZES))
    assert one == other


@pytest.mark.thorough
def test_processes_need_nothing_but_the_standard_library(whole, monkeypatch):
    find = processes.find_spec
    monkeypatch.setattr(processes, "find_spec", lambda name: None if name == "joblib" else find(name))
    one, other = same(whole, run_campaign(IDS, ASKED, seed=2, sizes=SIZES, jobs=2))
    assert one == other


def test_an_interrupted_campaign_goes_on(whole, tmp_path):
    def interrupt(done, total):
        if done > 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_campaign(IDS, ASKED, seed=2, sizes=SIZES, out=tmp_path / "run", progress=interrupt)
    seen = []
    result = run_campaign(
        IDS, ASKED, seed=2, sizes=SIZES, out=tmp_path / "run", progress=lambda done, _: seen.append(done)
    )
    one, other = same(whole, result)
    assert one == other and result.resumed and seen[0] > 30 and not whole.resumed
    again = run_campaign(IDS, ASKED, seed=2, sizes=SIZES, out=tmp_path / "run")
    assert same(again, result)[0] == same(again, result)[1] and again.seconds == result.seconds
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["campaign.json"]


def test_the_worst_instance_alone_has_the_same_slack(whole):
    for claim, tally in zip(whole.plan.claims, whole.tallies, strict=True):
        if tally.worst is not None:
            found = examine(claim.id, tally.worst.index, seed=2, sizes=SIZES)
            alone = next(one for one in found if one.claim.key == claim.key)
            assert alone.slack == tally.worst.slack


def test_merging_is_associative_and_ordered():
    parts = [Tally(1, 1, 0, 0, LeastSlack(s, i, 2, 2)) for s, i in ((0.5, 3), (0.25, 7), (0.25, 2), (0.75, 1))]
    left = ((parts[0] + parts[1]) + parts[2]) + parts[3]
    assert left == parts[3] + (parts[2] + (parts[1] + parts[0])) and left.worst.index == 2
    assert Tally.from_dict(json.loads(json.dumps(left.as_dict()))) == left


def test_another_command_another_kernel_and_damage_are_refused(tmp_path, monkeypatch):
    out = tmp_path / "run"
    run_campaign("fix:lip_f", 40, sizes=SIZES, out=out)
    for change in ({"instances": 41}, {"seed": 1}, {"sizes": "n=2,d=2"}, {"ids": "fix:lip_c"}):
        settings = {"ids": "fix:lip_f", "instances": 40, "sizes": SIZES, "out": out} | change
        with pytest.raises(InvalidInstance, match="a folder of this very request; its request has another"):
            run_campaign(settings.pop("ids"), settings.pop("instances"), **settings)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(run, "kernel", lambda: {"blas": "other"})
        with pytest.raises(InvalidInstance, match="another kernel"):
            run_campaign("fix:lip_f", 40, sizes=SIZES, out=out)
        with pytest.raises(InvalidInstance, match="every worker must compute as this machine does"):
            run_campaign("fix:lip_f", 40, sizes=SIZES)
    (out / "campaign.json").write_text("{")
    with pytest.raises(InvalidInstance, match="as it was written"):
        run_campaign("fix:lip_f", 40, sizes=SIZES, out=out)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InvalidInstance, match="must be empty, new or"):
        run_campaign("fix:lip_f", 40, sizes=SIZES, out=tmp_path / "mine")


# what is asked for


@pytest.mark.parametrize("change", [{"code": "another"}, {"kernel": {**run.kernel(), "numpy": "0"}}])
def test_a_worker_with_other_code_or_libraries_is_refused(change, monkeypatch):
    honest = run.perform
    monkeypatch.setattr(run, "perform", lambda *args: (found._replace(**change) for found in honest(*args)))
    with pytest.raises(InvalidInstance, match="every worker must compute as this machine does"):
        run_campaign("fix:lip_f", 40, sizes=SIZES)


def test_only_statements_about_instances_are_attacked():
    attackable = {claim.id for claim in ATTACKED}
    for claim in registry.claims():
        if claim.id not in attackable:
            with pytest.raises(InvalidInstance, match="a campaign attacks statements about instances.*nearest are"):
                plan.CampaignPlan.of(claim.id, 1, 0, None)
    with pytest.raises(InvalidInstance, match="did you mean lem:PL_ineq"):
        plan.CampaignPlan.of("lem:PL_inq", 1, 0, None)
    assert [claim.reading.name for claim in plan.CampaignPlan.of("lem:PL_ineq", 1, 0, None).claims] == [
        "full",
        "causal",
    ]


@pytest.mark.parametrize("sizes", ["n=0", "n=3..2", "n=2..65", "m=3", "n=2,n=3", "n=", "", 7, {"k": 2}, {"n": 2.5}])
def test_bad_sizes(sizes):
    with pytest.raises(InvalidInstance, match="in sizes must|sizes must"):
        as_sizes(sizes)


def test_good_sizes():
    assert as_sizes(None) == as_sizes("n=2..8,d=2..8") == as_sizes({"n": (2, 8), "d": [2, 8]})
    assert as_sizes("d=4") == Sizes((2, 8), (4, 4))


def test_bad_settings():
    for instances, seed, message in ((0, 0, "instances"), (1.5, 0, "instances"), (5, -1, "seed"), (5, 2**64, "seed")):
        with pytest.raises(InvalidInstance, match=message):
            run_campaign("fix:lip_f", instances, seed=seed)
    with pytest.raises(InvalidInstance, match="jobs must"):
        run_campaign("fix:lip_f", 5, jobs=0)
    with pytest.raises(InvalidInstance, match="at least one"):
        run_campaign([], 5)


def test_a_scheduler_needs_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInstance, match="a Dask scheduler needs the extra `parallel`"):
        run_campaign("fix:lip_f", 5, scheduler="tcp://127.0.0.1:1")


def test_groups_are_asked_for_by_number():
    assert list(groups(33))[0] == Quota(0, 2)

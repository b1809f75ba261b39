"""What a picture shows is what was computed: every line, point and cell is compared with numbers from elsewhere."""

import json
from importlib.resources import files

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("matplotlib", reason="pictures need the extra 'plot'")

from attnprune_verify import Instance, attention, binary_mask, constants, loss, prune_mask_gd  # noqa: E402
from attnprune_verify.claims.registry import find  # noqa: E402  # after the skip
from attnprune_verify.cli.plot import KINDS, command  # noqa: E402
from attnprune_verify.errors import InvalidInput  # noqa: E402
from attnprune_verify.report.plots import audit, heatmaps, measured, slack, style, taylor  # noqa: E402
from attnprune_verify.report.plots.constants import Compared, compared, draw_constants, least_pl_ratio, most_curvature  # noqa: E402
from attnprune_verify.report.plots.descent import draw_descent, trajectories  # noqa: E402

RNG = np.random.default_rng(3)
SMALL = Instance(RNG.standard_normal((3, 4)), 0.3 * RNG.standard_normal((4, 4)), lam=0.04)
SCHEMA = str(files("attnprune_verify.report") / "schemas" / "audit.schema.json")
M = RNG.uniform(0.1, 0.9, (4, 4))


def lines(axes):
    return {line.get_label(): line.get_xydata() for line in axes.lines}


def test_heat_maps_hold_the_matrices():
    figure = heatmaps.draw_heatmaps(heatmaps.matrices(SMALL, M, 0.25))
    shown = {panel.get_title(): np.asarray(panel.images[0].get_array()) for panel in figure.axes if panel.images}
    kept, pruned = attention(SMALL.X, SMALL.W), attention(SMALL.X, M * SMALL.W)
    np.testing.assert_allclose(shown["F(1): attention, nothing pruned"], kept)
    np.testing.assert_allclose(shown["F(M): attention, pruned"], pruned)
    np.testing.assert_allclose(shown["c = F(M) - F(1)"], pruned - kept)
    np.testing.assert_allclose(shown["M, before rounding"], M)
    rounded = shown["M rounded, rho = 0.25"]
    assert (rounded == binary_mask(M, 0.25)).all() and (rounded == 0).sum() == 4
    np.testing.assert_allclose(shown["F at the rounded mask"], attention(SMALL.X, rounded * SMALL.W))
    signed = {
        panel.get_title() for panel in figure.axes if panel.images and panel.images[0].get_cmap().name != style.MAP
    }
    assert signed == {"c = F(M) - F(1)", "M, before rounding"}
    for panel in figure.axes:
        if panel.get_title() in signed:
            low, high = panel.images[0].get_clim()
            assert (
                -low == high == abs(shown[panel.get_title()]).max()
                and panel.images[0].get_cmap().name == style.AROUND_0
            )


def test_the_map_of_the_heat_maps_rises_in_lightness():
    import matplotlib as mpl

    red, green, blue, _ = mpl.colormaps[style.MAP](np.linspace(0, 1, 64)).T
    lightness = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    assert (np.diff(lightness) > 0).all()
    red, green, blue, _ = mpl.colormaps[style.AROUND_0](np.linspace(0, 1, 65)).T
    lightness = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    assert (np.diff(lightness[:33]) > 0).all() and (np.diff(lightness[32:]) < 0).all()  # white is 0


def test_series_differ_without_colour():
    looks = [(one["marker"], str(one["linestyle"])) for one in style.SERIES]
    assert len({marker for marker, _ in looks}) == len({dashes for _, dashes in looks}) == len(looks)


def test_the_remainder_is_that_of_the_loss_and_only_the_right_gradient_has_slope_two():
    found = taylor.remainders(SMALL, M)
    assert (found.right.status, found.wrong.status) == ("passed", "failed")
    axes = taylor.draw_taylor(found).axes[0]
    drawn = {label.partition(":")[0]: data for label, data in lines(axes).items()}
    right, wrong = drawn["the closed-form gradient"], drawn["a gradient that is 1% off"]
    step, remainder = right[0]
    direction = np.random.default_rng(0).choice([-1.0, 1.0], size=M.shape)
    from attnprune_verify import gradient

    data = (SMALL.X, SMALL.W, SMALL.lam)
    expected = loss(M + step * direction, *data) - loss(M, *data) - step * (gradient(M, *data) * direction).sum()
    assert remainder == pytest.approx(abs(expected), rel=1e-6)
    for points, least, most in ((right, 1.9, 2.1), (wrong, 0.9, 1.1)):
        h, values = points[(points[:, 0] < 1e-4 * step) & (points[:, 0] > 1e-8 * step)].T
        assert least < np.polyfit(np.log(h), np.log(values), 1)[0] < most
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_xlabel() and axes.get_ylabel()


def test_trajectories_are_those_of_the_descent():
    figure = draw_descent(trajectories(SMALL, 0.5, ("theorem", "literal-norm"), steps=7))
    alone = prune_mask_gd(SMALL.X, SMALL.W, 0.5, SMALL.lam, reading="literal-norm", steps=7).trace
    for panel, values in zip(figure.axes, (alone.loss, alone.gradient_norm, alone.outside / 16), strict=True):
        drawn = panel.lines[1].get_xydata()
        assert drawn[:, 0].tolist() == list(range(8))
        np.testing.assert_allclose(drawn[:, 1], values)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["theorem", "literal-norm"]


def test_the_axis_of_the_constants_has_whole_powers():
    """Steps of 2.5 had made 10^-7.5 of a tick."""
    axes = draw_constants([Compared("L", "lower", 8.5, -0.3, -1.3), Compared("eta", "higher", -8.5, 0.3, 1.3)]).axes[0]
    assert all(tick == int(tick) for tick in axes.get_xticks())


def test_constants_stand_where_their_logarithms_are():
    rows = compared(SMALL)
    found = constants(SMALL)
    axes = draw_constants(rows).axes[0]
    drawn = lines(axes)
    names = ("L", "mu", "xi", "T", "eta")
    expected = {"the paper's": [f"{name}_paper" for name in names]}
    expected["repaired, sharp"] = ["L_sharp", *(f"{name}_corrected" for name in names[1:])]
    for label, names in expected.items():
        assert drawn[label].tolist() == [[found.log10[name], place] for place, name in enumerate(names)]
    measured_at = dict(drawn["found on this instance"][:, ::-1].tolist())
    assert 10 ** measured_at[0] == pytest.approx(most_curvature(SMALL))
    assert 10 ** measured_at[1] == pytest.approx(least_pl_ratio(SMALL))
    # what is found lies on the side of the bound where it must
    assert SMALL.lam < most_curvature(SMALL) <= found.L_sharp < found.L_paper
    assert least_pl_ratio(SMALL) >= found.mu_corrected


def test_without_a_positive_constant_the_row_says_so():
    causal = Instance(SMALL.X, SMALL.W, mask="causal")  # delta = 0 over all positions, lam = 0
    axes = draw_constants(compared(causal)).axes[0]
    assert "the paper's" in lines(axes) and len(lines(axes)["the paper's"]) < 5
    assert any("no positive value" in text.get_text() for text in axes.texts)


def test_slacks_are_the_judges_and_the_refuted_lemma_is_left_of_zero():
    points = slack.slacks(("lem:PL_ineq", "fix:PL_ineq"))
    least = {bound: min(point.slack for point in points if point.bound == bound) for bound in ("lem:PL_ineq-full",
             "fix:PL_ineq-any")}  # fmt: skip
    assert least["lem:PL_ineq-full"] < -0.3 and abs(least["fix:PL_ineq-any"]) < 2e-9  # met, but for the margin of 1e-9
    axes = slack.draw_slack(points).axes[0]
    families = [label.get_text() for label in axes.get_yticklabels()]
    assert "orthonormal constant" in families and len(families) == len(set(families))
    drawn = {dots.get_label(): dots.get_offsets() for dots in axes.collections}
    for bound in least:
        chosen = [point for point in points if point.bound == bound]
        np.testing.assert_allclose(drawn[bound][:, 0], [point.slack for point in chosen])
        assert [families[round(y)] for y in drawn[bound][:, 1]] == [point.family for point in chosen]
    assert find("lem:PL_ineq", "full").test_id == "lem:PL_ineq-full"


def test_heads_stand_in_their_layers():
    rows = measured.stored_heads()
    figure = measured.draw_heads(rows, 0.5, ("sparsegpt", "fisher-obs"))
    panels = {panel.get_title(): np.asarray(panel.images[0].get_array()) for panel in figure.axes if panel.get_title()}
    assert set(panels) == {"sparsegpt", "fisher-obs"} and panels["fisher-obs"].shape == (6, 12)
    (one,) = {row["held_out"] for row in rows if (row["method"], row["rho"], row["layer"], row["head"]) ==
              ("fisher-obs", 0.5, 3, 5)}  # fmt: skip
    assert panels["fisher-obs"][3, 5] == one
    with pytest.raises(InvalidInput, match="not there: .*'nobody'"):
        measured.draw_heads(rows, 0.5, ("nobody",))
    with pytest.raises(InvalidInput, match=r"got 0\.123"):
        measured.draw_heads(rows, 0.123)


def document(*rhos):
    row = {"rest": "dense", "k": 4, "layer": None, "budget": "matrix", "pattern": None}
    rows = [row | {"attention": name, "rho": rho, "perplexity": 20 + 10 * rho + draw * 2 + (name == "wanda")}
            for name in ("auto", "wanda") for rho in rhos for draw in (0, 1)]  # fmt: skip
    return {"rows": rows, "dense": {"perplexity": 19.0}}


def test_perplexity_over_several_ratios_is_a_line():
    axes = measured.draw_perplexity(document(0.7, 0.5)).axes[0]
    drawn = lines(axes)
    np.testing.assert_allclose(drawn["auto, rest dense"], [[0.5, 26.0], [0.7, 28.0]])
    np.testing.assert_allclose(drawn["wanda, rest dense"], [[0.5, 27.0], [0.7, 29.0]])
    assert drawn["dense model"][:, 1].tolist() == [19.0, 19.0]


def test_perplexity_at_one_ratio_is_a_row_per_method():
    axes = measured.draw_perplexity(document(0.5)).axes[0]
    np.testing.assert_allclose(lines(axes)["pruned"], [[26.0, 0], [27.0, 1]])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["auto, rest dense", "wanda, rest dense"]
    assert "0.5" in axes.get_xlabel()


def checked(name, function, status, error, bound):
    return {"id": f"{function}:{name}", "function": function, "status": status,
            "evidence": {"error": error, "bound": bound}}  # fmt: skip


def test_errors_of_an_audit_stand_in_multiples_of_the_bound():
    checks = [
        checked("values:plain", "attention", "passed", 1e-7, 1e-5),
        checked("values:plain", "attention_backward", "failed", 3e-4, 1e-5),
        checked("values:causal", "attention", "failed", "nan", 0.0),
        checked("values:zeros", "attention", "inconclusive", 0.0, 1e-5),
        checked("shape", "attention", "passed", None, None),
    ]
    figure = audit.draw_audit("mine.py", checks)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["values:causal", "values:plain", "values:zeros"]
    bound, *points = axes.lines
    assert list(bound.get_xdata()) == [1.0, 1.0] and axes.get_xscale() == "log"
    drawn = {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0], line.get_fillstyle()) for line in points}
    low, high = axes.get_xlim()
    assert drawn["attention, passed"] == (pytest.approx(0.01), 1, "none")
    assert drawn["attention_backward, failed"] == (pytest.approx(30.0), 1, "full")
    assert drawn["attention, failed"] == (high, 0, "full") and drawn["attention, inconclusive"] == (low, 2, "left")
    assert "5 checks: 2 failed, 1 inconclusive, 2 passed; 1 without an error" in figure.get_suptitle()
    assert {text.get_text() for text in figure.legends[0].get_texts()} == {*drawn, bound.get_label()}


def test_fourteen_functions_look_different():
    checks = [checked("values:plain", f"function_{number}", "passed", 0.5, 1.0) for number in range(14)]
    points = audit.draw_audit("mine.py", checks).axes[0].lines[1:]
    assert len({(line.get_color(), line.get_marker()) for line in points}) == 14


def test_a_report_without_errors_is_refused(tmp_path):
    path = tmp_path / "report.json"
    report = {"schema": "attnprune-verify/audit/1", "target": {"spec": "mine.py"}}
    path.write_text(json.dumps(report | {"checks": [checked("shape", "attention", "passed", None, None)]}))
    with pytest.raises(InvalidInput, match="none of its 1 checks has an error"):
        audit.read_audit(path)


def measured_on_a_model():
    setting = {"size": "0.5", "k": 8, "n": 256, "blocks": []}
    few = [setting | {"method": "wanda", "blocks": [4, 14], "seed": 0, "seconds": 1.0, "KL novel": [1.0, 1.0]}]
    values = {("wanda", 0): [0.2, 0.4], ("alps", 0): [0.1, 0.3], ("wanda", 1): [0.4, 0.4], ("alps", 1): [0.2, 0.1]}
    return few + [setting | {"method": method, "seed": seed, "seconds": 10.0 * len(method) + seed, "KL novel": windows}
                  for (method, seed), windows in values.items()]  # fmt: skip


def test_the_cost_of_a_method_is_paired_by_window(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in measured_on_a_model()))
    rows = measured.read_costs(path)
    assert all(row["blocks"] == [] for row in rows) and len(rows) == 4
    first, second = measured.costs(rows)
    ratios = np.array([0.15 / 0.3, 0.2 / 0.4])  # of the means over both draws, in either window
    assert first == ("wanda", "novel", 50.5, 1.0, 1.0, 1.0)
    assert second[2:] == pytest.approx((40.5, 0.5, 0.5, 0.5)) and ratios.tolist() == [0.5, 0.5]
    renamed = [row | {"method": {"alps": "sparsegpt"}.get(row["method"], row["method"])} for row in rows]
    assert [point.ratio for point in measured.costs(renamed)] == pytest.approx([2.0, 1.0])  # whatever stands first
    rows[1]["KL novel"] = [0.3, 0.3]  # ratios 0.25 / 0.3 and 0.5
    from scipy.stats import ttest_1samp

    logs = np.log([0.25 / 0.3, 0.5])
    interval = np.exp(ttest_1samp(logs, 0.0).confidence_interval(0.95))
    assert measured.costs(rows)[1][3:] == pytest.approx((np.exp(logs.mean()), *interval))
    axes = measured.draw_costs(rows).axes[0]
    bars = {container.get_label(): container.lines[0].get_xydata()[0] for container in axes.containers}
    np.testing.assert_allclose(bars["alps"], [40.5, np.exp(logs.mean())])
    assert axes.get_xscale() == "log" and axes.get_title() == "novel: 1 is the KL of wanda, 0.35 nats"


def test_the_command_writes_what_its_ending_says(tmp_path):
    (tmp_path / "perplexity.json").write_text(json.dumps(document(0.5, 0.7)))
    picture = tmp_path / "it.png"
    result = CliRunner().invoke(command, ["perplexity", str(tmp_path), "--out", str(picture)], standalone_mode=False)
    assert result.return_value == 0 and picture.read_bytes().startswith(b"\x89PNG")
    twice = [tmp_path / f"{number}" / "it.svg" for number in (1, 2)]
    for path in twice:
        path.parent.mkdir()
        CliRunner().invoke(command, ["perplexity", str(tmp_path), "--out", str(path)], standalone_mode=False)
    assert twice[0].read_bytes() == twice[1].read_bytes() != b""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["taylor", "--out", "it.txt"], "--out must end in"),
        (["slack", "some.npz", "--out", "it.png"], "slack takes no SOURCE"),
        (["slack", "--claim", "lem:nothing", "--out", "it.png"], "lem:nothing"),
        (["perplexity", "--out", "it.png"], "needs SOURCE"),
        (["perplexity", ".", "--out", "it.png"], "experiment perplexity"),
        (["heads", ".", "--out", "it.png"], "experiment layer"),
        (["audit", "--out", "it.png"], "needs SOURCE, a report"),
        (["audit", SCHEMA, "--out", "it.png"], "audit.schema.json: no 'schema'"),
        (["cost", "--out", "it.png"], "needs SOURCE, the rows.jsonl"),
        (["cost", SCHEMA, "--out", "it.png"], "benchmarks.real_model run` has written is needed"),
        (["descent", "--reading", "mine", "--out", "it.png"], "reading must be one of"),
    ],
)
def test_wrong_usage_is_said(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = CliRunner().invoke(command, words, standalone_mode=False).exception
    assert says in getattr(error, "message", str(error))
    assert list(tmp_path.iterdir()) == []


def test_the_extra_is_named_where_it_is_missing(monkeypatch, tmp_path):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    error = CliRunner().invoke(command, ["taylor", "--out", str(tmp_path / "it.png")], standalone_mode=False).exception
    assert "pip install 'attnprune-verify[plot]'" in str(error)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("perplexity", "audit", "cost")])
def test_every_kind_is_drawn_without_a_source(kind, tmp_path):
    path = tmp_path / "it.svg"
    CliRunner().invoke(command, [kind, "--out", str(path)], standalone_mode=False, catch_exceptions=False)
    assert "<svg" in path.read_text()

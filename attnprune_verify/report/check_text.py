"""The result of ``attnprune-verify check`` as text, the most important line first."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnprune_verify.check import CheckResult
from attnprune_verify.instance.layer import AttentionLayer
from attnprune_verify.instance.problem import Instance
from attnprune_verify.report.numbers import scientific
from attnprune_verify.theory.assumptions import Assumption
from attnprune_verify.theory.constants import Constants
from attnprune_verify.theory.layers import LayerAssumption, LayerConstants

_GOOD, _BAD, _UNSURE, _PLAIN = "green", "bold red", "yellow", ""
_STYLE = {
    "passed": _GOOD,
    "holds": _GOOD,
    "failed": _BAD,
    "violated": _BAD,
    "inconclusive": _UNSURE,
    "undecided": _UNSURE,
    "not_applicable": "dim",
}
_FUSED = "The closed-form gradient W * (X^T p X) + lam M against independent oracles"
_PAIR = "The closed-form gradients in M_Q and M_K, summed over heads, against independent oracles"
_PAIRS = (
    ("Lipschitz constant of the gradient", "L_paper", "L_sharp"),
    ("mu of the PL inequality", "mu_paper", "mu_corrected"),
    ("xi, the error term", "xi_paper", "xi_corrected"),
    ("T, the number of steps", "T_paper", "T_corrected"),
    ("step size eta = 1/L", "eta_paper", "eta_corrected"),
)


def render_check(result: CheckResult) -> Group:
    """Return the result of `run_check` as a rich renderable."""
    return Group(
        _title(result),
        Text(),
        _headline(result),
        Text(),
        _assumptions(result),
        _gradient(result),
        _constants(result.constants),
        _bounds(result),
        _theorem(result),
        *_mask_gaps(result),
        Text(),
        Text(closing_sentence(result), style="bold"),
    )


def _mask_gaps(result: CheckResult) -> list[RenderableType]:
    """Return the table of the best masks found, each beside the lower bound of all masks with as many ones."""
    if result.mask_gaps is None:
        return []
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("map", "kept", "no mask has less than", "best found", "ratio", ""):
        table.add_column(column)
    for one in result.mask_gaps:
        name = one.map if one.head is None else f"{one.map}, head {one.head}"
        if one.gap is None:
            table.add_row(name, "", "", "", "", one.note)
        else:
            numbers = (scientific(one.gap.bound), scientific(one.gap.best_kl), f"{one.gap.ratio:.3g}")
            table.add_row(name, str(one.gap.ones), *numbers, f"in {one.gap.arithmetic}")
    title = "The best masks: mean over rows of KL(F(1) || F(M)) in nats, every mask with as many ones"
    return [Text(), Text(title, style="bold"), table]


def closing_sentence(result: CheckResult) -> str:
    """Return the report's last sentence: the gradient's verdict, the theorem's, and the outcome."""
    passed = sum(v.status == "passed" for v in result.gradient)
    total = len(result.gradient)
    if any(v.status == "failed" for v in result.gradient):
        gradient = f"The closed-form gradient is refuted here by {', '.join(_named(result, 'failed'))}"
    elif passed == total:
        gradient = f"The closed-form gradient is right here: all {total} oracles agree within rounding"
    else:
        open_ = ", ".join(_named(result, "inconclusive"))
        gradient = f"The closed-form gradient is not fully decided here ({open_}){_way_out(result)}"
    if not result.theorem.applies:
        theorem = "the paper's convergence theorem does not apply"
    elif result.theorem.vacuous:
        theorem = "the paper's convergence theorem applies but says nothing"
    else:
        theorem = "the paper's convergence theorem applies"
    return f"{gradient}; {theorem}. Outcome: {result.outcome}{_because(result)}."


def _way_out(result: CheckResult) -> str:
    """The option with which every check runs that needs more effort than was allowed."""
    enough = max((v.needs for v in result.gradient if v.needs is not None), default=None)
    return "" if enough is None else f": --effort {enough:g} lets them run"


def _because(result: CheckResult) -> str:
    """Return the reason of a failure that no oracle gives: violated bounds or, under --strict, failing assumptions."""
    if result.outcome != "failed":
        return ""
    bounds = [bound.id for bound in result.bounds if bound.status == "violated" and bound.id.startswith("fix:")]
    if bounds:
        return f", {', '.join(bounds)} violated"
    if _named(result, "failed"):
        return ""
    return f", under --strict by {', '.join(a.id for a in result.assumptions if not a.holds)}"


def _named(result: CheckResult, status: str) -> list[str]:
    return [v.oracle for v in result.gradient if v.status == status]


def _title(result: CheckResult) -> Text:
    instance = result.instance
    samples = "one sample" if instance.k is None else f"k = {instance.k} samples"
    mask = {None: "no mask", "causal": "causal mask", "given": "a given mask"}[instance.mask_kind]
    sizes = f"n = {instance.n}, d = {instance.d}, {samples}, {mask}, lam = {instance.lam:g}"
    more = "" if isinstance(instance, Instance) else f", {_layer(instance.layer)}"
    return Text.assemble(("attnprune-verify check", "bold"), f"  {sizes}{more}")


def _layer(layer: AttentionLayer) -> str:
    parts = [f"{layer.heads} heads of {layer.m} on {layer.kv_heads} of keys, scale {layer.scale:.4g}"]
    parts += ["biases"] if layer.b_Q is not None or layer.b_K is not None else []
    parts += [] if layer.rope is None else [f"rotary positions (theta {layer.rope.theta:g}, {layer.rope.layout})"]
    parts += [] if layer.window is None else [f"window {layer.window}"]
    parts += [] if layer.softcap is None else [f"softcap {layer.softcap:g}"]
    parts += [] if layer.alibi is None else ["ALiBi"]
    return ", ".join(parts)


def _headline(result: CheckResult) -> Text:
    failing = [a for a in result.assumptions if not a.holds and _known(a)]
    if all(a.holds for a in result.assumptions):
        return Text("Every assumption of the paper's theorem holds on this instance.", style=_GOOD)
    if not failing:
        return Text("No assumption of the paper that this layer has a number for fails.", style=_UNSURE)
    names = " and ".join(", ".join(a.id for a in failing).rsplit(", ", 1))
    return Text(f"Assumptions of the paper that fail on this instance: {names}.", style=_BAD)


def _table(title: str, *columns: tuple[str, str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in columns:
        table.add_column(
            name, justify="right" if justify == "right" else "left", overflow="fold", no_wrap=justify != "fold"
        )
    return table


def _status(status: str) -> Text:
    return Text(status.replace("_", " "), style=_STYLE.get(status, _PLAIN))


def _assumptions(result: CheckResult) -> RenderableType:
    table = _table("Assumptions", ("", "left"), ("", "left"), ("value", "right"), ("why, and what it means", "fold"))
    for a in sorted(result.assumptions, key=lambda a: a.holds):
        verdict = _status("holds") if a.holds else Text("FAILS", style=_BAD) if _known(a) else Text("none", style="dim")
        table.add_row(Text(a.id), verdict, scientific(a.value, a.log10) if _known(a) else "", Text(a.reason))
    return Group(table, Text())


def _gradient(result: CheckResult) -> RenderableType:
    table = _table(
        _FUSED if isinstance(result.instance, Instance) else _PAIR,
        ("oracle", "left"),
        ("", "left"),
        ("value", "right"),
        ("allowed", "right"),
        ("compared", "fold"),
    )
    for v in result.gradient:
        table.add_row(v.oracle, _status(v.status), scientific(v.value), scientific(v.tolerance), Text(v.note))
    return Group(table, Text())


def _known(found: Assumption) -> bool:
    return not isinstance(found, LayerAssumption) or found.known


def _constants(numbers: Constants | LayerConstants) -> RenderableType:
    of_layer = isinstance(numbers, LayerConstants)
    table = _table(
        "Constants, of the worst head" if of_layer else "Constants",
        ("", "left"), ("the paper's", "right"), ("corrected", "right"),
    )  # fmt: skip
    for label, printed, corrected in _PAIRS:
        table.add_row(label, *(_number(numbers, name) for name in (printed, corrected)))
    between = f"{_number(numbers, 'K_lower', 6)} .. {_number(numbers, 'K', 6)}"
    table.add_row("K, norm of M to centred logits", "", between)
    reasons = dict.fromkeys(numbers.reasons.values()) if isinstance(numbers, LayerConstants) else {}
    return Group(table, *(Text(f"none: {reason}.") for reason in reasons), Text())


def _number(numbers: Constants | LayerConstants, name: str, digits: int = 3) -> str:
    value = numbers[name]
    return "none" if value is None else scientific(value, numbers.log10.get(name), digits)


def _bounds(result: CheckResult) -> RenderableType:
    table = _table(
        "Bounds evaluated on this instance",
        ("", "left"),
        ("", "left"),
        ("left", "right"),
        ("right", "right"),
        ("", "fold"),
    )
    for b in result.bounds:
        table.add_row(b.id, _status(b.status), scientific(b.lhs), scientific(b.rhs), Text(b.note))
    return Group(table, Text())


def _theorem(result: CheckResult) -> RenderableType:
    verdict = result.theorem
    words = ("applies" if verdict.applies else "does not apply") + (", vacuous" if verdict.vacuous else "")
    style = _GOOD if verdict.applies and not verdict.vacuous else _BAD
    lines = [Text.assemble(("thm:our_convergence ", "bold"), (words, style))]
    table = Table.grid(padding=(0, 1))
    for reason in verdict.reasons:
        table.add_row("-", Text(reason))
    instead = Table.grid(padding=(0, 1))
    for guarantee in verdict.guarantees:
        if guarantee.applies:
            instead.add_row("-", Text(f"{guarantee.id}: {guarantee.says}"))
    if not instead.row_count:
        return Group(*lines, table)
    return Group(*lines, table, Text(), Text("Guaranteed instead, for descent from M = 1", style="bold"), instead)

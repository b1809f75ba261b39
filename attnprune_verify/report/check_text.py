"""The result of ``attnprune-verify check`` as text that says the important thing first."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from attnprune_verify.checking.run import CheckResult
from attnprune_verify.report.numbers import scientific
from attnprune_verify.theory.constants import Constants

__all__ = ["closing_sentence", "render_check"]

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
_PAIRS = (
    ("Lipschitz constant of the gradient", "L_paper", "L_sharp"),
    ("mu of the PL inequality", "mu_paper", "mu_corrected"),
    ("xi, the error term", "xi_paper", "xi_corrected"),
    ("T, the number of steps", "T_paper", "T_corrected"),
    ("step size eta = 1/L", "eta_paper", "eta_corrected"),
)


def render_check(result: CheckResult) -> Group:
    """Everything `run_check` found, as a rich renderable."""
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
        Text(),
        Text(closing_sentence(result), style="bold"),
    )


def closing_sentence(result: CheckResult) -> str:
    """What to remember, in one sentence."""
    passed = sum(v.status == "passed" for v in result.gradient)
    total = len(result.gradient)
    if any(v.status == "failed" for v in result.gradient):
        gradient = f"The closed-form gradient is refuted here by {', '.join(_named(result, 'failed'))}"
    elif passed == total:
        gradient = f"The closed-form gradient is right here: all {total} oracles agree within rounding"
    else:
        gradient = f"The closed-form gradient is not fully decided here ({', '.join(_named(result, 'inconclusive'))})"
    if not result.theorem.applies:
        theorem = "the paper's convergence theorem does not apply"
    elif result.theorem.vacuous:
        theorem = "the paper's convergence theorem applies but says nothing"
    else:
        theorem = "the paper's convergence theorem applies"
    return f"{gradient}; {theorem}. Outcome: {result.outcome}."


def _named(result: CheckResult, status: str) -> list[str]:
    return [v.oracle for v in result.gradient if v.status == status]


def _title(result: CheckResult) -> Text:
    instance = result.instance
    samples = "one sample" if instance.k is None else f"k = {instance.k} samples"
    mask = {None: "no mask", "causal": "causal mask", "given": "a given mask"}[instance.mask_kind]
    return Text.assemble(
        ("attnprune-verify check", "bold"),
        f"  n = {instance.n}, d = {instance.d}, {samples}, {mask}, lam = {instance.lam:g}",
    )


def _headline(result: CheckResult) -> Text:
    failing = [a for a in result.assumptions if not a.holds]
    if not failing:
        return Text("Every assumption of the paper's theorem holds on this instance.", style=_GOOD)
    names = " and ".join(", ".join(a.id for a in failing).rsplit(", ", 1))
    verb = "fails" if len(failing) == 1 else "fail"
    return Text(f"Assumptions of the paper that fail on this instance: {names} {verb}.", style=_BAD)


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
        verdict = _status("holds") if a.holds else Text("FAILS", style=_BAD)
        table.add_row(Text(a.id), verdict, scientific(a.value, a.log10), Text(a.reason))
    return Group(table, Text())


def _gradient(result: CheckResult) -> RenderableType:
    table = _table(
        "The closed-form gradient W * (X^T p X) + lam M against independent oracles",
        ("oracle", "left"),
        ("", "left"),
        ("value", "right"),
        ("allowed", "right"),
        ("compared", "fold"),
    )
    for v in result.gradient:
        table.add_row(v.oracle, _status(v.status), scientific(v.value), scientific(v.tolerance), Text(v.note))
    return Group(table, Text())


def _constants(numbers: Constants) -> RenderableType:
    table = _table("Constants", ("", "left"), ("the paper's", "right"), ("corrected", "right"))
    for label, printed, corrected in _PAIRS:
        shown = (scientific(numbers[name], numbers.log10.get(name)) for name in (printed, corrected))
        table.add_row(label, *shown)
    between = f"{scientific(numbers.K_lower, digits=6)} .. {scientific(numbers.K, digits=6)}"
    table.add_row("K, norm of M to centred logits", "", between)
    return Group(table, Text())


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
    return Group(*lines, table, Text(), Text("Guaranteed instead, for descent from M = 1", style="bold"), instead)

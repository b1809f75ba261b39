"""A campaign, and one of its instances, as text."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from attnprune_verify.claims.campaign.examine import Examined
from attnprune_verify.claims.campaign.run import CampaignResult
from attnprune_verify.files import dumps


def render_campaign(result: CampaignResult) -> Group:
    """Render each statement with its counts and its worst instance, then the closing sentence."""
    plan = result.plan
    n, d = (f"{first}" if first == last else f"{first} to {last}" for first, last in plan.sizes)
    parts: list[RenderableType] = [
        Text("attnprune-verify campaign", style="bold"),
        Text(f"{plan.instances:,} instances, n {n}, d {d}, seed {plan.seed}"),
        Text(),
    ]
    for claim, tally, sure in zip(plan.claims, result.tallies, result.confirmed, strict=True):
        style = "bold red" if tally.violations else "green"
        parts.append(Text(f"{claim.id} ({claim.reading.name})", style=style))
        counts = f"  met by {tally.met:,}, violated {tally.violations:,}, undecided {tally.undecided:,}"
        parts.append(Text(counts))
        if tally.worst is not None:
            w = tally.worst
            size = f", n = {w.n}, d = {w.d}" if w.n else ""
            word = {True: "balls: holds", False: "balls: violated", None: "not decided in balls"}[sure]
            parts.append(Text(f"  worst slack {w.slack:.6g} at instance {w.index}{size}; {word}"))
    rate = f"{result.rate:,.0f} instances a processor second, each statement counted"
    return Group(*parts, Text(), Text(rate), Text(closing_sentence(result), style="bold"))


def closing_sentence(result: CampaignResult) -> str:
    """Return the report's last line: the violated statements and the outcome, "judged" where all are the paper's."""
    found = _names(list(dict.fromkeys(claim.id for claim in result.found)))
    broken = _names(list(dict.fromkeys(claim.id for claim in result.broken)))
    paper = f"Violated statements of the paper: {found}." if found else "No statement of the paper was violated."
    own = f" Violated statements of ours, which is an error: {broken}." if broken else ""
    of_ours = any(claim.own for claim in result.plan.claims)
    outcome = "judged" if result.outcome == "passed" and not of_ours else result.outcome
    return f"{paper}{own} Outcome: {outcome}."


def _names(ids: Sequence[str]) -> str:
    return ", ".join(ids)


def render_instance(found: Sequence[Examined]) -> Group:
    """One instance under each statement: its values, whether the statement holds there, and the slack."""
    parts: list[RenderableType] = []
    for one in found:
        parts.append(Text(f"{one.claim.id} ({one.claim.reading.name}): {one.case.origin}", style="bold"))
        for name, value in one.case.as_json().items():
            parts.append(Text(f"  {name} = {dumps(value, None).strip()}"))
        parts.append(Text(f"  slack {one.slack!r}, {one.state}; in balls: {one.in_balls}"))
    return Group(*parts)

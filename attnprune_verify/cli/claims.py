"""``attnprune-verify claims``: every statement of the paper, its verdict and its evidence."""

import click

from attnprune_verify.cli.terminal.output import EXIT, deliver, output_file

_VERDICTS = ("holds", "refuted", "misstated", "ill-posed", "not-reproduced", "vacuous", "open")


@click.command(name="claims", epilog="Example: attnprune-verify claims --format html --out claims.html")
@click.option("--format", "form", type=click.Choice(["text", "json", "html"]), default="text", show_default=True)
@click.option("--out", type=click.Path(), metavar="FILE", help="Write to FILE instead of the terminal.")
@click.option(
    "--thorough", is_flag=True, help="Try ten times as many cases for each statement: minutes instead of seconds."
)
@click.option("--jobs", type=int, help="Processes that judge.  [default: one per core, if they pay]")
@click.option("--quiet", is_flag=True, help="No progress; as text, only the closing sentence.")
@click.argument("ids", nargs=-1, metavar="[ID]...|FILE.py")
@click.option(
    "--verdict",
    "verdicts",
    multiple=True,
    type=click.Choice(_VERDICTS),
    help="Show only this verdict (may be repeated).",
)
def command(
    form: str,
    out: str | None,
    thorough: bool,
    jobs: int | None,
    quiet: bool,
    ids: tuple[str, ...],
    verdicts: tuple[str, ...],
) -> int:
    """Judge every statement of the paper, and every repaired and new one, or only those named.

    FILE.py instead of ids: the claims of its module-level CLAIMS. What holds is `open` where its formula is not what is
    computed, `uses` names what is none, or a wrong neighbour is not refuted; the reason names it.

    Each is attacked by adversarial families, guided random search, limits and optimisation; a violation counts only
    when exact or ball arithmetic confirms it. The verdict on the printed proof is listed with the verdict on the
    statement.

    Exit code 0 when everything was computed (a refuted statement of the paper is a finding), 1 when a repaired or new
    statement fails, 2 for wrong usage, 3 when something could not be run or decided.
    """
    target = output_file(out)
    from attnprune_verify.claims.judging.falsifier import QUICK, THOROUGH
    from attnprune_verify.claims.run import ClaimsResult, run_claims, run_own_claims
    from attnprune_verify.cli.terminal.progress import progress_bar
    from attnprune_verify.state.processes import cores
    from attnprune_verify.values import as_count

    processes, effort = as_count("jobs", cores() if jobs is None else jobs, least=1), THOROUGH if thorough else QUICK
    if any(id.endswith(".py") for id in ids):
        if len(ids) > 1:
            raise click.UsageError("FILE.py must be given without ids or other files")
        result = run_own_claims(ids[0], effort)
    else:
        with progress_bar("judging statements", show=not quiet) as tell:
            result = run_claims(effort, tell, ids=ids, processes=processes)
    if verdicts:
        result = ClaimsResult(tuple(one for one in result.records if one.statement.value in verdicts))
    if form == "json":
        from attnprune_verify.files import dumps

        deliver(dumps(result.as_dict()), target)
    elif form == "html":
        from attnprune_verify.report.claims_html import render_page

        deliver(render_page(result), target)
    else:
        from rich.console import Group
        from rich.text import Text

        from attnprune_verify.report.claims_text import closing_sentence, render_claims

        reasons = [
            f"{record.claim.test_id}: {record.note}" for record in result.records if ids and ids[0].endswith(".py")
        ]
        text = closing_sentence(result) + "\n" if quiet else Group(render_claims(result), *map(Text, reasons))
        deliver(text, target, width=80)
    return EXIT[result.outcome]
